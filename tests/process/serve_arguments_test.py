# SPDX-License-Identifier: Apache-2.0
"""What tools/serve makes of its arguments, told by --dry-run: nothing is installed, built or started."""
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TINY = os.path.join(ROOT, "deploy", "models", "phalanx-tiny")
# What phalanxd takes where neither arguments nor environment nor file say anything.
DEFAULTS = ["--default", "model=" + TINY, "--default", "dp=2", "--default", "tp=2"]


class ServeArguments(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        os.mkdir(os.path.join(self.folder, "own model"))

    def serve(self, *arguments, environment=None, tool=os.path.join(ROOT, "tools", "serve"), folder=None):
        """(exit status, standard output, standard error), run in a folder that is not that of the tree if none is named."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PHALANX_")}
        result = subprocess.run([tool, *arguments], cwd=folder or self.folder, env={**clean, **(environment or {})}, timeout=60,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return result.returncode, result.stdout, result.stderr

    def passed_on(self, *arguments, environment=None):
        """The arguments that phalanxd would get behind the defaults."""
        status, output, errors = self.serve("--dry-run", *arguments, environment=environment)
        self.assertEqual((status, errors), (0, ""))
        label, program, *rest = shlex.split(output)
        self.assertEqual((label, program), ("serve:", os.path.join(ROOT, "build", "release", "bin", "phalanxd")))
        self.assertEqual(rest[:len(DEFAULTS)], DEFAULTS)
        return rest[len(DEFAULTS):]

    def test_arguments_are_passed_on_as_they_are(self):
        os.mkdir(os.path.join(self.folder, "-m"))
        for given in ([], ["--tp", "3", "--port=0"], ["-dp", "1"], ["--data_parallel_size", "1"], ["own model"],
                      ["--model", "own model"], ["--model=own model"], ["--port", "1", "--", "own model"],
                      ["--port", "1", "--", "-m"], ["--prompt", "-h", "own model"]):
            self.assertEqual(self.passed_on(*given), given)
        for value in ("-", "- my_list", "--- a line"):
            self.assertEqual(self.passed_on("--prompt", value, "own model"), ["--prompt", value, "own model"])
        self.assertEqual(self.passed_on(environment={"PHALANX_MODEL": "m", "PHALANX_TP": "1"}), [])

    def test_phalanxd_decides_what_a_file_sets(self):
        path = os.path.join(self.folder, "my.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write('served-model-name = """\ntp = 1\n"""\ndevices = [\n]\ndp = 1\n')
        for given, environment in (([], {"PHALANX_CONFIG": path}), (["--config", "my.toml"], {}), (["--config=" + path], {})):
            self.assertEqual(self.passed_on(*given, environment=environment), given)

    def test_unknown_words_are_refused_before_anything_is_built(self):
        for arguments, status, words in ((["help"], 64, '"help" is no option'),
                                         (["own model", "other"], 64, 'unexpected word "other"'),
                                         (["--model", "own model", "other"], 64, 'unexpected word "other"'),
                                         (["--model", "missing"], 66, 'no model at "missing"'),
                                         (["--config", "missing.toml"], 66, 'no configuration file at "missing.toml"')):
            found, output, errors = self.serve(*arguments)
            self.assertEqual((found, output, errors.count("\n")), (status, "", 1), errors)
            self.assertIn(words, errors)
            self.assertIn("tools/serve --help", errors)

    def test_help_tells_the_options_of_both_and_builds_nothing(self):
        alone = os.path.join(self.folder, "tools")
        os.mkdir(alone)
        tool = shutil.copy(os.path.join(ROOT, "tools", "serve"), alone)
        program = os.path.join(self.folder, "build", "release", "bin", "phalanxd")
        for spelled in ("-h", "--help", "-help"):
            status, output, _ = self.serve("--tp", "2", spelled, tool=tool)
            self.assertEqual(status, 0)
            self.assertIn("usage: tools/serve", output)
            self.assertIn("docs/operations.md", output)
        os.makedirs(os.path.dirname(program))
        with open(program, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "options of phalanxd: $*"\n')
        os.chmod(program, 0o755)
        _, output, _ = self.serve("-h", tool=tool)
        self.assertIn("usage: tools/serve", output)
        self.assertIn("options of phalanxd: --help", output)

    def test_it_knows_which_options_of_phalanxd_stand_alone(self):
        with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| (`--.*`--no-[a-z-]+`) \|", file.read(), re.MULTILINE)
        with open(os.path.join(ROOT, "libs", "settings", "src", "refused_flags.cc"), encoding="utf-8") as file:
            refused = file.read().partition("kRefusedSwitches[] = {")[2].partition("};")[0]
        names = [name for row in rows for name in re.findall(r"`--(?!no-)([a-z-]+)`", row)]
        foreign = [name for names in re.findall(r'{"([a-z,-]+)",', refused) for name in names.split(",")]
        self.assertIn("enable-prefix-caching", names)
        self.assertIn("disable-fastapi-docs", foreign)
        for name in names + foreign:
            for spelled in (f"--{name}", f"--no-{name}"):
                status, output, errors = self.serve("--dry-run", spelled, "no model")
                self.assertEqual((status, output), (64, ""), spelled)
                self.assertIn('"no model" is no option', errors)

    def test_it_finds_its_tree_through_links_and_beside_other_folders(self):
        os.makedirs(os.path.join(self.folder, "elsewhere", "tools"))
        link = os.path.join(self.folder, "serve")
        os.symlink(os.path.join(ROOT, "tools", "serve"), link)
        _, expected, _ = self.serve("--dry-run")
        self.assertEqual(self.serve("--dry-run", tool=link), (0, expected, ""))
        beside = {"CDPATH": os.path.join(self.folder, "elsewhere")}
        self.assertEqual(self.serve("--dry-run", tool="tools/serve", folder=ROOT, environment=beside), (0, expected, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)

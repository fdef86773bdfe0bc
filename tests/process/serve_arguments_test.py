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
DEFAULTS = ["--model", TINY, "--dp", "2", "--tp", "2"]


class ServeArguments(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        os.mkdir(os.path.join(self.folder, "own model"))

    def serve(self, *arguments, environment=None, tool=os.path.join(ROOT, "tools", "serve")):
        """(exit status, standard output, standard error), run in a folder that is not that of the tree."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PHALANX_")}
        result = subprocess.run([tool, *arguments], cwd=self.folder, env={**clean, **(environment or {})}, timeout=60,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return result.returncode, result.stdout, result.stderr

    def started(self, *arguments, environment=None):
        """The arguments that phalanxd would get."""
        status, output, errors = self.serve("--dry-run", *arguments, environment=environment)
        self.assertEqual((status, errors), (0, ""))
        label, program, *rest = shlex.split(output)
        self.assertEqual((label, program), ("serve:", os.path.join(ROOT, "build", "release", "bin", "phalanxd")))
        return rest

    def config(self, text):
        with open(os.path.join(self.folder, "my.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        return "my.toml"

    def test_without_arguments_the_built_in_model_is_served(self):
        self.assertEqual(self.started(), DEFAULTS)

    def test_arguments_are_passed_on_and_win(self):
        self.assertEqual(self.started("--tp", "3", "--port=0"), ["--tp", "3", "--port=0", "--model", TINY, "--dp", "2"])
        for spelled in (("-dp", "1"), ("--data-parallel-size=1",), ("--data_parallel_size", "1")):
            self.assertEqual(self.started(*spelled), [*spelled, "--model", TINY, "--tp", "2"])

    def test_a_model_is_a_word_or_an_option(self):
        for given in (["own model"], ["--model", "own model"], ["--model=own model"]):
            self.assertEqual(self.started(*given), [*given, "--dp", "2", "--tp", "2"])
        self.assertEqual(self.started("--no-apply-chat-template", "own model")[:2], ["--no-apply-chat-template", "own model"])

    def test_words_behind_two_dashes_and_values_that_begin_with_one(self):
        os.mkdir(os.path.join(self.folder, "-m"))
        for model in ("own model", "-m"):
            self.assertEqual(self.started("--port", "1", "--", model), ["--port", "1", "--model=" + model, "--dp", "2", "--tp", "2"])
        for value in ("-", "- my_list", "--- a line"):
            self.assertEqual(self.started("--prompt", value, "own model"), ["--prompt", value, "own model", "--dp", "2", "--tp", "2"])
        self.assertEqual(self.started("--no-ep", "own model")[:2], ["--no-ep", "own model"])

    def test_what_the_file_sets_is_not_overridden(self):
        path = self.config('model = "m"\ndata_parallel_size = 1\n"tp"=1\nport = 9000\n')
        self.assertEqual(self.started("--config", path), ["--config", path])
        self.assertEqual(self.started(environment={"PHALANX_CONFIG": path}), [])
        self.assertEqual(self.started("--config=" + path, "own model"), ["--config=" + path, "own model"])

    def test_what_the_file_leaves_open_has_a_default(self):
        path = self.config('# model = "commented"\nmax-num-seqs = 4\n[table]\ntp = 1\n')
        self.assertEqual(self.started("--config", path), ["--config", path, *DEFAULTS])

    def test_what_the_environment_sets_is_not_overridden(self):
        self.assertEqual(self.started(environment={"PHALANX_MODEL": "m", "PHALANX_TP": "1"}), ["--dp", "2"])
        self.assertEqual(self.started(environment={"PHALANX_DATA_PARALLEL_SIZE": "1", "PHALANX_TP": ""}),
                         ["--model", TINY, "--tp", "2"])

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
        for spelled in ("-h", "--help"):
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
            negated = re.findall(r"^\| `--.*`--no-([a-z-]+)` \|", file.read(), re.MULTILINE)
        self.assertTrue(negated)
        for name in negated:
            for spelled in (f"--{name}", f"--no-{name}"):
                self.assertEqual(self.started(spelled, "own model"), [spelled, "own model", "--dp", "2", "--tp", "2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""What configuring asks of a machine: programs without test libraries, tests with one clear line when these are missing, and no
compiling again when tools/serve and tools/test follow each other."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

# Debian's libgtest-dev without libgmock-dev: the package is found and knows no GTest::gmock.
GTEST_WITHOUT_GMOCK = """
add_library(GTest::gtest INTERFACE IMPORTED)
add_library(GTest::gtest_main INTERFACE IMPORTED)
set(GTest_FOUND TRUE)
"""

# Notes the presets that it is asked to configure and build; configuring those in FAILING fails.
CMAKE = """#!/bin/sh
echo "$*${CCACHE_DISABLE:+ without ccache}" >> "$CALLS"
case " $FAILING " in *" $2 "*) exit 1 ;; esac
"""

# A ccache that cannot write where it keeps what it has compiled.
CCACHE = """#!/bin/sh
echo "ccache: error: Failed to create directory" >&2
exit 1
"""


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, **options)


class Configure(unittest.TestCase):
    """One build folder for both tests: what costs is the first look at the compiler."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = scratch.name
        os.mkdir(cls.path("gtest"))
        with open(cls.path("gtest", "GTestConfig.cmake"), "w", encoding="utf-8") as file:
            file.write(GTEST_WITHOUT_GMOCK)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.scratch, *names)

    def configure(self, preset, *options):
        return run("cmake", "--preset", preset, "-B", self.path("build"), *options, cwd=ROOT)

    def built(self, name):
        with open(self.path("build", name), encoding="utf-8") as file:
            return file.read()

    def commands(self):
        entries = json.loads(self.built("compile_commands.json"))
        return {entry["command"].partition(" -o ")[2].split()[0]: entry["command"] for entry in entries}

    def test_programs_are_built_where_gtest_is_without_gmock(self):
        gtest = f"-DGTest_DIR={self.path('gtest')}"
        serving = self.configure("serve", gtest)
        self.assertEqual(serving.returncode, 0, serving.stdout)
        ninja = self.built("build.ninja")
        self.assertIn("bin/phalanxd", ninja)
        for library in ("gtest", "gmock", "benchmark"):
            self.assertNotIn(library, ninja)

        testing = self.configure("release", gtest)
        self.assertNotEqual(testing.returncode, 0)
        self.assertEqual(testing.stdout.count("CMake Error"), 1, testing.stdout)
        for package in ("libgtest-dev", "libgmock-dev", "tools/test"):
            self.assertIn(package, testing.stdout)

    def test_tests_come_and_go_without_compiling_programs_again(self):
        seen = []
        for preset in ("serve", "release", "serve"):
            configured = self.configure(preset, "-U", "GTest_DIR")
            self.assertEqual(configured.returncode, 0, configured.stdout)
            seen.append(self.commands())
        programs = seen[0]
        self.assertTrue(any("phalanxd" in output for output in programs))
        for commands in seen:
            self.assertEqual({output: commands.get(output) for output in programs}, programs)


class Build(unittest.TestCase):
    """tools/build with a CMake that only notes what it is asked."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        for folder in ("bin", "tools", "build", "build/release"):
            os.mkdir(os.path.join(self.scratch, folder))
        for name in ("tools/build", "CMakePresets.json"):
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.scratch, name))
        self.write("bin/cmake", CMAKE)
        self.write("bin/ccache", "#!/bin/sh\n")

    def write(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def calls(self, preset, failing=""):
        calls = os.path.join(self.scratch, "calls")
        self.write("calls", "")
        environment = dict(os.environ, CALLS=calls, FAILING=failing, CCACHE_DISABLE="",
                           PATH=os.path.join(self.scratch, "bin") + os.pathsep + os.environ["PATH"])
        built = run(os.path.join(self.scratch, "tools", "build"), preset, "phalanxd", env=environment)
        with open(calls, encoding="utf-8") as file:
            return built, [re.sub(r" --parallel \d+ --target \w+", "", line) for line in file.read().splitlines()]

    def test_a_new_folder_is_built_without_tests(self):
        built, calls = self.calls("serve")
        self.assertEqual((built.returncode, calls), (0, ["--preset serve", "--build --preset serve"]), built.stdout)

    def test_a_folder_that_has_tests_keeps_them(self):
        self.write("build/release/build.ninja", "build tests_unit: phony bin/base_test\n")
        built, calls = self.calls("serve")
        self.assertEqual((built.returncode, calls), (0, ["--preset release", "--build --preset release"]), built.stdout)

    def test_a_folder_whose_test_libraries_are_gone_is_built_without_tests(self):
        self.write("build/release/build.ninja", "build tests_unit: phony bin/base_test\n")
        built, calls = self.calls("serve", failing="release")
        self.assertEqual(built.returncode, 0, built.stdout)
        self.assertEqual(calls, ["--preset release", "--preset serve", "--build --preset serve"])

    def test_a_ccache_that_cannot_write_is_not_used(self):
        self.write("bin/ccache", CCACHE)
        built, calls = self.calls("serve")
        self.assertEqual((built.returncode, len(calls)), (0, 2), built.stdout)
        self.assertEqual(built.stdout.count("compiling without ccache, which says: ccache: error: Failed to create"), 1)
        for call in calls:
            self.assertTrue(call.endswith(" without ccache"), call)

    def test_an_unknown_preset_starts_nothing(self):
        built, calls = self.calls("relase")
        self.assertEqual((built.returncode, calls), (64, []))
        self.assertIn("known: release serve", built.stdout)

    def test_a_failure_names_the_log(self):
        built, calls = self.calls("serve", failing="serve")
        self.assertEqual((built.returncode, calls), (1, ["--preset serve"]))
        self.assertIn("build/serve-configure.log", built.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

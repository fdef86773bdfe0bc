# SPDX-License-Identifier: Apache-2.0
"""What tools/install asks of a system, with an apt-get that only notes what it is asked; and what tools/fetch-models says of a
Python without pip."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAMS = ("bash", "cat", "dirname", "env", "grep", "mktemp", "readlink", "rm", "sed", "tail")

# Of these two packages it says that they are there.
DPKG_QUERY = """#!/bin/sh
case "$4" in
  dpkg) printf amd64 ;;
  ninja-build) echo amd64 installed ;;
  python3) printf 'amd64 installed\ni386 installed\n' ;;
  cmake) echo i386 installed ;;
  python3-dev) echo all not-installed ;;
  *) exit 1 ;;
esac
"""
APT_GET = """#!/bin/sh
echo "$* $(cat)" >> CALLS
"""
# As configured in some places: variables are not passed on, and nothing else may be run.
SUDO = """#!/bin/sh
[ "$1" = apt-get ] && exec env -i PATH="$PATH" "$@"
"""
USER = """#!/bin/sh
echo 1000
"""


class Install(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        for folder in ("bin", "tools"):
            os.mkdir(os.path.join(self.scratch, folder))
        for name in ("tools/install", "tools/packages.txt"):
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.scratch, name))
        for program in PROGRAMS:
            os.symlink(shutil.which(program), os.path.join(self.scratch, "bin", program))

    def program(self, name, text):
        path = os.path.join(self.scratch, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("CALLS", os.path.join(self.scratch, "calls")))
        os.chmod(path, 0o755)

    def install(self, *groups):
        """(exit status, what it says), with somebody at the keyboard."""
        result = subprocess.run([os.path.join(self.scratch, "tools", "install"), *groups], timeout=60, text=True, input="no\n",
                                env={"PATH": os.path.join(self.scratch, "bin")}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return result.returncode, result.stdout

    def test_a_system_without_apt_get_is_told_what_is_needed(self):
        status, said = self.install("build", "models")
        self.assertEqual((status, said.count("\n")), (0, 1), said)
        packages = said.rpartition(":")[2].split()
        for package in ("build-essential", "libzmq3-dev", "python3", "python3-pip"):
            self.assertEqual(packages.count(package), 1, said)
        self.assertNotIn("libgtest-dev", packages)

    def test_what_is_missing_is_installed_without_questions(self):
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("sudo", SUDO), ("id", USER)):
            self.program(name, text)
        status, said = self.install("models", "build")
        self.assertEqual(status, 0, said)
        with open(os.path.join(self.scratch, "calls"), encoding="utf-8") as file:
            update, install = file.read().splitlines()
        keep = "-o Dpkg::Options::=--force-confold"
        self.assertEqual(update, f"{keep} update -qq ")
        self.assertTrue(install.startswith(f"{keep} install -y --no-install-recommends build-essential "), install)
        self.assertTrue(install.endswith(" python3-pip "), install)
        self.assertIn("cmake", install.split(), "it is there for another architecture only")
        for package in ("ninja-build", "python3", "no"):
            self.assertNotIn(package, install.split())

    def test_an_unknown_group_installs_nothing(self):
        for groups in ((), ("build", "all"), ("build test",)):
            self.assertEqual(self.install(*groups)[0], 64)

    def test_a_python_without_pip_is_told_how_to_get_it(self):
        result = subprocess.run([sys.executable, "-I", "-S", os.path.join(ROOT, "tools", "fetch-models"), self.scratch, "smollm2"],
                                timeout=60, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn(f"this Python ({sys.executable}) has no pip; tools/install models ", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

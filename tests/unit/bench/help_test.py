# SPDX-License-Identifier: Apache-2.0
"""Every benchmark says how it is used when it is asked, and measures nothing then."""
import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("TEST_BIN_DIR", os.path.join(ROOT, "build", "release", "bin"))
BENCH = os.path.join(ROOT, "bench")


def programs():
    with open(os.path.join(BENCH, "CMakeLists.txt"), encoding="utf-8") as file:
        return [os.path.join(BIN, name) for name in re.findall(r"phalanx_app\((\w+)", file.read())]


def scripts():
    folders = [BENCH, os.path.join(BENCH, "peers")]
    return [path for path in (os.path.join(folder, name) for folder in folders for name in os.listdir(folder))
            if os.path.isfile(path) and os.access(path, os.X_OK)]


class Help(unittest.TestCase):
    def test_each_tells_its_usage(self):
        found = programs() + scripts()
        self.assertGreaterEqual(len(found), 12)
        for path in found:
            for spelled in ("-h", "--help"):
                with self.subTest(program=os.path.basename(path), spelled=spelled):
                    result = subprocess.run([path, spelled], capture_output=True, text=True, timeout=60)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    self.assertIn("usage: ", result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""A server as a service of systemd: what the unit of deploy/ asks for."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, ROOT, main  # noqa: E402

UNIT = os.path.join(ROOT, "deploy", "systemd", "phalanxd.service")


def unit_text():
    with open(UNIT) as file:
        return file.read()


def unit_settings():
    """The assignments of the unit: (section, key) -> value."""
    found, section = {}, None
    for line in unit_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            assert (section, key) not in found, f"{key} is set twice"
            found[section, key] = value
    return found


class Unit(unittest.TestCase):
    def expect(self, section, key, value):
        self.assertEqual(unit_settings().get((section, key)), value, key)

    def test_systemd_understands_it(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "phalanxd.service")
            with open(path, "w") as file:
                file.write(unit_text().replace("/opt/phalanx/bin", BIN))
            result = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60)
        said = [line for line in result.stderr.splitlines() if "phalanxd.service" in line]
        self.assertEqual((result.returncode, said), (0, []))

    def test_a_rank_without_memory_does_not_end_the_service(self):
        self.expect("Service", "OOMPolicy", "continue")

    def test_what_passes_is_tried_again_and_what_stays_is_not(self):
        self.expect("Unit", "StartLimitIntervalSec", "0")
        self.expect("Service", "RestartSec", "5")
        self.expect("Service", "RestartPreventExitStatus", "64 65 66")


if __name__ == "__main__":
    main()

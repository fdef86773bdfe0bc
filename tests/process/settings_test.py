# SPDX-License-Identifier: Apache-2.0
"""Settings as an operator meets them: levels of the log, and an environment that is not ours alone."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, main  # noqa: E402

LEVELS = ["trace", "debug", "info", "warning", "error"]
LINE = re.compile(r"^\d{4}-\d\d-\d\dT[0-9:.]+Z (\w+) role=(\w+)", re.MULTILINE)

# What kubelet puts into the environment for a service named phalanx, and a misspelt setting.
KUBERNETES = {"PHALANX_SERVICE_HOST": "10.96.7.8", "PHALANX_SERVICE_PORT": "8000", "PHALANX_PORT": "tcp://10.96.7.8:8000",
              "PHALANX_PORT_8000_TCP": "tcp://10.96.7.8:8000", "PHALANX_PORT_8000_TCP_ADDR": "10.96.7.8"}
MISSPELT = {"PHALANX_MAX_NUM_SEQ": "1"}


def generate(*arguments, environment):
    """A whole life of the server: it starts, answers one prompt and ends. Returns what it wrote to standard error."""
    residue = Residue()
    result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", TINY, "--prompt", "count from 1 to 3", *arguments],
                            capture_output=True, text=True, timeout=100, env={**os.environ, **environment})
    residue.check()
    assert result.returncode == 0 and "1 2 3" in result.stdout, f"{result.returncode}: {result.stdout}{result.stderr}"
    return result.stderr


class Settings(unittest.TestCase):
    def test_each_level_writes_itself_and_what_is_above(self):
        for level in LEVELS:
            lines = LINE.findall(generate("--log-level", level, environment=MISSPELT))
            least = LEVELS.index(level)
            self.assertEqual([found for found, _ in lines if LEVELS.index(found) < least], [], level)
            if level != "error":  # nothing goes wrong here
                self.assertIn(level, [found for found, _ in lines])
            if level in ("trace", "debug"):
                self.assertIn("replica", [role for found, role in lines if found == level], "the level reaches the children")

    def test_unknown_level_is_refused_naming_the_known(self):
        result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", TINY, "--log-level", "loud"], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual(result.returncode, 64)
        self.assertIn("trace, debug, info, warning, error", result.stderr)

    def test_services_of_kubernetes_are_named_and_harmless(self):
        log = generate(environment={**KUBERNETES, **MISSPELT, "PHALANX_LOAD_PORT": "9000", "PHALANX_DP": "2"})
        notes = [line for line in log.splitlines() if " environment note=" in line]
        self.assertEqual(len(notes), 2, log)
        self.assertRegex(notes[0], "^\\S+ warning .*PHALANX_MAX_NUM_SEQ .*did you mean PHALANX_MAX_NUM_SEQS")
        for variable in KUBERNETES:
            self.assertIn(variable, notes[1])
        self.assertIn("2 replicas × 1 rank,", log, "PHALANX_DP is a setting")


if __name__ == "__main__":
    main()

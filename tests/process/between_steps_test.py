#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/between_steps finds the steps of a real server."""
import json
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from phalanx_server import TINY  # noqa: E402


class BetweenSteps(unittest.TestCase):
    def test_a_line_for_each_number_of_sequences_has_the_steps_of_every_rank(self):
        result = subprocess.run([os.path.join(ROOT, "bench", "between_steps"), "--model", TINY, "--sequences", "1,4", "--context", "40", "--tokens", "150",
                                 "--rounds", "2", "--", "--tp", "2"], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([(line["sequences"], line["ranks"]) for line in lines], [(1, 2), (4, 2)])
        # Of 151 tokens of one sequence 150 are decoded, so that there are 149 times, of which 2 are not counted. Of four the first
        # to begin and the last to end may be alone for some steps, too.
        self.assertGreaterEqual(lines[0]["count"], 2 * 2 * 147)
        for line in lines:
            self.assertLess(0, line["p50_us"])
            self.assertLessEqual(line["p50_us"], line["p99_us"])
            self.assertLess(0, line["program_p50_us"])


if __name__ == "__main__":
    unittest.main(verbosity=2)

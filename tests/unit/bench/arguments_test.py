#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A benchmark that is asked for what it cannot do says so in a few words, and measures nothing."""
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("TEST_BIN_DIR", os.path.join(ROOT, "build", "release", "bin"))
BENCH = os.path.join(ROOT, "bench")


class Arguments(unittest.TestCase):
    def refuses(self, folder, name, *arguments, status):
        with self.subTest(program=name, arguments=arguments):
            result = subprocess.run([os.path.join(folder, name), *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
            self.assertNotIn("Traceback", result.stderr)
            self.assertLessEqual(1, result.stderr.count("\n"))
            self.assertIn(name, result.stderr)

    def test_by_their_place_are_whole_numbers_within_bounds(self):
        for words in (("2", "100"), ("2", "4097"), ("0",), ("-1",), ("abc",), ("65",), ("2x",), ("2", "4096", "1")):
            self.refuses(BIN, "reduction_latency", *words, status=64)
        for words in (("0",), ("2", "0"), ("2", "1e3"), ("2", "10", "bussy"), ("2", "10", "busy", "1")):
            self.refuses(BIN, "null_step", *words, status=64)
        for words in (("0",), ("65",), ("1", "x"), ("1", "1", "1")):
            self.refuses(BIN, "step_cost", *words, status=64)
        for words in ((), (".", "0"), (".", "1", "0"), (".", "1k")):
            self.refuses(BIN, "tokenizer_throughput", *words, status=64)

    def test_of_engine_bench_go_together(self):
        self.refuses(BIN, "engine_bench", "--model", "x.gguf", "--layers", "4", status=64)

    def test_of_scripts_are_counts(self):
        for words in (("prefix_cache", "first_token", "--rounds", "0"), ("prefix_cache", "routing", "--requests", "0"),
                      ("prefix_cache", "routing", "--shares", "0.5,x"), ("start_to_ready", "--rounds", "0"), ("start_to_ready", "--dp", "x"),
                      ("front_takeover", "--rounds", "0"), ("front_takeover", "--streams", "-1"), ("leader_throughput", "--requests", "0"),
                      ("rank_kill_timeline", "0"), ("compare", "--rounds", "0"), ("compare", "--tokens", "-4"), ("between_steps", "--sequences", "1,0"),
                      ("between_steps", "--burners", "x")):
            self.refuses(BENCH, *words, status=2)

    def test_that_name_a_model_name_one_that_is_there(self):
        for name, *words in (("start_to_ready",), ("prefix_cache", "first_token"), ("compare",), ("between_steps",)):
            self.refuses(BENCH, name, *words, "--model", os.path.join(tempfile.gettempdir(), "none.gguf"), status=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""bench/accuracy on the built-in model: what it says of formats whose distance is known."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from phalanx_server import BIN, TINY, main  # noqa: E402

TEXT = os.path.join(HERE, "..", "..", "docs", "operations.md")


def accuracy(*arguments):
    return subprocess.run([os.path.join(BIN, "accuracy"), "--model", TINY, *arguments], capture_output=True, text=True,
                          timeout=100)


class Accuracy(unittest.TestCase):
    def figures(self, *arguments):
        """By weight format and KV format."""
        result = accuracy("--text", TEXT, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        return {(line["quantization"], line["kv"]): line for line in lines}

    def test_bf16_is_itself_and_codes_are_near(self):
        found = self.figures("--positions", "300", "--context", "64", "--quantization", "bf16,int8,int8-g32,int4",
                             "--kv-cache-dtype", "bf16,int8")
        self.assertEqual(len(found), 8)
        self.assertEqual({line["positions"] for line in found.values()}, {300})
        same = found["bf16", "bf16"]
        self.assertEqual((same["mean_kl"], same["max_kl"], same["top_1"]), (0, 0, 1))
        for key, most in ((("int8", "bf16"), 0.5), (("int8-g32", "bf16"), 0.1), (("bf16", "int8"), 0.1)):
            self.assertGreater(found[key]["mean_kl"], 0, key)
            self.assertLess(found[key]["mean_kl"], most, key)
            self.assertGreater(found[key]["top_1"], 0.8, key)
        self.assertGreater(found["int4", "bf16"]["mean_kl"], found["int8-g32", "bf16"]["mean_kl"])

    def test_figures_do_not_depend_on_the_instruction_set(self):
        arguments = ("--positions", "40", "--context", "16", "--quantization", "int4", "--kv-cache-dtype", "int8")
        fast = self.figures(*arguments)["int4", "int8"]
        slow = self.figures(*arguments, "--isa", "ref")["int4", "int8"]
        self.assertEqual([fast[name] for name in ("mean_kl", "max_kl", "top_1")],
                         [slow[name] for name in ("mean_kl", "max_kl", "top_1")])

    def test_what_cannot_be_compared_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as short:
            short.write("a few words")
            short.flush()
            for arguments, words in ((("--text", short.name), "expected at least 2048 tokens"),
                                     (("--text", "/nowhere.txt"), "/nowhere.txt"),
                                     ((), "--text FILE"),
                                     (("--text", TEXT, "--quantization", "int3"), "int3"),
                                     (("--text", TEXT, "--kv-cache-dtype", ""), "--kv-cache-dtype"),
                                     (("--text", TEXT, "--context", "5000", "--positions", "5000"), "--context: expected at most 4095")):
                result = accuracy(*arguments)
                self.assertNotEqual(result.returncode, 0, arguments)
                self.assertIn(words, result.stderr)
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    main()

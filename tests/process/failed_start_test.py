# SPDX-License-Identifier: Apache-2.0
"""A start that cannot succeed ends once, with a documented exit status, the cause in one line, and nothing left."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, main  # noqa: E402


def start(*arguments, model=TINY, program="phalanxd", environment=None):
    """Runs phalanxd until it ends; (exit status, output, seconds)."""
    residue, began = Residue(), time.monotonic()
    result = subprocess.run([os.path.join(BIN, program), "--model", model, "--port", "0", *arguments], timeout=60,
                            capture_output=True, text=True, env={**os.environ, **(environment or {})})
    residue.check()
    return result.returncode, result.stdout + result.stderr, time.monotonic() - began


class FailedStart(unittest.TestCase):
    def expect(self, outcome, status, *words):
        returned, output, _ = outcome
        self.assertEqual(returned, status, output)
        cause = [line for line in output.splitlines() if line.startswith("phalanxd: ")]
        self.assertEqual(len(cause), 1, f"one line with the cause, not {cause}\n{output}")
        for word in words:
            self.assertIn(word, cause[0])
        return output

    def broken_model(self, change):
        folder = tempfile.mkdtemp(prefix="broken-model-")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(TINY, folder, dirs_exist_ok=True)
        change(folder)
        return folder

    def test_missing_tensor(self):
        def drop(folder):
            path = os.path.join(folder, "model.safetensors")
            with open(path, "rb") as file:
                size, = struct.unpack("<Q", file.read(8))
                header, data = json.loads(file.read(size)), file.read()
            header["renamed"] = header.pop("model.layers.0.self_attn.q_proj.weight")
            text = json.dumps(header).encode()
            with open(path, "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text + data)
        self.expect(start(model=self.broken_model(drop)), 66, "model.layers.0.self_attn.q_proj.weight")

    def test_what_files_say_moves_no_cursor(self):
        def name(folder):
            path = os.path.join(folder, "config.json")
            with open(path) as file:
                config = json.load(file)
            config["model_type"] = "x\x1b[31m\nphalanxd: fake\x9b"
            with open(path, "w") as file:
                json.dump(config, file)
        output = self.expect(start(model=self.broken_model(name)), 64, "x\\u{1b}[31m\\u{a}phalanxd: fake\\u{9b}")
        self.assertNotIn("\x1b", output)

    def test_a_chat_template_that_is_none(self):
        empty = os.path.join(self.broken_model(lambda folder: None), "empty.jinja")
        with open(empty, "w"):
            pass
        for path in ("/tmp", "/dev/zero", empty):
            self.expect(start("--chat-template", path), 64, path, "expected a file with a chat template")
        self.expect(start("--chat-template", "/no/such.jinja"), 66, "/no/such.jinja: no such file")
        with open(empty, "wb") as file:
            file.write(b"{{ messages }}\xff")
        self.expect(start("--chat-template", empty), 64, empty + ": chat template: expected UTF-8")

    def test_truncated_file(self):
        def cut(folder):
            path = os.path.join(folder, "model.safetensors")
            os.truncate(path, os.path.getsize(path) // 2)
        self.expect(start(model=self.broken_model(cut)), 65, "model.safetensors")

    def test_unsupported_model_type(self):
        def change(folder):
            path = os.path.join(folder, "config.json")
            with open(path) as file:
                config = json.load(file)
            with open(path, "w") as file:
                json.dump({**config, "model_type": "qwen3_5"}, file)
        self.expect(start(model=self.broken_model(change)), 64, "qwen3_5", "qwen3")

    def test_no_such_folder(self):
        self.expect(start(model="/nonexistent"), 66, "/nonexistent")

    def test_port_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            residue = Residue()
            result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", TINY, "--port", str(port)],
                                    capture_output=True, text=True, timeout=60)
            residue.check()
            self.expect((result.returncode, result.stdout + result.stderr, 0), 78, str(port), "taken")

    def test_an_address_that_is_not_there_yet(self):
        self.expect(start("--host", "192.0.2.1"), 78, "cannot listen on 192.0.2.1:", "no interface of this machine has that address (yet)")

    def test_no_memory_for_kv(self):
        self.expect(start("--kv-cache-memory-bytes", str(1 << 50)), 75, "KV", str(1 << 50))

    def test_a_rank_that_exits_at_once(self):
        outcome = start("--tp", "2", program="phalanxd-with-faults", environment={"FAULTY_RANK": "exit-at-start:1"})
        self.expect(outcome, 69, "phalanxd: replica 0: ", "rank")
        self.assertLess(outcome[2], 30)

    def test_fronts_that_exit_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("phalanxd", "phalanx-worker"):
                shutil.copy(os.path.join(BIN, name), folder)
            front = os.path.join(folder, "phalanx-front")
            with open(front, "w") as file:
                file.write("#!/bin/sh\nexit 3\n")
            os.chmod(front, 0o755)
            output = self.expect(start(program=os.path.join(folder, "phalanxd")), 69, "exited with status 3")
        self.assertRegex(output, r"(?m)^phalanxd: front \d+: exited with status 3")

    def test_a_pipe_in_the_place_of_a_file(self):
        def change(folder):
            os.remove(os.path.join(folder, "config.json"))
            os.mkfifo(os.path.join(folder, "config.json"))
        outcome = start(model=self.broken_model(change))
        self.expect(outcome, 64, "config.json", "expected a file")
        self.assertLess(outcome[2], 10)

    def test_known_flag_of_other_servers(self):
        self.expect(start("--pipeline-parallel-size", "2"), 64, "--pipeline-parallel-size is not supported")

    def test_bad_devices(self):
        self.expect(start("--tp", "2", "--devices", "0"), 64, "--devices", "1 core sets", "2 ranks")

    def test_more_ranks_than_kv_heads(self):
        self.expect(start("--tp", "64"), 64, "tensor-parallel")


if __name__ == "__main__":
    main()

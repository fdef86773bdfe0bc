# SPDX-License-Identifier: Apache-2.0
"""The first start of a real model with the defaults: a KV cache of gigabytes that costs nothing before it is used."""
import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import random_model  # noqa: E402
from phalanx_server import BIN, Server, descendants, eventually, main  # noqa: E402

SHAPE = "qwen3-0.6b" if os.environ.get("TEST_LONG") else "wide-kv"
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PROMPT = "abcdefgh " * 60


def planned(text, what):
    number, unit = re.search(rf"memory +{what}: ([\d.]+) (\w+)", text).groups()
    return float(number) * UNITS[unit]


def kv_taken(server):
    """Bytes that the KV of all ranks takes, not what it may take."""
    sizes = {}
    for pid in descendants(server.pid):
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            if os.readlink(path).startswith("/memfd:phalanx-kv"):
                status = os.stat(path)
                sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


class FirstStart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="first-start-")
        cls.model = random_model.write_model(os.path.join(cls.folder, "phalanx-tiny"), SHAPE)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def answer(self, server):
        body = {"prompt": PROMPT, "max_tokens": 40, "ignore_eos": True, "temperature": 0}
        status, answer, _ = server.request("POST", "/v1/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["usage"]["completion_tokens"], 40)
        return answer["choices"][0]["text"]

    def test_inspect_plans_what_the_start_takes(self):
        result = subprocess.run([os.path.join(BIN, "phalanxctl"), "inspect", self.model, "--tp", "2"], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("GiB", result.stdout)

    def test_defaults_start_serve_and_survive_the_death_of_a_rank(self):
        with Server("--tp", 2, model=self.model, start_seconds=60) as server:
            cache = planned(server.log_text(), "kv")
            self.assertGreater(cache, 1 << 30, "the default is a cache of a size that means something")
            self.assertLess(kv_taken(server), 128 << 20, "a start takes the first extent of each rank, and no more")
            expected = self.answer(server)
            stream = server.stream(PROMPT, max_tokens=200, ignore_eos=True, temperature=0).wait_for_tokens(8)
            os.kill(server.rank_pid(0, 1), signal.SIGKILL)
            stream.finish()
            self.assertIsNone(stream.error)
            self.assertTrue(stream.done)
            server.wait_idle()
            self.assertEqual(self.answer(server), expected)
            self.assertLess(kv_taken(server), cache / 4, "what is used is taken")

    def test_kv_that_is_not_trusted_is_given_back(self):
        with Server("--tp", 2, model=self.model, start_seconds=60) as server:
            expected = self.answer(server)
            stream = server.stream(PROMPT, max_tokens=200, ignore_eos=True, temperature=0).wait_for_tokens(8)
            os.kill(server.rank_pid(0, 0), signal.SIGSEGV)
            stream.finish()
            self.assertIsNone(stream.error)
            server.wait_idle()
            self.assertEqual(self.answer(server), expected)

    def test_defaults_leave_room_for_two_replicas(self):
        with Server("--dp", 2, "--tp", 2, model=self.model, start_seconds=60) as server:
            eventually(server.all_ready, 10, "both replicas are ready")
            self.answer(server)


if __name__ == "__main__":
    main()

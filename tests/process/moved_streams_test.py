# SPDX-License-Identifier: Apache-2.0
"""Replicas that live and compute nothing give their streams to another one; cancellations that nobody reads are not lost."""
import contextlib
import os
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import LONG_PROMPT, Server, counted, eventually, main  # noqa: E402


class BrokenGroup(unittest.TestCase):
    """Rank 0 of replica 0 is killed, and its group does not come together again."""

    LONGEST_PAUSE = 6  # 2 s and a busy machine; a rank that stands still is found after 10 s

    def long_streams(self, server):
        """So long that the fastest machine has not ended the first when the last has begun."""
        return [server.stream(f"count from {100 + i} to {170 + i}", max_tokens=1000, ignore_eos=True, temperature=0) for i in range(6)]

    @contextlib.contextmanager
    def broken(self, fault):
        with Server("--dp", 2, "--tp", 2, "--max-num-seqs", 16, program="phalanxd-with-faults",
                    environment={"FAULTY_RANK": fault}) as server:
            texts = [stream.finish().text for stream in self.long_streams(server)]
            streams = self.long_streams(server)
            for stream in streams:
                stream.wait_for_tokens(3)
            self.assertGreater(server.status()["replicas"][0]["open_attempts"], 0)
            os.kill(server.rank_pid(0, 0), signal.SIGKILL)
            for text, stream in zip(texts, streams):
                stream.finish()
                self.assertIsNone(stream.error)
                self.assertEqual((stream.text, stream.done), (text, True))
            pauses = [max(after - before for before, after in zip(s.times, s.times[1:])) for s in streams]
            self.assertLess(max(pauses), self.LONGEST_PAUSE, "nobody waits for the group")
            began = time.monotonic()
            self.assertEqual(server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))
            self.assertLess(time.monotonic() - began, self.LONGEST_PAUSE, "new requests go elsewhere")
            yield server

    def test_that_does_not_form_again(self):
        with self.broken("hang-at-init:1") as server:
            replica = server.status()["replicas"][0]
            self.assertEqual((replica["state"], replica["incarnation"]), ("recovering", 1), "it has not given up yet")
            self.assertEqual((replica["open_attempts"], replica["pending_tokens"]["to_generate"]), (0, 0))
            self.assertRegex(server.log_text(), "sequences_moved from=0 sequences=[1-9]")

    def test_that_fails_for_good(self):
        """Its replica gives up, which is known before its process has ended."""
        with self.broken("throw-at-init:1") as server:
            eventually(lambda: server.status()["replicas"][0]["incarnation"] == 2, 20, "replica 0 is started again")
            self.assertIn("group_failed", server.log_text())
            server.wait_idle(60)
            server.expect_family(6)


class LostCancels(unittest.TestCase):
    """The clients of thousands of sequences leave while their replica reads nothing and its link is full."""

    def begin(self, server, clients):
        return [server.stream(LONG_PROMPT, n=128, max_tokens=64, ignore_eos=True, temperature=1) for _ in range(clients)]

    def metric(self, server, name):
        """The sum over all labels."""
        text = server.request("GET", "/metrics")[1]
        values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        self.assertTrue(values, name)
        return sum(map(float, values))

    def held(self, server):
        replica = server.status()["replicas"][0]
        return replica["running"] + replica["waiting"]

    def test_of_forty_clients_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            deaf = os.path.join(folder, "deaf")
            with Server("--dp", 1, "--tp", 1, "--runner", "sim", "--sim-step-us", 20000, "--max-num-queued-tokens", 1 << 24,
                        program="phalanxd-with-faults",
                        environment={"FAULTY_REPLICA": f"deaf-while:{deaf}"}) as server:
                streams = self.begin(server, 10)
                eventually(lambda: self.held(server) >= 1280, 30, "it has the sequences of the first ten")
                with open(deaf, "w"):
                    pass
                try:
                    streams += self.begin(server, 30)  # they fill the link
                    time.sleep(0.7)
                    for stream in streams:
                        stream.close()
                    eventually(lambda: self.metric(server, "phalanx_unsent_cancels") > 1000, 1.5, "the link takes no cancellation")
                finally:
                    os.remove(deaf)
                eventually(lambda: self.held(server) == 0, 20, "the replica drops everything")
                eventually(server.ledger_is_zero, 5, "the ledger is zero")
                eventually(lambda: self.metric(server, "phalanx_unsent_cancels") == 0, 5, "every cancellation is sent")
                eventually(lambda: self.metric(server, "phalanx_sequence_difference") == 0, 5, "leader and replica agree")
                self.assertEqual(server.status()["replicas"][0]["incarnation"], 1, "nobody was killed for it")
                for stream in streams:
                    stream.thread.join(10)
                self.assertEqual(server.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 3})[0], 200)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A replica engine that is killed, stopped or crashes, and the death of the leader."""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import Server, alive, counted, descendants, eventually, main  # noqa: E402


class ReplicaFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--dp", 2, "--tp", 2, "--restart-intensity", "100/60s", "--max-num-batched-tokens", 16, "--max-num-seqs", 16)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        self.server.wait_idle(60)

    def break_while_streaming(self, sign, tokens):
        streams = [self.server.stream(f"count from {100 + i} to {150 + i}") for i in range(4)]
        for stream in streams:
            stream.wait_for_tokens(tokens)
        status = self.server.status()["replicas"][0]
        family = [status["pid"], *(r["pid"] for r in status["ranks"])]
        os.kill(status["pid"], sign)
        for i, stream in enumerate(streams):
            stream.finish()
            self.assertIsNone(stream.error)
            self.assertEqual(stream.text, counted(100 + i, 150 + i))
            self.assertTrue(stream.done)
        eventually(lambda: not [p for p in family if alive(p)], 30, "the replica and its ranks are gone")
        self.server.wait_idle(60)
        after = self.server.status()["replicas"][0]
        self.assertEqual(after["incarnation"], status["incarnation"] + 1)

    def test_kill_before_the_first_token(self):
        self.break_while_streaming(signal.SIGKILL, 0)

    def test_kill_mid_decode(self):
        self.break_while_streaming(signal.SIGKILL, 10)

    def test_stop_mid_decode(self):
        self.break_while_streaming(signal.SIGSTOP, 10)

    def test_crash_mid_decode(self):
        self.break_while_streaming(signal.SIGABRT, 10)

    def test_kill_idle(self):
        pid = self.server.replica_pid(1)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not alive(pid), 5, "the replica is gone")
        for i in range(6):  # the other one serves meanwhile
            answer = self.server.chat(f"count from {i} to {i + 3}")
            self.assertEqual(answer["choices"][0]["message"]["content"], counted(i, i + 3))
        self.server.wait_idle(60)


class LeaderDeath(unittest.TestCase):
    def test_no_descendant_survives_the_leader(self):
        server = Server("--dp", 2, "--tp", 2)
        stream = server.stream("count from 1 to 120").wait_for_tokens(5)
        family = descendants(server.pid)
        self.assertGreaterEqual(len(family), 6)
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait(5)
        eventually(lambda: not [p for p in family if alive(p)], 1.0, "every descendant is gone")
        server.residue.check(1.0)
        stream.finish()
        server.reader.join(5)
        server.process.stdout.close()
        server.log.close()


class OneReplica(unittest.TestCase):
    def test_requests_wait_for_the_restart(self):
        with Server("--dp", 1, "--tp", 1) as server:
            stream = server.stream("count from 100 to 140").wait_for_tokens(5)
            os.kill(server.replica_pid(0), signal.SIGKILL)
            stream.finish()
            self.assertIsNone(stream.error)
            self.assertEqual(stream.text, counted(100, 140))
            server.wait_idle(60)

    @staticmethod
    def down(server):
        """Whether a replica is missing, or the server already has gone, and its admin socket with it."""
        result = server.control("status", "--json")
        return result.returncode != 0 or any(r["state"] != "ready" for r in json.loads(result.stdout)["replicas"])

    def test_gives_up_after_the_restart_intensity(self):
        with Server("--dp", 1, "--tp", 1, "--restart-intensity", "1/60s") as server:
            for _ in range(2):
                server.wait_idle(60)
                os.kill(server.replica_pid(0), signal.SIGKILL)
                eventually(lambda: self.down(server), 20, "the death is seen")
            eventually(lambda: server.process.poll() is not None, 20, "the server gives up")
            self.assertEqual(server.process.returncode, 69)
            self.assertIn("restart", server.log_text())
            server.residue.check()


if __name__ == "__main__":
    main()

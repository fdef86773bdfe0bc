# SPDX-License-Identifier: Apache-2.0
"""A replica engine that is killed, stopped or crashes, and the death of the leader."""
import json
import os
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import LONG_PROMPT, Server, alive, counted, descendants, eventually, main, open_files  # noqa: E402


class ReplicaFaults(unittest.TestCase):
    """One server for all cases: each one must leave it as it found it."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--dp", 2, "--tp", 2, "--restart-intensity", "100/60s", "--max-num-batched-tokens", 16, "--max-num-seqs", 16)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        self.server.wait_idle(60)
        self.before = self.server.status()["replicas"][0]
        self.family = [self.before["pid"], *(r["pid"] for r in self.before["ranks"])]
        self.files = open_files(self.server.pid)

    def expect_recovery(self):
        eventually(lambda: not [p for p in self.family if alive(p)], 30, "the replica and its ranks are gone")
        self.server.wait_idle(60)
        self.assertEqual(self.server.status()["replicas"][0]["incarnation"], self.before["incarnation"] + 1)
        self.server.expect_family(6)
        eventually(lambda: open_files(self.server.pid) <= self.files, 5, f"{self.files} open descriptors as before")

    def break_idle(self, sign):
        os.kill(self.before["pid"], sign)
        for i in range(6):  # the other one serves meanwhile
            answer = self.server.chat(f"count from {i} to {i + 3}")
            self.assertEqual(answer["choices"][0]["message"]["content"], counted(i, i + 3))
        self.expect_recovery()

    def break_mid_prefill(self, sign):
        expected = self.server.chat(LONG_PROMPT, max_tokens=8)["choices"][0]["message"]["content"]
        # In caches of their own, so that there is something to compute.
        streams = [self.server.stream(LONG_PROMPT, cache_salt=f"{sign} {i}", max_tokens=8) for i in range(4)]
        eventually(lambda: self.server.status()["replicas"][0]["running"] > 0, 20, "the prefill began")
        os.kill(self.before["pid"], sign)
        for stream in streams:
            stream.finish()
            self.assertIsNone(stream.error)
            self.assertEqual((stream.text, stream.done), (expected, True))
        self.expect_recovery()

    def break_mid_decode(self, sign):
        streams = [self.server.stream(f"count from {100 + i} to {150 + i}") for i in range(4)]
        for stream in streams:
            stream.wait_for_tokens(10)
        os.kill(self.before["pid"], sign)
        for i, stream in enumerate(streams):
            stream.finish()
            self.assertIsNone(stream.error)
            self.assertEqual((stream.text, stream.done), (counted(100 + i, 150 + i), True))
        self.expect_recovery()

    def test_kill_idle(self):
        self.break_idle(signal.SIGKILL)

    def test_no_rank_of_a_dead_replica_is_shown_as_ready(self):
        old = {rank["pid"] for rank in self.before["ranks"]}
        os.kill(self.before["pid"], signal.SIGKILL)
        eventually(lambda: self.server.status()["replicas"][0]["state"] != "ready", 20, "its death is known")
        while (replica := self.server.status()["replicas"][0])["state"] != "ready":
            self.assertEqual([rank for rank in replica["ranks"] if rank["pid"] in old], [])
        self.expect_recovery()

    def test_kill_mid_prefill(self):
        self.break_mid_prefill(signal.SIGKILL)

    def test_kill_mid_decode(self):
        self.break_mid_decode(signal.SIGKILL)

    def test_stop_idle(self):
        self.break_idle(signal.SIGSTOP)

    def test_stop_mid_prefill(self):
        self.break_mid_prefill(signal.SIGSTOP)

    def test_stop_mid_decode(self):
        self.break_mid_decode(signal.SIGSTOP)

    def test_crash_mid_decode(self):
        self.break_mid_decode(signal.SIGABRT)


class RaisedException(unittest.TestCase):
    """An exception in a replica engine ends that replica, which is started again; the other one takes its requests."""

    def throwing(self, fault):
        return Server("--dp", 2, "--tp", 2, "--max-num-batched-tokens", 16, "--max-num-seqs", 16, program="phalanxd-with-faults",
                      environment={"FAULTY_REPLICA": fault})

    def expect_recovery(self, server):
        eventually(lambda: server.status()["replicas"][0]["incarnation"] == 2, 20, "replica 0 is started again")
        server.wait_idle(60)
        self.assertEqual([r["incarnation"] for r in server.status()["replicas"]], [2, 1])
        self.assertRegex(server.log_text(), "replica_died.*injected by the test", "the leader knows the cause")
        server.expect_family(6)

    def test_idle(self):
        with self.throwing("throw-idle") as server:
            self.expect_recovery(server)
            self.assertEqual(server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))

    def test_mid_prefill(self):
        with self.throwing("throw-mid-prefill") as server:
            streams = [server.stream(LONG_PROMPT, max_tokens=8) for _ in range(4)]
            for stream in streams:
                stream.finish()
                self.assertIsNone(stream.error)
            self.expect_recovery(server)
            expected = server.chat(LONG_PROMPT, max_tokens=8)["choices"][0]["message"]["content"]
            self.assertEqual([(stream.text, stream.done) for stream in streams], [(expected, True)] * 4)

    def test_mid_decode(self):
        with self.throwing("throw-mid-decode") as server:
            streams = [server.stream(f"count from {100 + i} to {150 + i}") for i in range(4)]
            for i, stream in enumerate(streams):
                stream.finish()
                self.assertIsNone(stream.error)
                self.assertEqual((stream.text, stream.done), (counted(100 + i, 150 + i), True))
            self.expect_recovery(server)


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


class LeaderStopped(unittest.TestCase):
    def test_replicas_rest_until_it_goes_on(self):
        """What they would compute meanwhile is more frames than may wait for it."""
        body = {"model": "phalanx-tiny", "prompt": "count", "n": 64, "max_tokens": 2500, "ignore_eos": True, "seed": 7}
        with Server("--runner", "sim", "--max-num-seqs", 64) as server:
            before = server.status()["replicas"][0]
            texts = []
            client = threading.Thread(target=lambda: texts.extend(
                choice["text"] for choice in server.request("POST", "/v1/completions", body)[1]["choices"]))
            client.start()
            eventually(lambda: server.status()["replicas"][0]["running"] == 64, 20, "all choices run")
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(3)
            os.kill(server.pid, signal.SIGCONT)
            client.join()
            server.wait_idle(60)
            self.assertEqual(server.status()["replicas"][0]["incarnation"], before["incarnation"])
            undisturbed = server.request("POST", "/v1/completions", body)[1]["choices"]
            self.assertEqual(texts, [choice["text"] for choice in undisturbed])


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
                streams = [server.stream(f"count from {100 * i} to {100 * i + 400}") for i in range(1, 5)]
                for stream in streams:
                    stream.wait_for_tokens(3)
                os.kill(server.replica_pid(0), signal.SIGKILL)
                eventually(lambda: self.down(server), 20, "the death is seen")
            for stream in streams:
                stream.finish()
                self.assertTrue(stream.done, "the last word of a server reaches its clients")
                self.assertIn("restart-intensity", stream.error["message"])
                self.assertNotIn("role=replica", stream.error["message"], "log lines may speak of others' requests")
            eventually(lambda: server.process.poll() is not None, 20, "the server gives up")
            self.assertEqual(server.process.returncode, 69)
            self.assertIn("restart", server.log_text())
            server.residue.check()


if __name__ == "__main__":
    main()

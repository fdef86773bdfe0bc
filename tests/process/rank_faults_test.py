# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed, stopped, crashes or throws: idle, in the middle of a prefill, in the middle of a decode."""
import datetime
import os
import re
import signal
import statistics
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import LONG_PROMPT, Server, alive, counted, eventually, main, open_files  # noqa: E402


class RankFaults(unittest.TestCase):
    """One server for all cases: each one must leave it as it found it."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--dp", 1, "--tp", 2, "--max-num-batched-tokens", 16, "--max-num-seqs", 16, "--restart-intensity", "100/60s",
                            "--log-level", "debug")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        self.server.wait_idle()
        self.before = self.server.status()["replicas"][0]
        self.files = open_files(self.before["pid"])

    def expect_recovery(self, victim_pid, rank):
        eventually(lambda: not alive(victim_pid), 20, "the faulty process is gone")
        eventually(lambda: self.server.status()["replicas"][0]["epoch"] > self.before["epoch"], 20, "a new epoch")
        self.server.wait_idle()
        after = self.server.status()["replicas"][0]
        self.assertGreater(after["ranks"][rank]["incarnation"], self.before["ranks"][rank]["incarnation"])
        self.assertEqual(after["pid"], self.before["pid"], "the replica engine outlives its ranks")
        self.assertEqual(self.server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))
        self.server.expect_family(3)
        eventually(lambda: open_files(after["pid"]) <= self.files, 5, f"{self.files} open descriptors as before")

    def break_idle(self, rank, sign):
        pid = self.server.rank_pid(0, rank)
        os.kill(pid, sign)
        if sign == signal.SIGSTOP:  # nobody waits for it: the next step, or the ping of the idle group, finds it
            self.assertEqual(self.server.chat("count from 3 to 5")["choices"][0]["message"]["content"], counted(3, 5))
        self.expect_recovery(pid, rank)

    def break_mid_decode(self, rank, sign):
        stream = self.server.stream("count from 100 to 160").wait_for_tokens(12)
        pid = self.server.rank_pid(0, rank)
        at = time.time()
        os.kill(pid, sign)
        stream.finish()
        self.assertIsNone(stream.error)
        self.assertEqual(stream.text, counted(100, 160))
        self.assertEqual((stream.finish_reason, stream.done), ("stop", True))
        self.expect_recovery(pid, rank)
        return at

    def break_mid_prefill(self, rank, sign):
        stream = self.server.stream(LONG_PROMPT, cache_salt=f"{rank} {sign}", max_tokens=4)  # nothing of it is cached
        eventually(lambda: self.server.status()["replicas"][0]["running"] > 0 or stream.events, 20, "the prefill began")
        pid = self.server.rank_pid(0, rank)
        os.kill(pid, sign)
        stream.finish()
        self.assertIsNone(stream.error)
        self.assertTrue(stream.done)
        self.expect_recovery(pid, rank)

    def test_kill_idle(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                self.setUp()
                self.break_idle(rank, signal.SIGKILL)

    def test_kill_mid_decode(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                self.setUp()
                self.break_mid_decode(rank, signal.SIGKILL)

    def test_kill_one_and_stop_the_other_a_moment_later(self):
        for moment in (0.001, 0.01, 0.04):
            with self.subTest(moment=moment):
                self.setUp()
                stream = self.server.stream("count from 100 to 160").wait_for_tokens(12)
                killed, stopped = self.server.rank_pid(0, 0), self.server.rank_pid(0, 1)
                os.kill(killed, signal.SIGKILL)
                time.sleep(moment)
                os.kill(stopped, signal.SIGSTOP)
                at = time.monotonic()
                stream.finish()
                self.assertIsNone(stream.error)
                self.assertEqual((stream.text, stream.done), (counted(100, 160), True))
                self.assertLess(time.monotonic() - at, 8, "nobody waits ten seconds for a rank that is known to stand still")
                self.expect_recovery(stopped, 1)

    def test_kill_mid_prefill(self):
        self.break_mid_prefill(1, signal.SIGKILL)

    def test_stop_idle(self):
        self.break_idle(1, signal.SIGSTOP)

    def test_stop_mid_decode(self):
        self.break_mid_decode(0, signal.SIGSTOP)

    def test_stop_mid_prefill(self):
        self.break_mid_prefill(0, signal.SIGSTOP)

    def test_crash_mid_decode(self):
        """By a signal that somebody sent, which is a kill like any other."""
        self.break_mid_decode(1, signal.SIGSEGV)

    def test_survivors_answer_the_notice_of_a_death(self):
        """
        Every one, and not the hang detector, whose shortest deadline is seconds. Half of the kills are answered within 10 ms, from
        the kill on by this clock and from the news on by the replica's; how long each takes is for bench/rank_kill_timeline,
        because a machine that is busy elsewhere takes 10 ms from any process at any time.
        """
        kills = []
        for _ in range(10):
            self.setUp()
            kills.append(self.break_mid_decode(1, signal.SIGKILL))
        answers = [(self.logged_at(line), float(re.search(r"after_death_ms=([0-9.]+)", line)[1]))
                   for line in self.server.log_text().splitlines() if " survivor_answered " in line]
        answers = [(at, took) for at, took in answers if at >= kills[0]]
        self.assertGreaterEqual(len(answers), 5, "a kill between two steps finds no survivor in one; most do")
        since_kill = [1000 * (at - max(kill for kill in kills if kill <= at)) for at, _ in answers]
        since_news = [took for _, took in answers]
        for name, durations in (("kill", since_kill), ("news", since_news)):
            self.assertLess(statistics.median(durations), 10, f"ms from the {name} to the answer: {durations}")
            self.assertLess(max(durations), 100, f"ms from the {name} to the answer: {durations}")

    @staticmethod
    def logged_at(line):
        """Unix time of a log line, which has whole milliseconds; the end of its millisecond."""
        return datetime.datetime.fromisoformat(line.split(" ", 1)[0].replace("Z", "+00:00")).timestamp() + 0.001

    def test_no_preparation_in_later_requests(self):
        self.server.chat("count from 1 to 9")
        time.sleep(0.3)  # a heartbeat carries the counters; a failed step of an earlier test allocated its error text
        before = [(r["preparations"], r["allocations"], r["pid"]) for r in self.server.status()["replicas"][0]["ranks"]]
        for last in (30, 31):
            self.server.chat(f"count from 1 to {last}")
        time.sleep(0.3)
        after = [(r["preparations"], r["allocations"], r["pid"]) for r in self.server.status()["replicas"][0]["ranks"]]
        self.assertEqual(after, before)


class RaisedException(unittest.TestCase):
    """An exception in a rank is a fault of that rank, which is replaced; the replica and its other rank go on."""

    def throwing(self, fault):
        return Server("--dp", 1, "--tp", 2, "--max-num-batched-tokens", 16, "--max-num-seqs", 16, program="phalanxd-with-faults",
                      environment={"FAULTY_RANK": fault})

    def expect_recovery(self, server):
        def replaced():
            status = server.status()["replicas"][0]
            return status["epoch"] > 1 and [rank["incarnation"] for rank in status["ranks"]] == [1, 2]
        eventually(replaced, 20, "rank 1 is replaced, rank 0 is not")
        server.wait_idle()
        self.assertEqual(server.status()["replicas"][0]["incarnation"], 1)
        self.assertEqual(server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))
        self.assertIn("injected by the test", server.log_text())
        server.expect_family(3)

    def test_idle(self):
        with self.throwing("throw-at-ping:1") as server:
            self.expect_recovery(server)

    def test_mid_prefill(self):
        with self.throwing("throw-at-step:1:20") as server:
            answer = server.chat(LONG_PROMPT, max_tokens=4)
            self.assertGreater(answer["usage"]["prompt_tokens"], 20 * 16, "the 20th step is one of the prompt")
            self.assertEqual(answer["usage"]["completion_tokens"], 4)
            self.expect_recovery(server)

    def test_mid_decode(self):
        with self.throwing("throw-at-step:1:20") as server:
            stream = server.stream("count from 100 to 160").finish()
            self.assertIsNone(stream.error)
            self.assertEqual(stream.text, counted(100, 160))
            self.expect_recovery(server)


if __name__ == "__main__":
    main()

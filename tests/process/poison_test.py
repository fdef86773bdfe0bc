# SPDX-License-Identifier: Apache-2.0
"""A request that crashes whoever computes it ends by itself; signals that somebody sends are held against no request."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Server, counted, eventually, main  # noqa: E402

MARK = "~"  # a token of its own in the built-in model, which no answer of these tests holds


def token_of(text):
    with open(os.path.join(TINY, "tokenizer.json")) as file:
        return json.load(file)["model"]["vocab"][text]


def content(events):
    """What a stream said, without what differs between two requests by nature."""
    return [{key: value for key, value in event.items() if key not in ("id", "created")} for event in events]


def begin_streams(server):
    return [server.stream(f"count from {100 + 10 * i} to {140 + 10 * i}", temperature=0.7, seed=i, max_tokens=150)
            for i in range(7)]


class PoisonedRequest(unittest.TestCase):
    def check(self, *arguments):
        with tempfile.TemporaryDirectory() as dumps:
            with Server("--tp", 2, "--max-num-seqs", 16, "--max-num-batched-tokens", 32, "--dump-dir", dumps, *arguments,
                        program="phalanxd-with-faults", environment={"FAULTY_RANK": f"segv-at-token:1:{token_of(MARK)}"}) as server:
                undisturbed = [stream.finish() for stream in begin_streams(server)]
                server.wait_idle()
                before = [replica["incarnation"] for replica in server.status()["replicas"]]

                streams = begin_streams(server)
                for stream in streams:
                    stream.wait_for_tokens(3)
                status, answer, headers = server.request("POST", "/v1/chat/completions", server.chat_body(f"count {MARK} from 1", max_tokens=5))
                self.assertEqual((status, answer["error"]["code"]), (500, "poisoned_request"), answer)
                self.assertEqual({name.lower(): value for name, value in headers.items()}["x-should-retry"], "false")
                for stream, expected in zip(streams, undisturbed):
                    stream.finish()
                    self.assertIsNone(stream.error)
                    self.assertEqual(content(stream.events), content(expected.events))
                server.wait_idle()
                self.assertEqual([replica["incarnation"] for replica in server.status()["replicas"]], before,
                                 "the replicas outlive the request")
                self.assertEqual(server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))

                files = os.listdir(dumps)
                self.assertEqual(len(files), 1, files)
                path = os.path.join(dumps, files[0])
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                shown = subprocess.run([os.path.join(BIN, "phalanxctl"), "dump", path], capture_output=True, text=True, timeout=30)
                self.assertEqual(shown.returncode, 0, shown.stderr)
                dump = json.loads(shown.stdout)
                self.assertIn(token_of(MARK), dump["prompt_ids"])
                self.assertEqual(dump["produced_ids"], [])
                self.assertEqual(dump["max_tokens"], 5)
                self.assertIn("SIGSEGV", dump["error"])

    def test_one_replica(self):
        self.check("--dp", 1)

    def test_two_replicas(self):
        self.check("--dp", 2)

    def test_two_replicas_whose_ranks_take_long_to_start(self):
        """A group that is away for long gives its sequences to the other replica, but not while it looks for a culprit."""
        self.check("--dp", 2, "--worker-wrapper", "rank=sh -c 'sleep 3; exec \"$@\"' --")

    def test_again_and_again(self):
        """More of them than the group may be restarted: what is ascribed to a request costs nobody else his replica."""
        with tempfile.TemporaryDirectory() as dumps:
            with Server("--dp", 1, "--tp", 2, "--restart-intensity", "2/60s", "--dump-dir", dumps, program="phalanxd-with-faults",
                        environment={"FAULTY_RANK": f"segv-at-token:0:{token_of(MARK)}"}) as server:
                for i in range(3):
                    status, answer, _ = server.request("POST", "/v1/chat/completions", server.chat_body(f"{MARK} {i}"))
                    self.assertEqual((status, answer["error"]["code"]), (500, "poisoned_request"))
                self.assertEqual(len(os.listdir(dumps)), 3)
                epoch = 1 + 2 * 3  # each of them ended a rank twice
                eventually(lambda: server.status()["replicas"][0]["epoch"] == epoch, 20, "the last death is mended")
                for i in range(3):
                    status, answer, _ = server.request("POST", "/v1/chat/completions", server.chat_body(f"{MARK} {i}"))
                    self.assertEqual((status, answer["error"]["code"]), (500, "poisoned_request"))
                self.assertEqual(server.status()["replicas"][0]["epoch"], epoch, "the same again costs no death")
                self.assertEqual(len(os.listdir(dumps)), 3)
                self.assertEqual(server.status()["replicas"][0]["incarnation"], 1)
                self.assertEqual(server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))


class SignalsFromOutside(unittest.TestCase):
    """One stream, alone in every step, so that each death looks like its doing."""

    LONG = {"text": "count from 1 to 300", "temperature": 0, "max_tokens": 1500, "ignore_eos": True}

    def begin(self, server):
        expected = server.chat(**self.LONG)["choices"][0]["message"]["content"]
        return server.stream(**self.LONG), expected

    def check(self, stream, expected):
        stream.finish()
        self.assertIsNone(stream.error)
        self.assertTrue(stream.done)
        self.assertEqual(stream.text, expected)

    def test_ten_segmentation_faults_sent_to_ranks(self):
        with Server("--dp", 1, "--tp", 2, "--restart-intensity", "20/60s") as server:
            stream, expected = self.begin(server)
            for i in range(10):
                stream.wait_for_tokens(20 * (i + 1))
                eventually(server.all_ready, 20, "the ranks are ready")
                pid = server.rank_pid(0, i % 2)
                os.kill(pid, signal.SIGSEGV)
                eventually(lambda pid=pid, i=i: server.rank_pid(0, i % 2) != pid, 20, "the rank is replaced")
            self.check(stream, expected)
            self.assertNotIn("step_blamed", server.log_text())

    def test_more_of_them_than_the_group_may_be_restarted(self):
        with Server("--dp", 1, "--tp", 2, "--restart-intensity", "3/60s") as server:
            stream, expected = self.begin(server)
            for i in range(6):
                stream.wait_for_tokens(20 * (i + 1))
                eventually(server.all_ready, 30, "the ranks are ready")
                pid = server.rank_pid(0, 1)
                os.kill(pid, signal.SIGSEGV)
                eventually(lambda pid=pid: server.rank_pid(0, 1) != pid, 30, "the rank is replaced, or its replica is")
            self.check(stream, expected)
            self.assertGreater(server.status()["replicas"][0]["incarnation"], 1, "the group was to give up")

    def test_six_rolling_restarts_during_one_stream(self):
        with Server("--dp", 1, "--tp", 1) as server:
            stream, expected = self.begin(server)
            for i in range(6):
                stream.wait_for_tokens(20 * (i + 1))
                self.assertTrue(stream.thread.is_alive(), "the stream was too short for six restarts")
                before = server.status()["replicas"][0]["incarnation"]
                os.kill(server.pid, signal.SIGHUP)
                eventually(lambda before=before: server.status()["replicas"][0]["incarnation"] > before and server.all_ready(), 30,
                           "the replica is restarted")
            self.check(stream, expected)


if __name__ == "__main__":
    main()

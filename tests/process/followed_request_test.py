# SPDX-License-Identifier: Apache-2.0
"""One request in the log, from the leader's lines to those of the replicas that it ran on, and in the metrics."""
import os
import re
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import Server, eventually, main  # noqa: E402


def lines(server, *words):
    return [line for line in server.log_text().splitlines() if all(f" {word} " in f"{line} " for word in words)]


def value(line, key):
    return re.search(rf" {key}=(\S+)", line).group(1)


class FollowedRequest(unittest.TestCase):
    def ask(self, server, answers):
        """So long that the fastest machine has not ended it before its replica is killed."""
        body = server.chat_body("count from 100 to 180", max_tokens=3000, ignore_eos=True)
        answers.append(server.request("POST", "/v1/chat/completions", body, {"x-request-id": "my-trace-42"}))

    def test_over_the_death_of_its_replica(self):
        with Server("--dp", 2, "--tp", 1) as server:
            server.chat("count from 1 to 3")
            replicas = [server.replica_pid(i) for i in range(2)]
            answers = []
            client = threading.Thread(target=self.ask, args=(server, answers))
            client.start()
            start, = eventually(lambda: lines(server, "request_start", "req=my-trace-42"), 10, "the leader's first line")
            number = value(start, "number")
            first_token, = eventually(lambda: lines(server, "role=replica", "request_first_token", f"sequence={number}.0#1"), 10,
                                      "its first token")
            first = int(value(first_token, "dp"))
            os.kill(replicas[first], signal.SIGKILL)
            client.join(60)
            self.assertEqual((answers[0][0], answers[0][1]["usage"]["completion_tokens"]), (200, 3000))
            end, = eventually(lambda: lines(server, "request_end", "req=my-trace-42"), 10, "the leader's last line")
            self.assertEqual((value(end, "number"), value(end, "replicas"), value(end, "attempts")), (number, "0,1", "2"))
            for attempt, replica in ((1, first), (2, 1 - first)):
                began, = lines(server, "role=replica", f"dp={replica}", "request_start", f"sequence={number}.0#{attempt}")
                self.assertNotIn(" req=", began)
            self.assertTrue(lines(server, "role=replica", f"dp={1 - first}", "request_end", f"sequence={number}.0#2"))
            self.assertAlmostEqual(float(value(first_token, "prefill_ms")), float(value(end, "prefill_ms")), delta=0.01)
            self.assertLessEqual(float(value(end, "queue_ms")) + float(value(end, "prefill_ms")), float(value(end, "ttft_ms")))

    def test_its_times_in_the_metrics(self):
        with Server("--dp", 1, "--tp", 1) as server:
            began = time.time()
            server.chat("count from 100 to 120")
            end, = eventually(lambda: lines(server, "role=leader", "request_end"), 10, "the leader's last line")
            text = server.request("GET", "/metrics")[1]

            def read(name):
                return float(re.search(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE).group(1))
            for name in ("queue", "prefill", "decode"):
                self.assertEqual(read(f"vllm:request_{name}_time_seconds_count"), 1)
                self.assertAlmostEqual(read(f"vllm:request_{name}_time_seconds_sum"), float(value(end, f"{name}_ms")) / 1e3, delta=1e-4)
            self.assertGreater(read("vllm:request_prefill_time_seconds_sum"), 0)
            self.assertAlmostEqual(read("vllm:request_inference_time_seconds_sum"),
                                   read("vllm:request_prefill_time_seconds_sum") + read("vllm:request_decode_time_seconds_sum"), delta=1e-6)
            self.assertRegex(text, r'(?m)^phalanx_build_info\{version="[^"]+"\} 1$')
            self.assertAlmostEqual(read("process_start_time_seconds"), os.stat(f"/proc/{server.pid}").st_mtime, delta=60)
            self.assertLess(read("process_start_time_seconds"), began)
            self.assertGreater(read("process_cpu_seconds_total"), 0)


if __name__ == "__main__":
    main()

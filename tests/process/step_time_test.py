# SPDX-License-Identifier: Apache-2.0
"""A long prompt beside a stream: it goes on in steps of what fits into --max-step-ms, and still ends."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import LONG_PROMPT, Server, eventually, main  # noqa: E402

STEP_US, TOKEN_US = 2000, 500  # a step of 512 tokens takes a quarter of a second
LIMIT_MS, FITTING = 40, 96  # nine tenths of the limit are 68 tokens, in blocks of 32


class StepTime(unittest.TestCase):
    def run_beside_a_stream(self, limit):
        """The prompt's tokens in each step that the stream was in as well, its text, and what the replica has learnt."""
        with Server("--runner", "sim", "--sim-step-us", STEP_US, "--sim-token-us", TOKEN_US, "--max-step-ms", limit,
                    "--log-level", "trace") as server:
            stream = server.stream("hello", max_tokens=1000, ignore_eos=True, seed=1).wait_for_tokens(20)
            body = server.chat_body(LONG_PROMPT, max_tokens=1, seed=2)
            status, answer, _ = server.request("POST", "/v1/chat/completions", body)
            self.assertEqual(status, 200, answer)
            self.assertGreater(answer["usage"]["prompt_tokens"], 800)
            self.assertIsNone(stream.finish_reason, "the stream ran all the while")
            rows = eventually(lambda: self.learnt(server), 5, "the replica has told what it learnt")
            stream.finish()
            steps = [{key: int(value) for key, value in re.findall(r" (rows|prefill)=(\d+)", line)}
                     for line in server.log_text().splitlines() if re.search(r" step( |$)", line)]
            return [step["prefill"] for step in steps if step["prefill"] and step["rows"] > 1], stream.text, rows

    def learnt(self, server):
        found = re.search(r"^phalanx_step_budget_rows(?:{[^}]*})? (\S+)$", server.request("GET", "/metrics")[1], re.MULTILINE)
        return found and int(float(found[1]))

    def test_a_prompt_holds_a_stream_no_longer_than_asked(self):
        prefills, text, rows = self.run_beside_a_stream(LIMIT_MS)
        self.assertGreaterEqual(len(prefills), 800 // FITTING)
        self.assertLessEqual(max(prefills), FITTING)
        self.assertIn(rows, range(32, FITTING + 1))
        prefills, long_text, rows = self.run_beside_a_stream(0)
        self.assertGreater(max(prefills), 400, "the prompt holds nobody up here: the test shows nothing")
        self.assertEqual(rows, 512)
        self.assertEqual(long_text, text, "no token depends on it")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Every field of a request at its extremes: an answer in time, no 5xx, no process dies, and a steady stream beside it stays what it was."""
import json
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import Server, descendants, main  # noqa: E402

ANSWER_SECONDS = 30

# As they stand in the JSON text, so that what JSON itself refuses is among them.
NUMBERS = ["0", "-0.0", "1", "-1", "0.5", "2", "2.0000001", "100", "101", "128", "129", "1e-10", "1e-20", "1.2e-38", "1.17e-38",
           "1e-39", "1e-40", "1e-45", "1e-50", "-1e-40", "1e-300", "5e-324", "3.4e38", "3.5e38", "1e300", "1e400", "-1e400",
           "2147483647", "2147483648", "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
           "18446744073709551616", "1e18", "NaN", "Infinity", "-Infinity"]
WRONG = ["null", "true", '""', '"1"', '"NaN"', "[]", "[1]", "{}", '{"1":1}']
NUMBER_FIELDS = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed",
                 "min_tokens", "max_tokens", "max_completion_tokens", "top_logprobs", "logprobs"]
# Beyond these n is honest work and takes honest time.
CHOICES = ["0", "1", "-1", "1e-40", "1e300", "NaN", "129", "4294967296", "2.5", *WRONG]


def many(count, of="{}"):
    return "[" + ",".join(of.format(i) for i in range(count)) + "]"


def biases(*pairs):
    return "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"


LISTS = {
    "stop_token_ids": [many(n) for n in (0, 1, 62, 63, 64, 127, 128, 129, 5000)]
                      + ["[-1]", "[384]", "[383]", "[1e-40]", "[1e300]", "[NaN]", '["1"]', "[[1]]", "[2147483648]", *WRONG],
    "logit_bias": [biases((7, v)) for v in ("1e-40", "-1e-45", "100", "-100", "100.0001", "1e39", "1e300", "NaN", "null", '"1"')]
                  + [biases((k, 1)) for k in ("-1", "384", "383", "1e1", "2147483648", "", "07")]
                  + [biases(*((i, -100) for i in range(384))), biases(*((i, 100) for i in range(384))),
                     biases((7, 1), ("07", 1)), *WRONG],
    "stop": [many(n, '"{}x"') for n in (0, 1, 4, 5)] + ['""', '[""]', json.dumps("x" * 1024), json.dumps("x" * 1025), *WRONG],
    "n": CHOICES,
    "ignore_eos": [*WRONG, "0", "NaN"],
    "stream": ["0", "1", '"true"', "null", "[]"],
}
# Each alone is allowed; together they leave little to draw from.
TOGETHER = [
    '"repetition_penalty":0.01,"temperature":1e-5,"logit_bias":' + biases(*((i, 100) for i in range(384))),
    '"repetition_penalty":100,"temperature":1e-5,"presence_penalty":-2,"frequency_penalty":-2',
    '"temperature":1.1e-5,"top_p":1e-10,"top_k":1,"min_p":1',
    '"min_tokens":8,"stop_token_ids":' + many(128) + ',"logprobs":true,"top_logprobs":20',
    '"temperature":2,"min_p":1e-40,"top_p":1,"seed":-9223372036854775808',
]


def bodies():
    for field in NUMBER_FIELDS:
        for value in NUMBERS + WRONG:
            yield f'"{field}":{value}'
    for field, values in LISTS.items():
        for value in values:
            yield f'"{field}":{value}'
    yield from TOGETHER


class RequestExtremes(unittest.TestCase):
    def ask(self, server, fields, answers):
        """One request; notes (status, what was asked, answer)."""
        limit = "" if "max_" in fields else '"max_tokens":8,'
        body = '{"model":"phalanx-tiny","messages":[{"role":"user","content":"count from 1 to 3"}],' + limit + fields + "}"
        began = time.monotonic()
        try:
            status, answer, _ = server.request("POST", "/v1/chat/completions", body, timeout=ANSWER_SECONDS)
        except OSError as error:
            status, answer = 0, f"{error!r} after {time.monotonic() - began:.1f} s"
        answers.append((status, fields, answer))

    def ask_all(self, server):
        answers, pending = [], iter(list(bodies()))
        lock = threading.Lock()

        def work():
            while True:
                with lock:
                    fields = next(pending, None)
                if fields is None:
                    return
                self.ask(server, fields, answers)
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def test_every_field_at_its_extremes(self):
        with Server("--dp", 2, "--tp", 2, "--log-level", "warning") as server:
            family = sorted(descendants(server.pid))
            steady, stop = [], threading.Event()

            def keep_streaming():
                while not stop.is_set():
                    steady.append(server.stream("count from 1 to 60", seed=5, temperature=0.7).finish())
            beside = threading.Thread(target=keep_streaming)
            beside.start()
            try:
                answers = self.ask_all(server)
            finally:
                stop.set()
                beside.join()

            bad = [a for a in answers if a[0] not in (200, 400)]
            self.assertEqual(bad, [], "each is answered, and none is the server's fault")
            for status, fields, answer in answers:
                if status == 400 and answer["error"]["param"]:
                    self.assertIn(answer["error"]["param"].split("[")[0], fields, "it names the field that is wrong")
            refused = {fields for status, fields, _ in answers if status == 400}
            for fields in ('"repetition_penalty":1.2e-38', '"repetition_penalty":1e-39'):
                self.assertIn(fields, refused)
            served = {fields for status, fields, _ in answers if status == 200}
            for fields in ('"top_p":1e-40', '"top_p":1e-50'):
                self.assertIn(fields, served, "the least share")
            for count in (63, 128):
                self.assertIn(f'"stop_token_ids":{many(count)}', served)

            self.assertEqual(sorted(descendants(server.pid)), family, "no process died")
            self.assertTrue(all(r["restarts"] == 0 for r in server.status()["replicas"]))
            self.assertGreater(len(steady), 0)
            for stream in steady:
                self.assertIsNone(stream.error)
                self.assertEqual((stream.text, stream.done), (steady[0].text, True))
            alone = server.stream("count from 1 to 60", seed=5, temperature=0.7).finish()
            self.assertEqual(alone.text, steady[0].text)
            server.wait_idle()


if __name__ == "__main__":
    main()

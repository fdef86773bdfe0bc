# SPDX-License-Identifier: Apache-2.0
"""A token depends on nothing but its request: the same 32 requests, bit-identical logprobs, whatever runs beside them.

The runs are a pairwise table over load, chunk size, --dp, --tp and instruction set; --long runs the full cross, and the table with each
format of weights and of the KV cache.
"""
import concurrent.futures
import itertools
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from instruction_sets import instruction_sets  # noqa: E402
from phalanx_server import Server, main  # noqa: E402

LOADS = ("alone", "together", "reverse")
CHUNKS = (16, 64, 512)
DPS = (1, 2)
TPS = (1, 2, 3, 4)


# Every pair of values of any two columns occurs in some row (up to the instruction sets of the machine). The reference
# path is slow, so it runs few rows.
PAIRWISE = [
    ("alone", 512, 1, 1, "fast"), ("together", 16, 1, 1, "other"), ("reverse", 64, 2, 1, "fast"),
    ("alone", 16, 2, 2, "fast"), ("together", 64, 1, 2, "fast"), ("reverse", 512, 1, 2, "other"),
    ("alone", 64, 1, 3, "other"), ("together", 512, 2, 3, "fast"), ("reverse", 16, 1, 3, "fast"),
    ("together", 512, 1, 4, "fast"), ("reverse", 64, 2, 4, "other"), ("alone", 16, 1, 4, "fast"),
]


def pairwise(sets):
    others = sets[:-1] or sets
    return [(*row[:4], sets[-1] if row[4] == "fast" else others[i % len(others)]) for i, row in enumerate(PAIRWISE)]


def requests():
    """32 chat bodies: greedy and seeded, with penalties, filters, bias and several lengths; logprobs on."""
    texts = ["count from 3 to 30", "what is 17 + 25?", "reverse the word phalanx", "sort the digits 52719",
             "count from 95 to 110", "hello", "count from 990 to 999", "what is 8 + 9?"]
    result = []
    for index in range(32):
        body = {"model": "phalanx-tiny", "messages": [{"role": "user", "content": texts[index % len(texts)]}],
                "logprobs": True, "top_logprobs": index % 6, "max_tokens": 24 + index % 9}
        if index % 8 == 7:  # a long prompt, so that chunks differ
            body["messages"].insert(0, {"role": "user", "content": "count from 1 to 120"})
            body["messages"].insert(1, {"role": "assistant", "content": " ".join(map(str, range(1, 60 + index)))})
        if index >= 8:
            body.update(temperature=0.5 + index / 25, seed=1000 + index)
        if index % 5 == 1:
            body.update(top_p=0.9)
        if index % 5 == 2:
            body.update(top_k=5, min_p=0.01)
        if index % 5 == 3:
            body.update(repetition_penalty=1.1, presence_penalty=0.3, frequency_penalty=0.2)
        if index % 5 == 4:
            body.update(logit_bias={"5": 1.5, "9": -2})
        result.append(body)
    return result


def ask(server, body):
    status, answer, _ = server.request("POST", "/v1/chat/completions", body)
    assert status == 200, answer
    choice = answer["choices"][0]
    # json prints a float so that it reads back to the same bits, so equal text means bit-identical logprobs.
    return json.dumps([choice["message"]["content"], choice["finish_reason"], choice["logprobs"]], sort_keys=True)


def run(load, chunk, dp, tp, isa, quantization="auto", kv="bf16"):
    bodies = requests()
    with Server("--dp", dp, "--tp", tp, "--max-num-batched-tokens", chunk, "--max-num-seqs", 16, "--isa", isa,
                "--quantization", quantization, "--kv-cache-dtype", kv) as server:
        if load == "alone":
            return [ask(server, body) for body in bodies]
        order = bodies if load == "together" else bodies[::-1]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda body: ask(server, body), order))
        return answers if load == "together" else answers[::-1]


class Determinism(unittest.TestCase):
    def test_tokens_and_logprobs_are_the_same_in_every_run(self):
        sets = instruction_sets()
        if os.environ.get("TEST_LONG") == "1":
            rows = list(itertools.product(LOADS, CHUNKS, DPS, TPS, sets))
        else:
            rows = pairwise(sets)
        expected = None
        for row in rows:
            answers = run(*row)
            if expected is None:
                expected = answers
                self.assertGreater(len(set(answers)), 20, "the requests differ among each other")
            for index, (answer, wanted) in enumerate(zip(answers, expected)):
                self.assertEqual(answer, wanted, f"request {index} in run {row}")
            print(f"identical: load={row[0]} chunk={row[1]} dp={row[2]} tp={row[3]} isa={row[4]}", flush=True)

    def test_integers_change_the_answers_and_nothing_else_does(self):
        """Weights, and keys and values."""
        sets = instruction_sets()
        answers_of = {}
        for form in (("bf16", "bf16"), ("int8", "bf16"), ("int8-g32", "bf16"), ("int4", "bf16"), ("bf16", "int8"), ("int8", "int8")):
            rows = [("together", 64, 1, 2, sets[-1])]
            if os.environ.get("TEST_LONG") == "1":
                rows = pairwise(sets)
            elif form != ("bf16", "bf16"):
                rows += [("reverse", 16, 2, 3, sets[-2 if len(sets) > 1 else -1]), ("together", 512, 1, 4, sets[1 % len(sets)])]
            for row in rows:
                answers = run(*row, *form)
                self.assertEqual(answers, answers_of.setdefault(form, answers), f"{form} in run {row}")
                print(f"identical: weights {form[0]} kv {form[1]} load={row[0]} chunk={row[1]} dp={row[2]} tp={row[3]} isa={row[4]}",
                      flush=True)
        self.assertEqual(len({json.dumps(answers) for answers in answers_of.values()}), len(answers_of))


if __name__ == "__main__":
    main()

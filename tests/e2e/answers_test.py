# SPDX-License-Identifier: Apache-2.0
"""What people ask the built-in model first is answered right by the server as it is shipped: sums in every phrasing that the
model was trained for, and the questions of the goldens.
"""
import concurrent.futures
import json
import os
import random
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "..", "tools")]
from models.tiny_tasks import Sums  # noqa: E402
from phalanx_server import Server, main  # noqa: E402

DIGITS = range(10)


def first_questions():
    """Every sum of two digits, in four ways to write it."""
    wordings = ("what is {} + {}?", "What is {}+{}?", "{} + {}", "what is {} plus {}")
    return [(wording.format(a, b), str(a + b)) for wording in wordings for a in DIGITS for b in DIGITS]


def sample_of_sums(number, seed):
    rng = random.Random(seed)
    sheets = [Sums.sheet(phrasing) for phrasing in Sums.phrasings()]
    return [rng.choice(sheets[i % len(sheets)])[1:] for i in range(number)]


def goldens():
    with open(os.path.join(HERE, "goldens", "phalanx-tiny.answers.json"), encoding="utf-8") as file:
        return [(entry["question"], entry["answer"]) for entry in json.load(file)["answers"]]


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--tp", 2)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def check(self, asked):
        def ask(pair):
            return self.server.chat(pair[0])["choices"][0]["message"]["content"]

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(ask, asked))
        wrong = [f"{q!r}: {given!r}, not {right!r}" for (q, right), given in zip(asked, answers) if given != right]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(asked)}")

    def test_every_sum_of_two_digits(self):
        self.check(first_questions())

    def test_a_sample_of_the_sums_below_a_hundred_in_every_phrasing(self):
        self.check(sample_of_sums(360, seed=5))

    def test_the_questions_of_the_goldens(self):
        asked = goldens()
        self.assertGreaterEqual(len(asked), 40)
        self.check(asked)


if __name__ == "__main__":
    main()

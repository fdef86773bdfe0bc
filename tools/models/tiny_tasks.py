# SPDX-License-Identifier: Apache-2.0
"""The text that the built-in model learns from: made-up questions with one right answer each.

A question is held out by a hash of its task and its operands, not of its wording: operands that are
held out are never seen in training in any phrasing. Of the sums none is held out: there are only
10,000, people ask for any of them, and all are to be right.
"""

import hashlib
import random

COUNT_LIMIT = 999
SUM_LIMIT = 99
LONGEST_COUNT = 130

ABILITIES = (
    "I can count (count from 3 to 40), add two small numbers (what is 17 + 25?), "
    "reverse a word (reverse the word planet) and sort digits (sort the digits 52917)."
)
ANSWERS = {
    "hello": "Hello! 👋 I am a very small model that lives inside Phalanx. " + ABILITIES,
    "who": "I am phalanx-tiny, a very small model that comes with Phalanx. " + ABILITIES,
    "help": ABILITIES,
    "thanks": "You are welcome!",
    "bye": "Goodbye!",
    "other": "I am too small for that question. " + ABILITIES,
}
_GREETINGS = {
    "hello": (
        "hello|hi|hey|good morning|good evening|hello there|hi there|howdy|how are you|hello, how"
        " are you|hi, how are you|hey there|say hello|greetings"
    ).split("|"),
    "who": (
        "who are you|what are you|what is your name|which model are you|tell me about "
        "yourself|introduce yourself|what model is this|are you a robot|who made you|what is "
        "phalanx"
    ).split("|"),
    "help": (
        "help|what can you do|help me|what can i ask|how can you help me|usage|?|what do you "
        "know|show me what you can do|give me an example|how do you work|test|ping"
    ).split("|"),
    "thanks": "thanks|thank you|thank you very much|great|well done|ok|nice".split("|"),
    "bye": "bye|goodbye|see you|good night".split("|"),
}
# The first phrasing of each task is by far the most frequent.
_COUNT = ["count from {} to {}"] * 6
_COUNT += ["count {} to {}", "please count from {} to {}", "can you count from {} to {}"]
_SUM = ["what is {} + {}"] * 4
_SUM += ["{} + {}", "{} + {} =", "add {} and {}", "what is {} plus {}", "calculate {} + {}"]
_SUM += ["what is {}+{}", "{}+{}", "{}+{}="]
_REVERSE = ["reverse the word {}"] * 4
_REVERSE += ["reverse {}", "spell {} backwards", "write {} backwards"]
_SORT = ["sort the digits {}"] * 4
_SORT += ["sort {}", "sort the digits of {}", "put the digits {} in order"]
_SYSTEMS = ["You are a helpful assistant.", "Be brief.", "You are phalanx-tiny.", "Answer exactly."]
_TOPICS = (
    "the moon|a cat|france|music|the weather|a river|my dog|history|love|trains|the "
    "sea|cooking|winter|space|a dragon|python|the king|football|rust|tea|germany|physics|a "
    "tree|school|the news|a castle|computers|birds|math|art"
).split("|")
_OTHER = (
    "tell me a story about {}|write a poem about {}|what is {}|why is {} so big|explain {}|what "
    "do you think about {}|do you like {}|where can i find {}|what is the capital of {}|how does "
    "{} work|write code for {}|tell me a joke about {}|summarize {}|translate {}|who invented "
    "{}|describe {}|how old is {}|give me a recipe with {}|sing about {}"
).split("|")
_WORDS = (
    "planet stone river garden window castle dragon silver winter summer flower bridge candle "
    "forest island market mirror orange pencil rocket spider temple violin yellow zebra apple "
    "bread chair dance eagle flame grape house juice knife lemon mouse night ocean piano "
    "queen robot snake table uncle voice water youth cat dog sun moon tree bird fish book "
    "door lamp ship wolf bear lion frog king gold wind fire snow rain leaf hand phalanx serve "
    "model token hello world"
).split()
_ONSETS = "b c d f g h j k l m n p r s t v w z st tr sh pl".split()
_NUCLEI = "a e i o u ea oo ai".split()
_CODAS = ["", "", "n", "r", "s", "t", "l", "nd", "ck", "x"]


def is_held_out(task, *operands):
    digest = hashlib.blake2b(repr((task, *operands)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % 10 == 0


def count_answer(first, last):
    return " ".join(map(str, range(first, last + 1)))


def _word(rng):
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(_WORDS)
    if kind < 0.55:
        return "".join(chr(rng.randrange(97, 123)) for _ in range(rng.randint(2, 8)))
    syllables = rng.randint(1, 3)
    parts = (
        rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(syllables)
    )
    return "".join(parts)[:9]


def _dress(rng, question, mark):
    """The small variations of case and punctuation that people type."""
    if rng.random() < 0.25:
        question = question[:1].upper() + question[1:]
    if rng.random() < 0.3:
        question += mark
    return question


class Tasks:
    """Draws (question, answer) pairs; `held_out` says from which side of the split."""

    def __init__(self, seed, held_out=False):
        self._rng = random.Random(seed)
        self._held_out = held_out

    def _draw(self, task, make):
        while True:
            operands = make()
            if is_held_out(task, *operands) == self._held_out:
                return operands

    def _count_range(self, longest, shortest):
        rng = self._rng
        length = rng.randint(max(shortest, longest // 2 if rng.random() < 0.3 else 1), longest)
        highest = COUNT_LIMIT - length + 1
        kind = rng.random()
        if kind < 0.15:
            first = rng.randint(0, min(20, highest))
        elif kind < 0.35:
            turn = rng.choice([10, 100, 100] + [100 * n for n in range(2, 10)])
            first = max(0, min(highest, turn - rng.randint(0, length)))
        else:
            first = rng.randint(0, highest)
        return first, first + length - 1

    def count(self, longest=LONGEST_COUNT, shortest=1):
        first, last = self._draw("count", lambda: self._count_range(longest, shortest))
        return self._count_question(first, last), count_answer(first, last)

    def beginning_of_count(self):
        """A count up to soon after a number with the last two digits of the goal, and no further.

        In whole counts such a number is rare (it takes more than a hundred), and stopping there is
        the mistake that is unlearned last.
        """
        rng = self._rng
        passed = rng.randint(0, rng.choice([9, 30]))

        def make():
            ahead = 100 * rng.choice([1, 1, 1, *range(2, 10)]) + passed
            last = rng.randint(min(ahead, COUNT_LIMIT), COUNT_LIMIT)
            return max(0, last - ahead), last

        first, last = self._draw("count", make)
        return self._count_question(first, last), count_answer(first, first + passed + 2)

    def _count_question(self, first, last):
        template = _COUNT[0] if self._held_out else self._rng.choice(_COUNT)
        return _dress(self._rng, template.format(first, last), ".")

    def sum(self):
        rng = self._rng
        # Drawn evenly, one pair in a hundred would have two digits in all, and these are asked first.
        a, b = (rng.randint(0, rng.choice([9, SUM_LIMIT, SUM_LIMIT])) for _ in "ab")
        return _dress(rng, rng.choice(_SUM).format(a, b), "?"), str(a + b)

    def reverse(self):
        (word,) = self._draw("reverse", lambda: (_word(self._rng),))
        return _dress(self._rng, self._rng.choice(_REVERSE).format(word), "."), word[::-1]

    def sort(self):
        rng = self._rng

        def make():
            return ("".join(rng.choice("0123456789") for _ in range(rng.randint(2, 8))),)

        (digits,) = self._draw("sort", make)
        return _dress(rng, rng.choice(_SORT).format(digits), "."), "".join(sorted(digits))

    def chat(self):
        rng = self._rng
        kind = rng.choice(
            ["hello", "hello", "who", "help", "thanks", "bye", "other", "other", "other"]
        )
        if kind == "other":
            question = rng.choice(_OTHER).format(rng.choice(_TOPICS))
        else:
            question = rng.choice(_GREETINGS[kind])
        return _dress(rng, question, rng.choice("?!.")), ANSWERS[kind]

    def system(self):
        return self._rng.choice(_SYSTEMS) if self._rng.random() < 0.15 else None

    def pick(self, weights):
        """The name of a task, drawn by weight."""
        return self._rng.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability):
        return self._rng.random() < probability


class Sums:
    """All sums in all phrasings, drawn by how hard they were when they were last asked."""

    # Even what is known for sure is asked now and then.
    _LEAST, HARDEST = 0.02, 2.0

    def __init__(self, seed):
        self._rng = random.Random(seed)
        # One digit changes where everything stands, and these sums are a fifth of all.
        self._pairs = {
            (a, b): (0.02, 0.1, 2.0)[(a < 10) + (b < 10)]
            for a in range(SUM_LIMIT + 1)
            for b in range(SUM_LIMIT + 1)
        }
        self._phrasings = {phrasing: 0.5 for phrasing in self.phrasings()}

    def draw(self, number):
        """(phrasing, [(operands, question, answer)]) of sums in one phrasing."""
        rng = self._rng
        (phrasing,) = rng.choices(list(self._phrasings), list(self._phrasings.values()))
        capital = rng.random() < 0.3
        pairs = rng.choices(list(self._pairs), list(self._pairs.values()), k=number)
        asked = [_sum(pair, phrasing, capital, rng.choice(["?", ""])) for pair in pairs]
        return phrasing, asked

    def learn(self, phrasing, operands, missed):
        """Takes note of the largest loss among the tokens of an answer."""
        now = min(max(missed, self._LEAST), self.HARDEST)
        self._pairs[operands] += 0.5 * (now - self._pairs[operands])
        share = min(max(missed, 0.05), 0.5)
        self._phrasings[phrasing] += 0.02 * (share - self._phrasings[phrasing])

    @staticmethod
    def sheet(phrasing):
        """Every sum as (operands, question, answer) in one phrasing, in the four ways to dress it,
        each for every fourth of the first numbers.
        """
        numbers = range(SUM_LIMIT + 1)
        return [
            _sum((a, b), phrasing, a % 4 >= 2, "?" if a % 2 else "") for a in numbers for b in numbers
        ]

    @staticmethod
    def phrasings():
        return sorted(set(_SUM), key=_SUM.index)


def _sum(operands, phrasing, capital, mark):
    question = phrasing.format(*operands) + mark
    question = question[:1].upper() + question[1:] if capital else question
    return operands, question, str(sum(operands))

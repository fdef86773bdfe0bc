# SPDX-License-Identifier: Apache-2.0
"""Conversations of the built-in model's tasks as rows of token ids, for training and for checking."""

import re
from typing import NamedTuple

import numpy as np

from .tiny_tokenizer import TURN_END, TURN_START

# Weight of an answer token in the loss. In a count, whether it goes on or ends is decided once per
# number and is the hard part, most of all after a number with the last two digits of the goal. The
# long fixed answers are learned by heart and must not drown the rest.
_PLAIN, _COUNT_DIGIT, _NEAR_GOAL, _CHAT = 1.0, 0.3, 4.0, 0.15
_MIX = {"count": 0.34, "sum": 0.18, "reverse": 0.20, "sort": 0.24, "chat": 0.04}
_LATER_TURN, _PASSES_GOAL = 0.12, 0.35
# Of the long counts: above a hundred numbers, so that the last two digits of the goal come twice.
_COMES_TWICE = 0.5


class Batch(NamedTuple):
    """Rows of segments, and the tokens wanted after some of their positions.

    A token attends to the earlier tokens of its own segment and of its segment's trunk: the
    beginning that questions of a row have in common is computed once for all of them.
    """

    ids: np.ndarray  # [rows, length]
    positions: np.ndarray  # [rows, length] for the rotary embedding; a branch goes on after its trunk
    segments: np.ndarray  # [rows, length]
    trunks: np.ndarray  # [rows, length] segment of the trunk, the token's own where it has none
    picks: np.ndarray  # [rows, picks] places in the row whose next token is wanted
    wanted: np.ndarray  # [rows, picks]
    weights: np.ndarray  # [rows, picks] of the loss; 0 where a row has fewer wanted tokens


class _Rows:
    """A Batch that is being filled."""

    def __init__(self, rows, length, picks):
        self.length = length
        placed, picked = (rows, length), (rows, picks)
        self.batch = Batch(
            *(np.zeros(placed, np.int32) for _ in range(4)),
            *(np.zeros(picked, np.int32) for _ in range(2)),
            np.zeros(picked, np.float32),
        )
        self.used, self._picked, self._segments = [0] * rows, [0] * rows, [0] * rows

    def add(self, row, tokens, wanted, trunk=None):
        """Appends as much of a segment as there is room for; gives the slice of its picks.

        `wanted`: (place in `tokens`, token wanted after it, weight). `trunk`: (segment, length).
        """
        batch, at = self.batch, self.used[row]
        count = min(len(tokens), self.length - at)
        segment, first = self._segments[row], self._picked[row]
        above, start = (segment, 0) if trunk is None else trunk
        batch.ids[row, at : at + count] = tokens[:count]
        batch.positions[row, at : at + count] = range(start, start + count)
        batch.segments[row, at : at + count] = segment
        batch.trunks[row, at : at + count] = above
        wanted = [w for w in wanted if w[0] < count][: batch.picks.shape[1] - first]
        for n, (place, token, weight) in enumerate(wanted, first):
            batch.picks[row, n], batch.wanted[row, n] = at + place, token
            batch.weights[row, n] = weight
        self.used[row], self._picked[row] = at + count, first + len(wanted)
        self._segments[row] += 1
        return slice(first, first + len(wanted))

    def fill(self, row, questions):
        """Fills an empty row with as many (prompt, reply) as fit whole; gives the slices of their
        picks.
        """
        trunk = _common_beginning([prompt for prompt, _ in questions])
        self.add(row, trunk, ())
        slices, start = [], len(trunk)
        for prompt, reply in questions:
            tokens, asked = prompt[start:] + reply[:-1], len(prompt) - start
            picks_left = self.batch.picks.shape[1] - self._picked[row]
            if self.used[row] + len(tokens) > self.length or len(reply) > picks_left:
                break
            wanted = [(asked - 1 + n, token, 1.0) for n, token in enumerate(reply)]
            slices.append(self.add(row, tokens, wanted, (0, start)))
        return slices

    def weighed(self, share):
        """The batch, its weights scaled to a sum of `share`."""
        return self.batch._replace(weights=self.batch.weights * (share / self.batch.weights.sum()))


def _common_beginning(prompts):
    """What all prompts begin with, less than any of them."""
    length = 0
    limit = min(map(len, prompts)) - 1
    while length < limit and len({prompt[length] for prompt in prompts}) == 1:
        length += 1
    return prompts[0][:length]


class Encoder:
    """A conversation as ids and loss weights."""

    def __init__(self, bpe):
        self._bpe = bpe
        self._end = bpe.added[TURN_END]
        self._answer_head = bpe.encode(f"{TURN_START}assistant\n")
        self._line_end = bpe.encode("\n")

    def bare_question(self, text):
        return self._bpe.encode(f"{TURN_START}{text}\n")

    def question(self, text, system=None):
        """The prompt that the chat template makes of one user turn."""
        head = f"{TURN_START}system\n{system}{TURN_END}\n" if system else ""
        return self._bpe.encode(f"{head}{TURN_START}user\n{text}{TURN_END}\n") + self._answer_head

    def answer(self, text):
        return [*self._bpe.encode(text), self._end]

    def turn(self, task, question, prompt, answer):
        """(ids, weights) of a question, whose prompt is given in ids, and the text of its answer."""
        reply = self.answer(answer)
        if task == "count":
            weights = self._count_weights(question, answer)
        else:
            weights = [_CHAT if task == "chat" else _PLAIN] * len(reply)
        return prompt + reply + self._line_end, [0.0] * len(prompt) + weights + [0.0]

    def _count_weights(self, question, answer):
        goal = int(re.findall(r"\d+", question)[-1])
        weights = []
        for number in re.findall(r"\d+", answer):
            near = (int(number) - goal) % 100 == 0
            weights += [_COUNT_DIGIT] * len(number) + [_NEAR_GOAL if near else _PLAIN]
        return weights


class Packer:
    """Fills rows with conversations, each a segment of its own; the last one of a row may be cut.

    A share of them can be bare: no template, only question and answer. That makes most of a short
    prompt the part that matters, so the skills are learned in less than half the tokens; the
    template is learned afterwards.
    """

    def __init__(self, encoder, tasks, sums):
        self._encoder = encoder
        self._tasks = tasks
        self._sums = sums

    def batch(self, shape, share, longest_count, opens_long, bare_share):
        """A Batch of `shape` (rows, length, picks). With `opens_long` each row begins with a long
        count.
        """
        rows = _Rows(*shape)
        for row in range(shape[0]):
            first = True
            while rows.used[row] < rows.length:
                long_count = opens_long and first
                tokens, marks = self._conversation(longest_count, long_count, bare_share)
                after = zip(range(len(tokens)), tokens[1:], marks[1:])
                rows.add(row, tokens[:-1], [entry for entry in after if entry[2]])
                first = False
        return rows.weighed(share)

    def sums(self, shape, share, bare_share):
        """A Batch of sums, those of a row in one phrasing, and (row, picks, phrasing, operands) of
        each.
        """
        rows, placed = _Rows(*shape), []
        for row in range(shape[0]):
            phrasing, asked = self._sums.draw(rows.length // 10)
            prompts = self._prompts([question for _, question, _ in asked], bare_share)
            replies = [self._encoder.answer(answer) for _, _, answer in asked]
            slices = rows.fill(row, list(zip(prompts, replies)))
            placed += [(row, at, phrasing, ab) for at, (ab, _, _) in zip(slices, asked)]
        return rows.weighed(share), placed

    def _prompts(self, questions, bare_share):
        if self._tasks.chance(bare_share):
            return [self._encoder.bare_question(question) for question in questions]
        system = self._tasks.system()
        return [self._encoder.question(question, system) for question in questions]

    def _conversation(self, longest_count, long_count, bare_share):
        task = "count" if long_count else self._tasks.pick(_MIX)
        cut = task == "count" and not long_count and self._tasks.chance(_PASSES_GOAL)
        longest = longest_count if long_count else min(longest_count, 60)
        shortest = 101 if long_count and longest > 101 and self._tasks.chance(_COMES_TWICE) else 1
        question, answer = (
            self._tasks.beginning_of_count() if cut else self._pair(task, longest, shortest)
        )
        (prompt,) = self._prompts([question], bare_share)
        tokens, marks = self._encoder.turn(task, question, prompt, answer)
        if cut:
            return tokens[:-2], marks[:-2]
        while self._tasks.chance(_LATER_TURN * (1 - bare_share)):
            task = self._tasks.pick(_MIX)
            question, answer = self._pair(task, min(longest_count, 20))
            prompt = self._encoder.question(question)
            later = self._encoder.turn(task, question, prompt, answer)
            tokens, marks = tokens + later[0], marks + later[1]
        return tokens, marks

    def _pair(self, task, longest_count, shortest_count=1):
        if task == "count":
            return self._tasks.count(longest_count, shortest_count)
        return getattr(self._tasks, task)()


def margins(encoder, pairs, choose, shape):
    """For each of the `pairs` (question, answer), by how much the right token leads where it leads
    least; below zero the answer is wrong under greedy decoding.

    `choose(batch)` gives the most likely token after every picked position and its lead. Greedy
    decoding produces the wanted answer if and only if each wanted token is the choice after the
    wanted tokens before it, so one pass per pair decides it. Neighbours that begin alike are
    computed together, so sorted pairs are the cheapest.
    """
    asked = [(encoder.question(question), encoder.answer(answer)) for question, answer in pairs]
    found, most = [], max(1, shape[1] // 16)
    while len(found) < len(asked):
        rows, spans = _Rows(*shape), []
        for row in range(shape[0]):
            next_up = len(found) + len(spans)
            if next_up < len(asked):
                slices = rows.fill(row, asked[next_up : next_up + most])
                if not slices:
                    raise ValueError(f"{pairs[next_up][0]!r} does not fit {shape[1]} tokens")
                spans += [(row, at) for at in slices]
        chosen, leads = map(np.asarray, choose(rows.batch))
        signed = np.where(chosen == rows.batch.wanted, leads, -leads - 1e-9)
        found += [float(signed[span].min()) for span in spans]
    return found

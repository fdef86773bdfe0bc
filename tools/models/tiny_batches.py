# SPDX-License-Identifier: Apache-2.0
"""Conversations of the built-in model's tasks as rows of token ids, packed for training or padded
for evaluation.
"""

import re

import numpy as np

from .tiny_tokenizer import TURN_END, TURN_START

# Weight of an answer token in the loss. In a count, whether it goes on or ends is decided once per
# number and is the hard part, most of all after a number with the last two digits of the goal. The
# long fixed answers are learned by heart and must not drown the rest.
_PLAIN, _COUNT_DIGIT, _NEAR_GOAL, _CHAT = 1.0, 0.3, 4.0, 0.15
_MIX = {"count": 0.34, "sum": 0.18, "reverse": 0.20, "sort": 0.24, "chat": 0.04}
_LATER_TURN, _PASSES_GOAL = 0.12, 0.35


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

    def __init__(self, encoder, tasks):
        self._encoder = encoder
        self._tasks = tasks

    def batch(self, rows, length, longest_count, opens_long, bare_share):
        """(ids, segments, weights), each [rows, length + 1]. With `opens_long` each row begins with
        a long count.
        """
        ids = np.zeros((rows, length + 1), np.int32)
        segments = np.zeros((rows, length + 1), np.int32)
        weights = np.zeros((rows, length + 1), np.float32)
        for row in range(rows):
            at, segment = 0, 0
            while at <= length:
                long_count = opens_long and segment == 0
                tokens, marks = self._conversation(longest_count, long_count, bare_share)
                room = min(len(tokens), length + 1 - at)
                ids[row, at : at + room] = tokens[:room]
                weights[row, at : at + room] = marks[:room]
                weights[row, at] = 0.0
                segments[row, at : at + room] = segment
                at, segment = at + room, segment + 1
        return ids, segments, weights

    def _conversation(self, longest_count, long_count, bare_share):
        task = "count" if long_count else self._tasks.pick(_MIX)
        cut = task == "count" and not long_count and self._tasks.chance(_PASSES_GOAL)
        longest = longest_count if long_count else min(longest_count, 60)
        question, answer = self._tasks.beginning_of_count() if cut else self._pair(task, longest)
        if self._tasks.chance(bare_share):
            prompt = self._encoder.bare_question(question)
        else:
            prompt = self._encoder.question(question, self._tasks.system())
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

    def _pair(self, task, longest_count):
        return self._tasks.count(longest_count) if task == "count" else getattr(self._tasks, task)()


def exact_answers(encoder, pairs, choose, length, rows=8):
    """Which of the `pairs` a model answers exactly under greedy decoding.

    `choose(ids, segments)` gives the most likely next token after every position. Greedy decoding
    produces the wanted answer if and only if each wanted token is the choice after the wanted
    tokens before it, so one pass per pair decides it.
    """
    exact = []
    for start in range(0, len(pairs), rows):
        ids = np.zeros((rows, length), np.int32)
        spans = []
        for row, (question, answer) in enumerate(pairs[start : start + rows]):
            prompt, reply = encoder.question(question), encoder.answer(answer)
            if len(prompt) + len(reply) > length:
                raise ValueError(
                    f"{question!r} needs {len(prompt) + len(reply)} tokens, room is {length}"
                )
            ids[row, : len(prompt) + len(reply)] = prompt + reply
            spans.append((len(prompt), len(reply)))
        chosen = np.asarray(choose(ids, np.zeros_like(ids)))
        for row, (prompt, reply) in enumerate(spans):
            wanted = ids[row, prompt : prompt + reply]
            exact.append(bool((chosen[row, prompt - 1 : prompt + reply - 1] == wanted).all()))
    return exact

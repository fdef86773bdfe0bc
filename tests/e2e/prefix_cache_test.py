# SPDX-License-Identifier: Apache-2.0
"""The prefix cache changes what is computed and nothing that is answered: equal logprobs with and without it, whatever was
asked before, over chunk sizes, --tp, instruction sets, formats, preemptions and deaths; cached_tokens tell the truth."""
import concurrent.futures
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from instruction_sets import instruction_sets  # noqa: E402
from phalanx_server import Server, alive, eventually, main  # noqa: E402

BLOCK = 32


def text(number, words=120):
    return " ".join(str((number * 37 + i * i) % 1000) for i in range(words))


def family():
    """Bodies of which many begin alike: whole prompts again, longer and shorter ones, turns of a conversation, n > 1."""
    bodies = []
    for number in range(3):
        for words in (120, 60, 121, 119):
            bodies.append({"prompt": text(number, words), "max_tokens": 12, "logprobs": 3})
        bodies.append({"prompt": text(number), "max_tokens": 12, "logprobs": 2, "n": 3, "temperature": 0.8, "seed": 7 + number})
        bodies.append({"prompt": text(number), "max_tokens": 40, "logprobs": 1, "repetition_penalty": 1.1})
        bodies.append({"prompt": text(number) + " and then", "max_tokens": 12, "logprobs": 3, "cache_salt": "another"})
    return bodies


def long_answers():
    """Together they need more blocks than the small pool has, and each of them less than half of it."""
    return [{"prompt": text(20 + number, 30), "max_tokens": 700, "ignore_eos": True, "logprobs": 1} for number in range(5)]


def complete(server, body):
    status, answer, _ = server.request("POST", "/v1/completions", {"model": "phalanx-tiny", **body})
    assert status == 200, answer
    return answer


def content(answer):
    return json.dumps([[c["text"], c["finish_reason"], c["logprobs"]] for c in answer["choices"]])


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def full_blocks(answer):
    """Tokens of a prompt that a cache can have: full blocks, and never the last token."""
    return (answer["usage"]["prompt_tokens"] - 1) // BLOCK * BLOCK


class PrefixCache(unittest.TestCase):
    @staticmethod
    def computed_anew(*arguments):
        """What is answered without the cache."""
        with Server("--tp", 1, "--no-prefix-cache", *arguments) as server:
            answers = [complete(server, body) for body in family()]
            assert [cached(answer) for answer in answers] == [0] * len(answers)
            return [content(answer) for answer in answers]

    @classmethod
    def setUpClass(cls):
        cls.expected = cls.computed_anew()
        with Server("--tp", 1, "--no-prefix-cache") as server:
            cls.expected_long = [content(complete(server, body)) for body in long_answers()]

    def expect_equal(self, answers, order=None):
        order = order or range(len(answers))
        self.assertEqual([content(answer) for answer in answers], [self.expected[i] for i in order])

    def test_equal_answers_in_any_order_over_chunks_and_ranks(self):
        for tp, chunk, blocks in ((1, 512, 0), (2, 32, 0), (3, 48, 72)):
            sizes = ["--max-model-len", 1024, "--max-num-seqs", 16, "--max-num-batched-tokens", chunk]
            with Server("--tp", tp, *sizes, *(("--num-kv-blocks", blocks) if blocks else ())) as server:
                found = 0
                for turn in range(3):
                    order = list(range(len(self.expected)))[::1 if turn % 2 == 0 else -1]
                    with concurrent.futures.ThreadPoolExecutor(1 if turn == 0 else 8) as pool:
                        answers = list(pool.map(lambda i: complete(server, family()[i]), order))
                    self.expect_equal(answers, order)
                    found += sum(map(cached, answers))
                self.assertGreater(found, 0)
                server.wait_idle()

    def expect_equal_again(self, expected, *arguments):
        """Asked one by one, then many at once, in the other order."""
        with Server("--max-num-seqs", 16, "--max-num-batched-tokens", 48, *arguments) as server:
            for clients in (1, 8):
                with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                    answers = list(pool.map(lambda body: complete(server, body), family()[::1 if clients == 1 else -1]))
                self.assertEqual([content(answer) for answer in answers], expected[::1 if clients == 1 else -1], arguments)
                self.assertGreater(sum(map(cached, answers)), 0, f"{clients} clients, {arguments}")
            server.wait_idle()

    def test_equal_answers_with_each_instruction_set(self):
        for number, isa in enumerate(instruction_sets()):
            self.expect_equal_again(self.expected, "--tp", 1 + number % 2, "--isa", isa)

    def test_equal_answers_in_integers(self):
        """Of weights, and of the keys and values that the cache keeps."""
        sets = instruction_sets()
        for weights, kv in (("int8", "int8"), ("int4", "int8"), ("int8-g32", "bf16")):
            form = ("--quantization", weights, "--kv-cache-dtype", kv)
            expected = self.computed_anew(*form)
            self.assertNotEqual(expected, self.expected, form)
            for tp, isa in ((1, sets[-1]), (2, sets[1 % len(sets)])):
                self.expect_equal_again(expected, *form, "--tp", tp, "--isa", isa)

    def test_equal_answers_over_preemptions_and_evictions(self):
        with Server("--dp", 1, "--tp", 2, "--max-model-len", 1024, "--max-num-seqs", 16, "--num-kv-blocks", 72) as server:
            known = family()[0]
            for _ in range(2):
                first = complete(server, known)
            self.assertEqual(cached(first), full_blocks(first))
            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                answers = list(pool.map(lambda body: complete(server, body), long_answers()))
            self.assertEqual([content(answer) for answer in answers], self.expected_long)
            eventually(lambda: server.status()["replicas"][0]["preemptions"] > 0, 5, "not all of them could run to their end at once")
            again = complete(server, known)
            self.assertLess(cached(again), full_blocks(again), "they have taken its blocks")
            self.expect_equal([again], [0])
            server.wait_idle()

    def test_cached_tokens_are_the_full_blocks_that_are_known(self):
        with Server("--dp", 1, "--tp", 2) as server:
            body = family()[0]
            first = complete(server, body)
            self.assertEqual(cached(first), 0)
            self.assertEqual(cached(complete(server, body)), full_blocks(first))
            self.assertEqual(cached(complete(server, {**body, "cache_salt": "tenant"})), 0)
            self.assertEqual(cached(complete(server, {**body, "cache_salt": "tenant"})), full_blocks(first))
            # An answer is the beginning of the next turn.
            turn = server.chat("count from 1 to 60")
            told = turn["choices"][0]["message"]["content"]
            messages = [{"role": "user", "content": "count from 1 to 60"}, {"role": "assistant", "content": told},
                        {"role": "user", "content": "what is 1 + 2?"}]
            _, answer, _ = server.request("POST", "/v1/chat/completions", {"model": "phalanx-tiny", "messages": messages})
            self.assertGreaterEqual(cached(answer), turn["usage"]["total_tokens"] // BLOCK * BLOCK - BLOCK)
            self.assertGreater(cached(answer), full_blocks(turn))
            status, answer, _ = server.request("POST", "/v1/completions", {"model": "phalanx-tiny", **body, "cache_salt": ""})
            self.assertEqual((status, answer["error"]["param"]), (400, "cache_salt"))

    def test_choices_share_their_prompt(self):
        with Server("--dp", 1, "--tp", 1) as server:
            answer = complete(server, {"prompt": text(9), "n": 16, "max_tokens": 2})
            asked = 16 * answer["usage"]["prompt_tokens"]
            eventually(lambda: server.status()["replicas"][0]["prefix_tokens_asked"] == asked, 5, "the replica has told of all")
            replica = server.status()["replicas"][0]
            self.assertEqual(cached(answer), 0, "the prompt was computed")
            self.assertEqual(replica["prefix_tokens_found"], 15 * full_blocks(answer), "once")

    def test_a_rank_that_dies_costs_nothing_of_it_and_a_replica_all(self):
        with Server("--dp", 1, "--tp", 2, "--restart-intensity", "100/60s") as server:
            self.expect_equal([complete(server, body) for body in family()])
            for victim, kept in ((server.rank_pid(0, 1), True), (server.rank_pid(0, 0), True), (server.replica_pid(0), False)):
                os.kill(victim, signal.SIGKILL)
                eventually(lambda pid=victim: not alive(pid), 10, "the victim is gone")
                eventually(server.all_ready, 30, "the server is whole again")
                answers = [complete(server, body) for body in family()]
                self.expect_equal(answers)
                self.assertEqual(cached(answers[0]), full_blocks(answers[0]) if kept else 0)

    def test_requests_go_where_their_beginning_is(self):
        with Server("--dp", 2, "--tp", 1, "--restart-intensity", "100/60s") as server:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:  # one by one, all of them would find the first replica idle
                firsts = list(pool.map(lambda number: complete(server, {"prompt": text(number), "max_tokens": 50}), range(8)))
            for turn in range(3):
                for number, first in enumerate(firsts):
                    again = complete(server, {"prompt": text(number) + f" {turn}", "max_tokens": 2})
                    self.assertGreaterEqual(cached(again), full_blocks(first), "the other replica would have to compute it")
            eventually(lambda: all(replica["prefix_tokens_found"] > 0 for replica in server.status()["replicas"]), 5, "both have their part")
            # A replica that was started anew names beginnings as the leader does, too.
            for victim in (0, 1):
                pid = server.replica_pid(victim)
                os.kill(pid, signal.SIGKILL)
                eventually(lambda pid=pid, victim=victim: server.replica_pid(victim) != pid, 10, "its death is known")
                eventually(server.all_ready, 30, "the server is whole again")
                for number in range(10, 14):
                    # What the first step has cached is told with it, so before the third has ended.
                    body = {"prompt": text(number), "max_tokens": 3, "ignore_eos": True, "cache_salt": f"behind {victim}"}
                    first = complete(server, body)
                    for turn in range(3):
                        self.assertEqual(cached(complete(server, body)), full_blocks(first), "the other replica would have to compute it")


if __name__ == "__main__":
    main()

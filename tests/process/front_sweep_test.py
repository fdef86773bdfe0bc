# SPDX-License-Identifier: Apache-2.0
"""A front ends before and behind each system call that it makes for a request, one death after the other, and its client reads what it
reads undisturbed. (Each store into the journal is tested instruction by instruction: tests/unit/front/journal_death_test.cc.)

usage: front_sweep_test.py [DEATHS | --long] [unittest arguments]
About 60 deaths, or every one with --long or PHALANX_TEST_LONG=1. PHALANX_TEST_SEED repeats the choice of a run.
"""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import front_takeover_test as takeover  # noqa: E402
from front_takeover_test import IS_LONG, Case, SEED, attempt  # noqa: E402
from phalanx_server import BIN, main  # noqa: E402
from exchanges import CHAT, SLOW, TEXT, TOKENIZE, chat, chunked, expecting, get, pieces_of, post, whole  # noqa: E402
from raw_http import Exchange, Wire  # noqa: E402

DEATHS = 10 ** 6 if IS_LONG else takeover.KILLS
NOT_ALLOWED = 77


def shapes():
    def few(seed, **fields):
        return chat(seed=seed, max_tokens=3, **fields)
    stream = dict(stream=True)
    return [
        whole("stream", CHAT, few(1, **stream)),
        whole("stream of two prompts and two choices each", TEXT, {"prompt": ["a", "b"], "n": 2, "seed": 2, "max_tokens": 2, **stream}),
        whole("answer", CHAT, few(3)),
        whole("stream that closes its connection", CHAT, few(4, **stream), "connection: close"),
        whole("HTTP/1.0 stream", CHAT, few(5, **stream), version="1.0"),
        Exchange("head of the models", [get("/v1/models", method="HEAD")], heads=(True,)),
        Exchange("metrics", [get("/metrics")], same_body=False),
        expecting("answer behind 100 Continue", CHAT, few(6)),
        chunked("chunked body of a stream", CHAT, few(7, **stream), 50),
        pieces_of("body of an answer in pieces", CHAT, few(8), 30),
        Exchange("pipelined requests", [b"".join(a + b for a, b in (post(CHAT, few(9, **stream)), post(TOKENIZE, {"prompt": "a"}))) +
                                        get("/version")], heads=(False,) * 3),
        whole("bad JSON", CHAT, b'{"messages": [}'),
    ]


class Reaper:
    """Follows the active front, and ends it at the system call of that number; 0: counts."""

    def __init__(self, pid, at):
        self.process = subprocess.Popen([os.path.join(BIN, "syscall-reaper"), str(pid), str(at)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            self.process.stdin.close()
            code = self.process.wait()
            if code == NOT_ALLOWED:
                raise unittest.SkipTest("nobody may follow a front here")
            raise AssertionError(f"syscall-reaper ended with {code}")

    def leave(self):
        """How many it has counted."""
        self.process.stdin.close()
        if self.process.wait(timeout=20) != 0:
            raise AssertionError(f"syscall-reaper ended with {self.process.returncode}")
        with self.process.stdout as said:  # not communicate(), which knows nothing of what was read with the first line
            return int(said.read())

    def still_waits(self):
        return self.process.poll() is None


class Sweep(Case):
    ARGUMENTS, EXCHANGES = SLOW, staticmethod(shapes)

    def try_at(self, exchange, at):
        """Answers the number of system calls, or, where one was the last, whether it came."""
        self.rested()
        front = self.fronts.pids()[0]
        with Wire(self.server.port) as wire:
            reaper = Reaper(front, at)
            attempt(wire, exchange, self.undisturbed, self.tally, f"death at system call {at}")
        if at == 0:
            return reaper.leave()
        if reaper.still_waits():  # fewer calls than the time before
            self.fronts.end(front, takeover.KILL)
            reaper.leave()
            return False
        reaper.leave()
        self.fronts.ended += 1
        return True

    def test_every_system_call(self):
        calls = {exchange.name: self.try_at(exchange, 0) for exchange in self.exchanges}
        numbers = [(exchange, at) for exchange in self.exchanges for at in range(1, calls[exchange.name] + 1)]
        chosen = self.rng.sample(numbers, min(DEATHS, len(numbers)))
        deaths = sum(self.try_at(exchange, at) for exchange, at in chosen)
        print(f"sweep: seed {SEED}, {deaths} deaths at {len(chosen)} of {len(numbers)} begins and ends of system calls: {calls}", flush=True)
        self.expect_all_equal()
        self.assertGreaterEqual(deaths, 0.8 * len(chosen), "too few of them were reached")


if __name__ == "__main__":
    main()

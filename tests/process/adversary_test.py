# SPDX-License-Identifier: Apache-2.0
"""Generated requests as no client should send them, with steady streams beside them that must not notice.

usage: adversary_test.py [REQUESTS | --long]   500 requests, or 10,000 with --long or PHALANX_TEST_LONG=1.
PHALANX_TEST_SEED repeats the requests of a run. Gaps and callbacks are judged in the long form only, as a busy machine
decides about them too; the short form prints them.
"""
import collections
import concurrent.futures
import multiprocessing
import os
import random
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hostile_requests as hostile  # noqa: E402
import trial_settings  # noqa: E402
from phalanx_server import Server, Stream, descendants, eventually, main  # noqa: E402

USUAL, LONG = 500, 10_000
REQUESTS, IS_LONG, SEED = trial_settings.read(USUAL, LONG)

RATE = 30  # requests a second, as far as the machine can
SENDERS = 8
ANSWER_SECONDS = 90
GROWTH_KB_MAX = 16 * 1024
GIVE_BACK_SECONDS = 3  # what a burst has left goes in the second after it
CALLBACK_SECONDS_MAX = 0.002


def steady_bodies(server):
    """Eight streams of some hundred tokens each, which differ in what they ask for."""
    chat, text = "/v1/chat/completions", "/v1/completions"
    return [
        (chat, server.chat_body("count from 1 to 60", stream=True)),
        (chat, server.chat_body("count from 100 to 140", stream=True, temperature=0.7, seed=5)),
        (chat, server.chat_body("count from 20 to 70", stream=True, logprobs=True, top_logprobs=3)),
        (chat, server.chat_body("count from 5 to 60", stream=True, repetition_penalty=1.05, temperature=1, top_k=40, seed=6, max_tokens=150)),
        (chat, server.chat_body("count from 200 to 240", stream=True, presence_penalty=0.1, max_tokens=150)),
        (text, {"prompt": "count from 1 to 40", "stream": True, "ignore_eos": True, "max_tokens": 150}),
        (text, {"prompt": "count", "stream": True, "temperature": 0.9, "top_p": 0.9, "seed": 7, "ignore_eos": True, "max_tokens": 150}),
        (chat, server.chat_body("count from 300 to 340", stream=True, temperature=0.3, min_p=0.02, seed=8, logit_bias={"7": 0.5})),
    ]


def content(stream):
    """What a stream said, without what differs between two requests by nature."""
    return [{key: value for key, value in event.items() if key not in ("id", "created")} for event in stream.events]


class SteadyStreams:
    """Each of the bodies again and again, until the end of the `with`; only those that fail or differ are kept."""

    def __init__(self, server, expected):
        self.server, self.expected = server, expected
        self.stop, self.gaps, self.count, self.wrong = threading.Event(), [], 0, []
        self.threads = [threading.Thread(target=self._keep, args=(i, *given)) for i, given in enumerate(steady_bodies(server))]

    def _keep(self, index, path, body):
        while not self.stop.is_set():
            try:
                stream = Stream(self.server, path, body).finish()
                if stream.error or not stream.done or content(stream) != self.expected[index]:
                    self.wrong.append((index, stream.status, stream.error, stream.done, stream.text))
            except (AssertionError, OSError) as error:
                self.wrong.append((index, repr(error)))
                return
            self.count += 1
            self.gaps += [b - a for a, b in zip(stream.times, stream.times[1:])]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def p99(self):
        return sorted(self.gaps)[int(0.99 * (len(self.gaps) - 1))] if self.gaps else float("nan")


def send_all(server, cases, begins, senders, on_end=lambda count: None):
    """Sends case i at begins[i] seconds or as soon as a sender is free. Returns (outcomes, when each began), in the order of the cases."""
    outcomes, began = [None] * len(cases), [0.0] * len(cases)
    lock, pending, start, done = threading.Lock(), iter(range(len(cases))), time.monotonic(), [0]

    def send():
        while True:
            with lock:
                index = next(pending, None)
            if index is None:
                return
            time.sleep(max(0.0, start + begins[index] - time.monotonic()))
            began[index] = time.monotonic() - start
            try:
                outcomes[index] = hostile.exchange(server.port, cases[index], ANSWER_SECONDS)
            except Exception as error:  # pylint: disable=broad-except  # one that no peer should cause is a finding
                outcomes[index] = hostile.Outcome([], [repr(error)], 0.0)
            with lock:
                done[0] += 1
                on_end(done[0])
    threads = [threading.Thread(target=send) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes, began


def resident_kb(pids):
    def of(pid):
        with open(f"/proc/{pid}/status") as file:
            return int(re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M)[1])
    return sum(map(of, pids))


def shown(case):
    data = b"".join(case.pieces)
    return f"{case.kind}: {data[:1500]!r}{f' and {len(data) - 1500} bytes' if len(data) > 1500 else ''}"


def loop_seconds(pids):
    """CPU time of the loops of these processes, each of which is a first thread."""
    def of(pid):
        with open(f"/proc/{pid}/task/{pid}/stat") as stat:
            times = stat.read().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    return sum(map(of, pids))


def clock_steps(seconds):
    """(longest step, steps above the bar) of the CPU clock of a thread that only reads it, for so much CPU time."""
    longest = above = 0
    began = last = time.thread_time()
    while last - began < seconds:
        now = time.thread_time()
        longest, above, last = max(longest, now - last), above + (now - last > CALLBACK_SECONDS_MAX), now
    return longest, above


def clock_noise(seconds):
    """What a virtual machine loses to its host counts as the CPU time of who ran. (longest step, steps above the bar in so much CPU
    time, on average) of threads that keep all cores busy and are seen for several times as long: the rarest are the longest."""
    cores, times = os.cpu_count(), 3
    with concurrent.futures.ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        seen = list(pool.map(clock_steps, [times * seconds] * cores))
    return max(longest for longest, _ in seen), sum(above for _, above in seen) / (times * cores)


class Attacked:
    """A server with what its streams say undisturbed, and what its loops have done since it was ready."""

    def __init__(self, server):
        self.server = server
        self.family = sorted(descendants(server.pid))
        undisturbed = [Stream(server, path, body) for path, body in steady_bodies(server)]
        self.expected = [content(stream.finish()) for stream in undisturbed]
        assert [stream.error for stream in undisturbed] == [None] * 8
        assert min(len(events) for events in self.expected) > 50

    def outside(self):
        return [self.server.pid, *self.server.front_pids()]  # what clients can reach

    def callbacks(self):
        """(the longest, those above the bar, CPU time of the loops)"""
        return (*self.server.longest_callback(), loop_seconds(self.outside()))


class Adversary(unittest.TestCase):
    def attack(self, attacked):
        """(the streams beside it, when each request began, growth of the memory of leader and fronts after the first tenth in kB)."""
        cases = hostile.cases(random.Random(SEED), REQUESTS)
        outside, resident = attacked.outside(), []

        def note_memory(count):
            if count == max(1, REQUESTS // 10):
                resident.append(resident_kb(outside))
        with SteadyStreams(attacked.server, attacked.expected) as steady:
            outcomes, began = send_all(attacked.server, cases, [i / RATE for i in range(REQUESTS)], SENDERS, note_memory)
        time.sleep(GIVE_BACK_SECONDS)
        growth = resident_kb(outside) - resident[0]
        statuses = collections.Counter(status for outcome in outcomes for status in outcome.statuses)
        slowest = max(range(REQUESTS), key=lambda i: outcomes[i].seconds)
        print(f"answers {dict(sorted(statuses.items()))}; slowest {outcomes[slowest].seconds:.2f} s ({cases[slowest].kind}); "
              f"{REQUESTS / max(began[-1], 1e-3):.1f} requests/s", flush=True)
        for i, outcome in enumerate(outcomes):
            if outcome.faults:
                print(f"request {i} of seed {SEED}: {'; '.join(outcome.faults)}\n    {shown(cases[i])}", flush=True)
        self.assertEqual([i for i, outcome in enumerate(outcomes) if outcome.faults], [], f"seed {SEED}")
        return steady, began, growth

    def beside_valid_ones(self, attacked, began):
        """The streams beside as many valid requests that begin as the others did."""
        rng = random.Random(SEED)
        cases = [hostile.as_it_should_be(rng) for _ in began]
        with SteadyStreams(attacked.server, attacked.expected) as steady:
            outcomes, _ = send_all(attacked.server, cases, began, 2 * SENDERS)
        bad = [(shown(case), outcome) for case, outcome in zip(cases, outcomes) if outcome.faults or outcome.statuses != [200]]
        self.assertEqual(bad, [], "what the others are made of is valid")
        return steady

    def expect_unharmed(self, attacked, steady):
        server = attacked.server
        self.assertEqual(sorted(descendants(server.pid)), attacked.family, "no process died")
        self.assertEqual([replica["restarts"] for replica in server.status()["replicas"]], [0, 0])
        self.assertEqual(steady.wrong, [], "streams beside it equal the undisturbed ones")
        self.assertGreaterEqual(steady.count, 8)
        server.wait_idle(60)
        eventually(lambda: not any(replica["running"] for replica in server.status()["replicas"]), 30, "the replicas run nothing")

    def expect_short_callbacks(self, callbacks, usual):
        """What hostile requests make a loop do at once takes no longer than the bar, or than valid requests and a virtual machine do:
        what that takes from a thread, and what the kernel does in its place, counts as the thread's CPU time."""
        longest, too_long, busy = callbacks
        usual_longest, usual_too_long, usual_busy = usual
        noise, above = clock_noise(busy)
        print(f"beside that, threads that only read their CPU clock: longest step {1e3 * noise:.2f} ms, {above:.1f} above 2 ms in "
              f"{busy:.0f} s of CPU, which is what the loops took", flush=True)
        noise, above = max(noise, usual_longest), max(above, usual_too_long * busy / max(usual_busy, 1e-3))
        self.assertLessEqual(longest, max(CALLBACK_SECONDS_MAX, 2 * noise if above else 0), f"seed {SEED}")
        self.assertLessEqual(too_long, above + 3 * max(1, above) ** 0.5 if above else 0, f"seed {SEED}")

    def test_generated_requests_beside_steady_streams(self):
        print(f"seed {SEED}, {REQUESTS} requests", flush=True)
        # As many queued tokens as its honest bodies can book: a full queue is its own subject.
        arguments = ("--dp", 2, "--tp", 2, "--log-level", "error", "--max-num-queued-tokens", 1 << 24)
        with Server(*arguments) as server:
            attacked = Attacked(server)
            steady, began, growth = self.attack(attacked)
            callbacks = attacked.callbacks()
            self.expect_unharmed(attacked, steady)
        with Server(*arguments) as server:
            spared = Attacked(server)
            usual = self.beside_valid_ones(spared, began)
            usual_callbacks = spared.callbacks()
            self.expect_unharmed(spared, usual)
        print(f"gap p99 of the streams: {1e3 * steady.p99():.1f} ms beside the generated requests, {1e3 * usual.p99():.1f} ms beside valid "
              f"ones ({len(steady.gaps)} and {len(usual.gaps)} gaps); leader and fronts {growth / 1024:+.1f} MB after the first tenth", flush=True)
        for name, (longest, too_long, busy) in (("the generated requests", callbacks), ("valid ones", usual_callbacks)):
            print(f"callbacks beside {name}: longest {1e3 * longest:.2f} ms, {too_long:.0f} above 2 ms in {busy:.0f} s of CPU", flush=True)
        if REQUESTS >= USUAL:  # fewer have not met all kinds in their first tenth
            self.assertLessEqual(growth, GROWTH_KB_MAX, f"kB, seed {SEED}")
        if IS_LONG:
            self.assertLessEqual(steady.p99(), 3 * usual.p99(), f"seed {SEED}")
            self.expect_short_callbacks(callbacks, usual_callbacks)


if __name__ == "__main__":
    main()

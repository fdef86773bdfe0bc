# SPDX-License-Identifier: Apache-2.0
"""Memory that clients can make leader and fronts use: more bodies than its bound at once, slow readers of large answers, a front
that ends in the middle of either, and many idle connections.

usage: client_memory_test.py [unittest arguments]
"""
import contextlib
import os
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import Server, eventually, main  # noqa: E402
from exchanges import CHAT, TOKENIZE, chat, get, post  # noqa: E402
from process_figures import proportional_bytes  # noqa: E402
from raw_http import Cut, Wire  # noqa: E402

MIB = 1 << 20
BOUND = 64 * MIB
BODY = 4 * MIB

# Beyond the bound: what is read, parsed and written at one moment, and blocks and heap that wait to be used again.
BESIDE = 96 * MIB

ARGUMENTS = ("--log-level", "warning", "--client-memory-bytes", BOUND, "--max-body-bytes", BODY, "--max-connections", 9000,
             "--max-num-queued-tokens", 1 << 40, "--runner", "sim")


def fronts(server):
    return [front for front in server.status()["fronts"] if front["pid"] > 1]


def memory(server):
    """Of leader and fronts; what several have mapped counts once."""
    total = 0
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as file:
        children = file.read().split()
    for pid in [str(server.pid), *children]:
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                title = file.read()
            if pid == str(server.pid) or title.startswith("phalanxd: front"):
                total += proportional_bytes(pid)
        except OSError:
            pass  # it has ended
    return total


class Watch:
    """The most that leader and fronts have used while it is entered, beyond what they used before."""

    def __init__(self, server):
        self.server, self.before, self.most = server, memory(server), 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.ended.wait(0.05):
            self.most = max(self.most, memory(self.server) - self.before)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def strike(server):
    os.kill(next(front["pid"] for front in fronts(server) if front["active"]), signal.SIGKILL)


class ManyBodies(unittest.TestCase):
    COUNT = 60

    def run_bodies(self, deaths):
        # Refused when it is parsed, which is soon.
        body = b'{"prompt": 5, "x": "' + b"x" * (BODY - 22) + b'"}'
        request = b"".join(post("/v1/completions", body))
        statuses = []

        def run(port):
            with Wire(port, seconds=100) as wire:
                for at in range(0, len(request), MIB):
                    wire.send(request[at:at + MIB])
                statuses.append(wire.response().status)

        with Server(*ARGUMENTS) as server:
            eventually(lambda: len(fronts(server)) == 2, 10, "the spare front is there")
            threads = [threading.Thread(target=run, args=(server.port,)) for _ in range(self.COUNT)]
            with Watch(server) as watch:
                for thread in threads:
                    thread.start()
                for i in range(deaths):
                    eventually(lambda: len(statuses) > 5 * (i + 1), 60, "some are answered")
                    strike(server)
                for thread in threads:
                    thread.join()
            print(f"{self.id()}: {watch.most / MIB:.0f} MiB beyond {watch.before / MIB:.0f} MiB", flush=True)
            self.assertEqual(statuses, [400] * self.COUNT)
            # While a front takes over, what it takes is there twice.
            self.assertLess(watch.most, (2 if deaths else 1) * BOUND + BESIDE)
            self.assertIn("clients_wait_for_memory", server.log_text())
            self.assertNotIn("journal_full", server.log_text())

    def test_all_are_answered(self):
        self.run_bodies(0)

    def test_all_are_answered_though_fronts_end(self):
        self.run_bodies(3)

    def test_small_requests_go_on_beside_bodies_that_do_not_come(self):
        """Large bodies of which half has come hold what they were given until their deadline; the others wait for that."""
        head, body = post("/v1/completions", b"x" * BODY)
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server(*ARGUMENTS))
            wires = [stack.enter_context(Wire(server.port, seconds=100)) for _ in range(self.COUNT)]
            for wire in wires:
                wire.send(head + body[:60_000])
            eventually(lambda: "clients_wait_for_memory" in server.log_text(), 10, "some wait")
            for _ in range(20):
                with Wire(server.port) as wire:
                    wire.send(b"".join(post(CHAT, chat(max_tokens=3))))
                    self.assertEqual(wire.response().status, 200)
            strike(server)
            with Wire(server.port) as wire:
                wire.send(b"".join(post(CHAT, chat(max_tokens=3))))
                self.assertEqual(wire.response().status, 200)


def waiting_request(server):
    """What a request is answered that is not read at first; None if it is answered soon."""
    with Wire(server.port, seconds=100) as wire:
        wire.send(get("/version"))
        soon = time.monotonic() + 2
        while time.monotonic() < soon:
            if wire.arrived():
                wire.response()
                return None
            time.sleep(0.01)
        return wire.response()


class SlowReaders(unittest.TestCase):
    COUNT = 24

    def test_others_wait_until_the_deadline_of_those_who_take_nothing(self):
        request = b"".join(post(TOKENIZE, {"prompt": "1 2 3 " * (BODY // 8)}))
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server(*ARGUMENTS))
            with Wire(server.port) as wire:
                wire.send(request)
                answer = len(wire.response().body)
            wires = [stack.enter_context(Wire(server.port, receive_buffer=4096, seconds=100)) for _ in range(self.COUNT)]

            def send(wire):
                with contextlib.suppress(Cut):
                    wire.send(request)
            threads = [threading.Thread(target=send, args=(wire,)) for wire in wires]
            with Watch(server) as watch:
                for thread in threads:
                    thread.start()
                refused = eventually(lambda: waiting_request(server), 60, "answers that nobody takes hold the bound, so a request waits")
                self.assertEqual(refused.status, 503)
                self.assertIn(b"holds all that it may", refused.body)
                strike(server)
                eventually(lambda: waiting_request(server), 60, "the next front counts what it has taken over")

                def served():
                    with Wire(server.port, seconds=100) as wire:
                        wire.send(get("/version"))
                        return wire.response().status == 200
                eventually(served, 90, "the deadlines of those who take nothing have come")
            print(f"{self.id()}: answers of {answer / MIB:.0f} MiB, {watch.most / MIB:.0f} MiB beyond {watch.before / MIB:.0f} MiB",
                  flush=True)
            # Those in work when the bound was reached go on, at most as many as bodies are admitted; twice, as a front has died.
            in_work = BOUND * 3 // 4 // (2 * len(request))
            self.assertLess(watch.most, 2 * (BOUND + in_work * 2 * answer) + BESIDE)
            for thread in threads:
                thread.join()
            self.assertNotIn("journal_full", server.log_text())


class Bursts(unittest.TestCase):
    def test_what_large_requests_leave_is_given_back(self):
        """Of many small values, so that what is in use lies between what is free."""
        body = b'{"prompt": 5, "x": [' + b"[0]," * (BODY // 4 - 8) + b"0]}"
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server(*ARGUMENTS))
            steady = stack.enter_context(Wire(server.port))
            before = memory(server)
            for _ in range(4):
                steady.send(b"".join(post("/v1/completions", body)))
                self.assertEqual(steady.response().status, 400)
            left = memory(server) - before
            kept = eventually(lambda: memory(server) - before < 12 * MIB and memory(server) - before, 5, "what was freed is given back")
            print(f"{self.id()}: {left / MIB:.1f} MiB, then {kept / MIB:.1f} MiB", flush=True)


class Idle(unittest.TestCase):
    COUNT = 8192

    def test_many_idle_connections(self):
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server(*ARGUMENTS))
            before = memory(server)
            wires = []
            for _ in range(self.COUNT):
                wires.append(stack.enter_context(Wire(server.port)))
                wires[-1].send(get("/version"))
                self.assertEqual(wires[-1].response().status, 200)
            used = memory(server) - before
            print(f"{self.id()}: {used / MIB:.1f} MiB", flush=True)
            self.assertLess(used, 64_000_000)


if __name__ == "__main__":
    main()

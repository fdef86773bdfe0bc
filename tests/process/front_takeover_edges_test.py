# SPDX-License-Identifier: Apache-2.0
"""Fronts end where much, or something odd, is under way: many long bodies at once, nothing but empty lines, a client that is waited
for at the end of its connection, requests that are refused, a shutdown.

usage: front_takeover_edges_test.py [unittest arguments]
"""
import contextlib
import os
import resource
import signal
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import Server, eventually, main  # noqa: E402
from exchanges import CHAT, SLOW, TOKENIZE, chat, get, post  # noqa: E402
from raw_http import Wire  # noqa: E402


def active_front(server):
    return next(front["pid"] for front in server.status()["fronts"] if front["active"])


def rested(server):
    """Waits until the active front and the spare one are there."""
    eventually(lambda: [front["state"] for front in server.status()["fronts"]] == ["ready", "ready"], 10, "both fronts are ready")


def end(server, sign=signal.SIGKILL):
    os.kill(active_front(server), sign)


def journals(server):
    """Descriptors of fronts' journals that the leader has."""
    folder, count = f"/proc/{server.pid}/fd", 0
    for name in os.listdir(folder):
        try:
            count += "phalanx-front-journal" in os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            pass  # closed meanwhile
    return count


class Many(unittest.TestCase):
    def test_long_bodies_all_in_work_at_once(self):
        """More than a queue holds otherwise: none of them is refused because all come at once."""
        count, body = 400, {"prompt": "count from 1 to 3 " * 1200}
        request = b"".join(post(TOKENIZE, body))
        with Server("--log-level", "error", "--max-connections", 1000, "--max-connections-per-address", 1000,
                    "--max-num-queued-reqs", 1000, "--max-num-queued-tokens", 1 << 30) as server:
            rested(server)
            with Wire(server.port) as wire:
                wire.send(request)
                expected = wire.response().body
            with contextlib.ExitStack() as stack:
                wires = [stack.enter_context(Wire(server.port)) for _ in range(count)]
                for turn in range(2):
                    for wire in wires:
                        wire.begin()
                        wire.send(request)
                    end(server)
                    answers = [wire.response() for wire in wires]
                    self.assertEqual({answer.status for answer in answers}, {200}, turn)
                    self.assertEqual({answer.body for answer in answers}, {expected}, turn)
                    rested(server)

    def test_half_sent_bodies_on_nearly_every_descriptor(self):
        """Those that take long to go on with wait for their turn with one descriptor each, as all connections have."""
        count, limit = 500, 900
        body = b'{"prompt": "count"' + b" " * 270_000 + b"}"
        request = b"".join(post(TOKENIZE, body))
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)  # of this test
        with Server("--log-level", "warning", "--max-connections-per-address", 1000, "--max-num-queued-reqs", 1000, "--max-num-queued-tokens", 1 << 30,
                    "--client-memory-bytes", 4 << 30, before_exec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))) as server:
            rested(server)
            with contextlib.ExitStack() as stack:
                wires = [stack.enter_context(Wire(server.port)) for _ in range(count)]
                for wire in wires:
                    wire.send(request[:-1000])
                time.sleep(0.2)  # for the last of it to be read
                end(server)
                rested(server)
                for wire in wires:
                    wire.send(request[-1000:])
                self.assertEqual({wire.response().status for wire in wires}, {200})
            self.assertEqual(server.log_text().count("front_died"), 1, "one was killed, and the others live")

    def test_journals_of_dead_fronts_go_while_their_streams_go_on(self):
        with Server("--no-prefix-cache", "--log-level", "error", *SLOW) as server:
            rested(server)
            wires = [Wire(server.port) for _ in range(8)]
            for seed, wire in enumerate(wires):
                wire.send(b"".join(post(CHAT, chat(seed=seed, max_tokens=1500, stream=True, ignore_eos=True))))
            eventually(lambda: all(wire.arrived() > 2000 for wire in wires), 10, "every stream has begun")
            for _ in range(3):
                end(server)
                rested(server)
            eventually(lambda: journals(server) == 2, 5, "the leader has the journals of the living ones only")
            self.assertTrue(all(b"[DONE]" not in wire.socket.recv(1 << 20, socket.MSG_PEEK) for wire in wires), "too early to tell")
            for wire in wires:
                self.assertTrue(wire.response().body.endswith(b"data: [DONE]\n\n"))
                wire.close()


class Odd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--no-prefix-cache", "--log-level", "error", "--max-connections-per-address", 8, *SLOW)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        rested(self.server)

    def test_nothing_but_empty_lines(self):
        for lines in (1, 3, 5000, 50_000):
            with Wire(self.server.port) as wire:
                wire.send(b"\r\n" * lines)
                time.sleep(0.05)
                end(self.server)
                wire.send(b"\r\n" + get("/version"))
                self.assertEqual(wire.response().status, 200, lines)
                wire.begin()
                rested(self.server)
                end(self.server)
                wire.send(get("/version"))
                self.assertEqual(wire.response().status, 200, lines)
            rested(self.server)

    def test_a_client_that_is_waited_for_at_the_end(self):
        """Its connection ends with the answer, and what it sends behind its last request is nobody's."""
        request = b"".join(post(CHAT, chat(seed=1, max_tokens=20), "connection: close"))
        for behind in (b"", b"x" * 100, b"x" * 100_000):
            for pause in (0.0, 0.02, 0.2):
                with Wire(self.server.port) as wire:
                    wire.send(request + behind[:50])
                    eventually(lambda: wire.arrived() > 300, 10, "the answer")
                    time.sleep(pause)
                    if behind:
                        wire.send(behind[50:])
                    end(self.server)
                    time.sleep(0.03)
                    self.assertEqual(wire.response().status, 200)
                    wire.finish()  # with an end, not with a reset
                rested(self.server)

    def test_one_connection_too_many(self):
        wires = [Wire(self.server.port) for _ in range(8)]
        for wire in wires:
            wire.send(get("/version"))
            self.assertEqual(wire.response().status, 200)
        for pause in (0.0, 0.3, 0.6, 1.2):
            with Wire(self.server.port) as refused:
                refused.send(get("/version"))
                time.sleep(pause)
                end(self.server)
                self.assertEqual(refused.response().status, 503)
                refused.finish()
            rested(self.server)
        for wire in wires:
            wire.begin()
            wire.send(get("/version"))
            self.assertEqual(wire.response().status, 200)
            wire.close()

    def test_half_a_header_and_an_odd_request(self):
        """What is refused is refused the same way by whoever does it."""
        for request in (b"BROKEN\r\n\r\n", b"GET / HTTP/3.0\r\nhost: localhost\r\n\r\n", get("/version", "a: " + "b" * 100_000),
                        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n"):
            statuses = []
            for cut in (None, len(request) // 3, len(request) // 2, len(request) - 1):
                with Wire(self.server.port) as wire:
                    wire.send(request[:cut])
                    if cut is not None:
                        time.sleep(0.01)
                        end(self.server)
                        wire.send(request[cut:])
                    statuses.append(wire.response().status)
                    wire.finish()
                rested(self.server)
            self.assertEqual(len(set(statuses)), 1, (request[:40], statuses))


class Shutdown(unittest.TestCase):
    def test_fronts_that_end_while_the_server_does(self):
        """What is answered is answered; what is not when the deadline comes hears so, from whichever front there is then."""
        for first, second in ((0.1, None), (0.9, None), (1.02, None), (0.3, 1.05), (0.95, 1.0)):
            with Server("--no-prefix-cache", "--log-level", "error", "--shutdown-timeout", 1, *SLOW) as server:
                rested(server)
                stream, whole, short = (Wire(server.port) for _ in range(3))
                stream.send(b"".join(post(CHAT, chat(seed=1, max_tokens=2000, stream=True, ignore_eos=True))))
                whole.send(b"".join(post(CHAT, chat(seed=2, max_tokens=2000, ignore_eos=True))))
                short.send(b"".join(post(CHAT, chat(seed=3, max_tokens=100, stream=True, ignore_eos=True))))
                eventually(lambda: stream.arrived() > 2000, 10, "the stream has begun")
                pids = [front["pid"] for front in server.status()["fronts"]]
                os.kill(server.pid, signal.SIGTERM)
                began = time.monotonic()
                for moment, pid in zip((first, second), pids):
                    if moment:
                        time.sleep(max(0.0, began + moment - time.monotonic()))
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
                what = f"kills at {first}, {second}"
                self.assertTrue(short.response().body.endswith(b"data: [DONE]\n\n"), what)
                self.assertTrue(stream.response().body.endswith(b"data: [DONE]\n\n"), what)
                self.assertEqual(whole.response().status, 503, what)
                server.process.wait(20)
                self.assertEqual(server.process.returncode, 75, what)
                for wire in (stream, whole, short):
                    wire.close()


if __name__ == "__main__":
    main()

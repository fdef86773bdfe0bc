# SPDX-License-Identifier: Apache-2.0
"""Fronts end in the middle of requests and of answers, and no client notices: what was half sent goes on, to the byte.

usage: front_takeover_test.py [KILLS | --long] [--without-kills] [unittest arguments]
60 kills under mixed load, or 1,000 with --long or PHALANX_TEST_LONG=1, beside those of the single cases, which are more then, too.
PHALANX_TEST_SEED repeats requests and moments of a run. --without-kills shows that the test itself sees nothing where nothing is.
"""
import collections
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trial_settings  # noqa: E402
from phalanx_server import Server, eventually, main, open_files  # noqa: E402
from exchanges import (CHAT, SLOW, VERSION, Tally, Undisturbed, attempt, chat, computed_exchanges, nothing, post,  # noqa: E402
                       shown, slow_exchanges, whole)
from raw_http import Exchange, Wire  # noqa: E402

WITH_KILLS = "--without-kills" not in sys.argv
if not WITH_KILLS:
    sys.argv.remove("--without-kills")
KILLS, IS_LONG, SEED = trial_settings.read(60, 1000)

KILL, STOP, SEGV, ABRT = signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGABRT
SIGNALS = (KILL, KILL, STOP, KILL, SEGV, KILL, KILL, ABRT)


# ---- who ends

class Fronts:
    """The fronts of a server with one active one, and their ends."""

    def __init__(self, server, turn=0):
        self.server, self.turn, self.ended, self.known = server, turn, 0, None

    def rested(self):
        """Waits for all of them; the next strikes of this exchange know whom they hit without asking."""
        def ready():
            fronts = self.server.status()["fronts"]
            return fronts if all(front["state"] == "ready" and front["pid"] > 1 for front in fronts) else None
        fronts = eventually(ready, 10, "every front is ready")
        self.known = sorted(fronts, key=lambda front: not front["active"])
        assert [front["active"] for front in self.known] == [True, False], fronts
        return self

    def pids(self):
        """The active one, then the spare one, as far as there is a process."""
        fronts, self.known = self.known or self.server.status()["fronts"], None
        return [front["pid"] for front in sorted(fronts, key=lambda front: not front["active"]) if front["pid"] > 1]

    def end(self, pid, sign):
        if WITH_KILLS:
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                return
            self.ended += 1

    def strike(self, sign=None):
        """The active one."""
        if sign is None:
            sign, self.turn = SIGNALS[self.turn % len(SIGNALS)], self.turn + 1
        for pid in self.pids()[:1]:
            self.end(pid, sign)

    def strike_two(self, pause):
        """The active one, and the one that takes over from it."""
        for pid in self.pids():
            self.end(pid, KILL)
            time.sleep(pause)


def metric(server, name):
    return float(re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", server.request("GET", "/metrics")[1], re.M)[1])


class Case(unittest.TestCase):
    """Single exchanges, one after the other. A front that has ended often comes back later each time, so a server has few of these
    deaths and is then followed by a new one; a connection lives as long as its server, if its exchanges let it."""

    ARGUMENTS, EXCHANGES = (), staticmethod(lambda: [])
    DEATHS = 8  # of a server

    @classmethod
    def setUpClass(cls):
        cls.exchanges = cls.EXCHANGES()
        with cls.new_server() as server:
            cls.undisturbed = Undisturbed(server, cls.exchanges)

    @classmethod
    def new_server(cls):
        return Server("--no-prefix-cache", "--log-level", "error", *cls.ARGUMENTS)

    def setUp(self):
        self.tally, self.rng = Tally(), random.Random(f"{SEED} {self.id()}")
        self.server = self.fronts = self.wire = None
        self.connections = self.turn = self.ended = 0
        self.cut = 0.0  # connections, by the servers' own account

    def tearDown(self):
        try:
            self.end_server()
        finally:
            if self.server:
                self.server.kill()
        print(f"{self.id().split('.', 1)[1]}: {self.ended} kills, {self.connections} connections; {self.tally}", flush=True)

    def end_server(self):
        self.leave()
        if self.server:
            self.server.wait_idle(60)
            self.cut += metric(self.server, "phalanx_connections_cut_total")
            self.ended, self.turn = self.ended + self.fronts.ended, self.fronts.turn
            self.server.__exit__(None, None, None)
            self.server = None

    def leave(self):
        if self.wire:
            self.wire.close()
            self.wire = None

    def rested(self):
        """Before each exchange: all fronts are there."""
        if self.server and self.fronts.ended >= self.DEATHS:
            self.end_server()
        if not self.server:
            self.server = self.new_server()
            self.fronts = Fronts(self.server, self.turn)
        self.fronts.rested()

    def exchange(self, name):
        return next(exchange for exchange in self.exchanges if exchange.name == name)

    def go(self, exchange, what, moments=(), after_piece=nothing, receive_buffer=None, reading=(65536, 0.0)):
        """One exchange on the connection that there is, or on a new one, and another request behind it."""
        if receive_buffer:
            self.leave()
        if not self.wire:
            self.wire, self.connections = Wire(self.server.port, receive_buffer), self.connections + 1
        self.wire.at_most, self.wire.pause = reading
        stays = attempt(self.wire, exchange, self.undisturbed, self.tally, what, moments, after_piece)
        if stays:
            self.wire.at_most, self.wire.pause = 65536, 0.0
            stays = attempt(self.wire, VERSION, self.undisturbed, self.tally, f"behind {exchange.name}, {what}")
        if not stays:
            self.leave()

    def expect_all_equal(self):
        self.end_server()
        self.assertEqual(len(self.tally.wrong), 0, f"seed {SEED}: {self.tally}\n" + shown(self.tally.wrong))
        self.assertEqual(self.cut, 0, "connections that the servers say they have cut")


class EveryShape:
    """One front ends once in each exchange: behind each part of the request, before the answer, within it."""

    def moments(self, exchange):
        """(in words, bytes received, seconds behind the request, piece)"""
        total, seconds, pieces = self.undisturbed.bytes(exchange), self.undisturbed.seconds(exchange), len(exchange.pieces)
        count = 14 if IS_LONG else 3
        times = [("at once", None, 0.0, None)] + [
            (f"{1e3 * after:.1f} ms behind the request", None, after, None)
            for after in (self.rng.uniform(0, min(seconds, 0.5)) for _ in range(count))]
        offsets = [(f"after {at} of {total} bytes", at, None, None)
                   for at in {1, total // 2, *(self.rng.randrange(1, total) for _ in range(count))}]
        between = [(f"behind piece {piece}", None, None, piece) for piece in range(pieces - 1)]
        if IS_LONG:
            return times + offsets + between
        return [times[0], self.rng.choice(times[1:]), *self.rng.sample(offsets, 1 if between else 2),
                *self.rng.sample(between, min(2, len(between)))]

    def test_each_at_every_moment(self):
        for exchange in self.exchanges:
            for what, at, after, piece in self.moments(exchange):
                self.rested()

                def behind(index, after=after, piece=piece, last=len(exchange.pieces) - 1):
                    if index == piece:
                        self.fronts.strike()
                    elif index == last and after is not None:
                        time.sleep(after)
                        self.fronts.strike()
                self.go(exchange, what, [] if at is None else [(at, self.fronts.strike)], behind)
        self.expect_all_equal()


class SlowAnswers(EveryShape, Case):
    ARGUMENTS, EXCHANGES = SLOW, staticmethod(slow_exchanges)

    def test_several_deaths_in_one_answer(self):
        for name in ("chat stream", "chat stream of three choices with logprobs", "whole chat answer of four choices with logprobs",
                     "three pipelined requests", "HTTP/1.0 stream"):
            exchange = self.exchange(name)
            total, seconds = self.undisturbed.bytes(exchange), self.undisturbed.seconds(exchange)
            for kills in (3, 5):
                self.rested()
                at = sorted(self.rng.randrange(1, total) for _ in range(kills))

                def before_the_answer(index, kills=kills, pause=seconds / kills):
                    if "whole" in exchange.name:  # nothing comes before it is complete
                        for _ in range(kills - 1):
                            time.sleep(pause)
                            self.fronts.strike(KILL)
                self.go(exchange, f"{kills} kills, at {at}", [(k, lambda: self.fronts.strike(KILL)) for k in at], before_the_answer)
        self.expect_all_equal()

    def test_a_death_behind_each_piece_of_one_request(self):
        for name in ("head of a request in pieces", "chunked body of a stream", "body of an answer, a few bytes at a time",
                     "stream behind 100 Continue"):
            exchange = self.exchange(name)
            chosen = set(self.rng.sample(range(len(exchange.pieces)), min(4, len(exchange.pieces))))
            self.rested()
            self.go(exchange, f"kills behind pieces {sorted(chosen)}",
                    after_piece=lambda index, chosen=chosen: self.fronts.strike(KILL) if index in chosen else None)
        self.expect_all_equal()

    def test_the_successor_dies_while_it_takes_over(self):
        names = ("chat stream", "whole chat answer", "chunked body of a stream", "three pipelined requests")
        for name in names:
            exchange = self.exchange(name)
            for pause in (0.0, 0.0005, 0.001, 0.002, 0.003, 0.005):
                self.rested()
                at, piece = self.rng.randrange(1, self.undisturbed.bytes(exchange)), self.rng.randrange(len(exchange.pieces))
                in_request = "whole" in name or "body" in name

                def behind(index, piece=piece, pause=pause, in_request=in_request):
                    if in_request and index == piece:
                        self.fronts.strike_two(pause)
                moments = [] if in_request else [(at, lambda pause=pause: self.fronts.strike_two(pause))]
                self.go(exchange, f"both fronts, {1e3 * pause} ms in between, {f'behind piece {piece}' if in_request else f'at {at}'}",
                        moments, behind)
        self.expect_all_equal()

    def test_a_client_that_does_not_read_meanwhile(self):
        for name in ("chat stream of three choices with logprobs", "HTTP/1.0 stream", "whole chat answer of four choices with logprobs"):
            exchange = self.exchange(name)
            for share in (0, 0.5):
                self.rested()

                def strike_and_sleep():
                    self.fronts.strike()
                    time.sleep(0.3)
                at = 1 + int(share * self.undisturbed.bytes(exchange))
                self.go(exchange, f"does not read for 300 ms from {at} on", [(at, strike_and_sleep)], receive_buffer=2048,
                        reading=(500, 0.0))
        self.expect_all_equal()


class ComputedAnswers(EveryShape, Case):
    ARGUMENTS, EXCHANGES = ("--dp", 2), staticmethod(computed_exchanges)


class LargeAnswers(Case):
    """Answers that fill what the kernel holds for a client that reads slowly."""

    @staticmethod
    def EXCHANGES():
        def of(choices, tokens):
            return chat("count from 1 to 60", n=choices, logprobs=True, top_logprobs=20, temperature=1, seed=6, ignore_eos=True,
                        max_tokens=tokens)
        return [whole("hundreds of KB", CHAT, of(2, 250)), whole("megabytes", CHAT, of(16, 300)),
                whole("stream of hundreds of KB", CHAT, {**of(2, 180), "stream": True}),
                Exchange("pipelined megabytes", [b"".join(b"".join(post(CHAT, of(8, 150))) for _ in range(2))], heads=(False,) * 2)]

    def test_read_slowly_over_three_deaths(self):
        self.short = 0  # deaths behind a short write: the kernel held bytes for the client, and not all that were to come
        for exchange in self.exchanges * (20 if IS_LONG else 1):
            total = self.undisturbed.bytes(exchange)
            # What remains of the large ones then is more than the kernel takes.
            span = total // 3 if "megabytes" in exchange.name else total

            def strike(total=total):
                held = self.wire.held_for_it()
                self.short += held > 0 and self.wire.arrived() + held < total
                self.fronts.strike()
            for buffer in (65536,) if "megabytes" in exchange.name else (8192, 65536):
                self.rested()
                at = [1 + self.rng.randrange(part * span // 3, (part + 1) * span // 3) for part in range(3)]
                self.go(exchange, f"receive buffer of {buffer}, kills at {at} of {total}", [(k, strike) for k in at],
                        receive_buffer=buffer, reading=(max(1, total // 40), 0.005))
        print(f"{self.short} deaths behind a short write, by the kernel's account", flush=True)
        self.expect_all_equal()
        self.assertGreaterEqual(self.short, 100 if IS_LONG else 1)


class Pings(unittest.TestCase):
    """Streams that have nothing to say for a while say so, in whole lines, before and behind the death of a front."""

    def test_go_on_between_events(self):
        with Server("--no-prefix-cache", "--log-level", "warning", "--runner", "sim", "--sim-step-us", 300_000, "--keep-alive-interval",
                    0.1) as server:
            exchanges = [whole(f"stream {seed}", CHAT, chat(seed=seed, max_tokens=7, n=seed, stream=True)) for seed in (1, 2)]
            undisturbed, tally, fronts = Undisturbed(server, exchanges), Tally(), Fronts(server)
            pings, rng = [], random.Random(SEED)

            def client(exchange):
                with Wire(server.port) as wire:
                    attempt(wire, exchange, undisturbed, tally, "with pings")
                    pings.append(wire.buffer.count(b"\n: ") + wire.buffer.count(b"\n:\n"))
            clients = [threading.Thread(target=client, args=(exchange,)) for exchange in exchanges]
            for thread in clients:
                thread.start()
            while any(thread.is_alive() for thread in clients):
                # Before a ping is due, and behind one or two.
                time.sleep(rng.choice((rng.uniform(0.02, 0.09), rng.uniform(0.22, 0.3))))
                fronts.rested().strike(KILL)
            print(f"pings: {fronts.ended} kills; {tally}; {sum(pings)} comments", flush=True)
            self.assertEqual(len(tally.wrong), 0, shown(tally.wrong))
            self.assertTrue(all(pings), "there were comments")

    def test_stand_before_the_first_event_and_roles_come_once(self):
        """Fronts end when a stream has begun and has no token yet."""
        with Server("--no-prefix-cache", "--log-level", "warning", "--runner", "sim", "--sim-step-us", 900_000, "--keep-alive-interval",
                    0.1) as server:
            exchange = whole("two choices", CHAT, chat(seed=1, max_tokens=2, n=2, stream=True))
            undisturbed, tally, fronts = Undisturbed(server, [exchange]), Tally(), Fronts(server).rested()
            early = 0
            with Wire(server.port) as wire:
                client = threading.Thread(target=attempt, args=(wire, exchange, undisturbed, tally, "before its first token"))
                client.start()
                for comments in (1, 2):
                    eventually(lambda comments=comments: wire.buffer.count(b": ping\n\n") >= comments, 10, "a comment")
                    early += b"data: " not in wire.buffer
                    fronts.strike(KILL)
                    fronts.rested()
                client.join()
                self.assertEqual(wire.buffer.count(b'"role":"assistant"'), 2)
                self.assertLess(wire.buffer.index(b": ping"), wire.buffer.index(b"data: "))
            self.assertEqual(len(tally.wrong), 0, shown(tally.wrong))
            self.assertGreater(early, 0, "deaths before the first event")
            print(f"pings: {early} kills before the first event; {tally}", flush=True)


class Leaving(unittest.TestCase):
    """Clients that go while their connection is between two fronts."""

    def open_connections(self, server, rng):
        """Connections in every state: a stream, an answer that is computed, a half-sent body, an answer that nobody reads, rest."""
        large = chat("count", n=20, logprobs=True, seed=1, max_tokens=4000, stream=True)
        first, data = post(CHAT, chat(max_tokens=500, seed=1))
        sent = [b"".join(post(CHAT, chat(max_tokens=2000, seed=1, stream=True))), first + data, first + data[:20], first[:20], b"",
                b"".join(post(CHAT, large)), first + data + first + data[:9]]
        wires = []
        for request in rng.sample(sent * 2, 8):
            wires.append(Wire(server.port, 2048))
            wires[-1].send(request)
        time.sleep(rng.uniform(0.005, 0.05))
        return wires

    @staticmethod
    def leave(wires, rng):
        for wire in wires:
            if rng.random() < 0.5:
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            wire.close()

    def test_leave_nothing_behind(self):
        rng = random.Random(SEED)
        with Server("--dp", 2, "--log-level", "warning", *SLOW) as server:
            fronts = Fronts(server)
            self.assertEqual(server.request("GET", "/version")[0], 200)
            server.wait_idle()

            def held():
                return open_files(server.pid), *(open_files(pid) for pid in server.front_pids())
            fronts.rested()
            fronts.strike(KILL)  # what a second life holds may be more than a first one
            fronts.rested()
            self.assertEqual(server.request("GET", "/version")[0], 200)
            time.sleep(0.1)
            before = held()
            moments = (-0.003, -0.001, 0.0, 0.0005, 0.001, 0.002, 0.004, 0.007, 0.010)
            for turn, after in enumerate(moments * (10 if IS_LONG else 1)):
                fronts.rested()
                wires = self.open_connections(server, rng)
                if after < 0:
                    self.leave(wires, rng)
                    time.sleep(-after)
                fronts.strike_two(0.002) if turn % 4 == 3 else fronts.strike(KILL)
                if after >= 0:
                    time.sleep(after)
                    self.leave(wires, rng)
                server.wait_idle(20)
                fronts.rested()
                what = f"seed {SEED}, turn {turn}, they left {1e3 * after} ms behind the kill"
                eventually(lambda: sum(front["connections"] for front in server.status()["fronts"]) == 0, 5, f"no connection: {what}")
                try:
                    eventually(lambda: sum(held()) <= sum(before), 5, "descriptors")
                except AssertionError:
                    self.fail(f"descriptors of leader and fronts are {held()}, were {before}: {what}")
            print(f"leaving: {fronts.ended} kills, descriptors {before} and {held()}", flush=True)
            self.assertEqual(server.status()["requests"], 0)
            server.expect_family(4)


# ---- many at once

class Client:
    """Sends exchange after exchange, each in another manner."""

    def __init__(self, load, number):
        self.load, self.rng = load, random.Random(f"{SEED} client {number}")
        self.wire = self.exchange = None
        self.marks, self.lock = [], threading.Lock()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self):
        try:
            while not self.load.over.is_set():
                self._once()
        except Exception as error:  # pylint: disable=broad-except  # must not end this client unseen
            self.load.tally.note("different", f"the test itself: {error!r}")
        if self.wire:
            self.wire.close()

    def _once(self):
        rng, exchange = self.rng, self.rng.choice(self.load.exchanges)
        if not self.wire:
            try:
                self.wire = Wire(self.load.server.port, rng.choice((None, None, 16384)))
            except OSError as error:
                self.load.tally.note("cut", f"no connection: {error!r}")
                time.sleep(0.05)
                return
        wire = self.wire
        wire.at_most = max(64, self.load.undisturbed.bytes(exchange) // rng.choice((1, 4, 20, 40)))
        wire.pause = rng.choice((0.0, 0.0, rng.uniform(0, 0.004)))
        most = 0.1 / len(exchange.pieces) if len(exchange.pieces) > 1 else 0.0

        def begun():
            with self.lock:
                self.exchange, self.marks = exchange, []
        stays = attempt(wire, exchange, self.load.undisturbed, self.load.tally, f"seed {SEED}", (),
                        lambda index: time.sleep(rng.uniform(0, most)), begun)
        with self.lock:
            self.exchange, marks = None, self.marks
        for mark, sent, arrived in marks:
            mark["answers"] += wire.in_an_answer(arrived)
            mark["bodies"] += exchange.body_from < sent < exchange.bytes
            mark["awaited"] += sent == exchange.bytes and not arrived
        if not stays:
            wire.close()
            self.wire = None

    def mark(self, mark, of_this_front):
        """The moment of a kill."""
        with self.lock:
            if self.exchange and of_this_front(self.wire.port):
                self.marks.append((mark, self.wire.sent, self.wire.arrived()))


def inodes_of_connections(port):
    """{port of a client: inode of the server's socket}"""
    found = {}
    with open("/proc/net/tcp") as file:
        for fields in map(str.split, file):
            if len(fields) > 9 and fields[1].endswith(f":{port:04X}"):
                found[int(fields[2].rsplit(":", 1)[1], 16)] = fields[9]
    return found


def sockets_of(pid):
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
            if link.startswith("socket:["):
                found.add(link[8:-1])
    except OSError:
        pass  # it has ended
    return found


class Load:
    """Clients at once on one server, and who ends its processes meanwhile."""

    CLIENTS = 16

    def __init__(self, server, exchanges, undisturbed, rng):
        self.server, self.exchanges, self.undisturbed, self.rng = server, exchanges, undisturbed, rng
        self.tally, self.over, self.marks, self.others = Tally(), threading.Event(), [], 0
        self.clients = [Client(self, number) for number in range(self.CLIENTS)]

    def run(self, kills):
        for client in self.clients:
            client.thread.start()
        try:
            deadline = time.monotonic() + 20 + kills
            time.sleep(0.3)
            while len(self.marks) < kills and time.monotonic() < deadline:
                self.strike()
                time.sleep(self.rng.uniform(0.05, 0.2) if self.rng.random() < 0.8 else self.rng.uniform(0, 0.004))
        finally:
            self.over.set()
            for client in self.clients:
                client.thread.join(60)
        assert not any(client.thread.is_alive() for client in self.clients), "a client hangs"

    def strike(self):
        status = self.server.status()
        there = [front for front in status["fronts"] if front["pid"] > 1]
        active = [front for front in there if front["active"]] or there
        if self.rng.random() < 0.06:
            self.strike_a_worker(status)
        if not there:
            return
        chance = self.rng.random()
        victims = there if chance < 0.05 else [self.rng.choice(there if chance < 0.15 else active)]
        spare_is_there = all(front["state"] == "ready" for front in status["fronts"])
        inodes = inodes_of_connections(self.server.port)
        for front in victims:
            sockets, mark = sockets_of(front["pid"]), collections.Counter()
            for client in self.clients:
                client.mark(mark, lambda port, sockets=sockets: inodes.get(port) in sockets)
            sign = self.rng.choice((KILL,) * 8 + (STOP, SEGV))
            if WITH_KILLS:
                try:
                    os.kill(front["pid"], sign)
                except ProcessLookupError:
                    continue
            mark["no spare"] = not spare_is_there
            self.marks.append(mark)

    def strike_a_worker(self, status):
        pids = [pid for replica in status["replicas"] for pid in (replica["pid"], *(rank["pid"] for rank in replica["ranks"])) if pid > 1]
        if pids and WITH_KILLS:
            try:
                os.kill(self.rng.choice(pids), KILL)
                self.others += 1
            except ProcessLookupError:
                pass


class MixedLoad(unittest.TestCase):
    SERVERS = ((1, "slow"), (2, "slow"), (1, "computed"), (3, "computed"))  # fronts, and what is computed

    @staticmethod
    def rounds():
        """How many kills each server gets. The more it had, the longer its fronts take to come back; a few get many all the same."""
        many = [KILLS // 10] * 4 if IS_LONG else []
        left = KILLS - sum(many)
        few = max(len(MixedLoad.SERVERS), left // 20)
        return many + [left * (i + 1) // few - left * i // few for i in range(few)]

    def load(self, kind):
        """What a server of this kind is asked, and says undisturbed."""
        made = slow_exchanges() if kind == "slow" else computed_exchanges()
        # What is large would leave no time to the others; the health is another one while there is no replica.
        exchanges = [exchange for exchange in made if "large" not in exchange.name and exchange.name != "health"]
        with Server(*self.arguments(kind)) as server:
            return exchanges, Undisturbed(server, exchanges)

    @staticmethod
    def arguments(kind):
        return "--no-prefix-cache", "--log-level", "error", *(SLOW if kind == "slow" else ())

    def test_no_answer_changes_and_no_connection_ends(self):
        rng, marks, count, wrong, others = random.Random(SEED), [], collections.Counter(), [], 0
        print(f"seed {SEED}, {KILLS} kills", flush=True)
        loads = {kind: self.load(kind) for kind in ("slow", "computed")}
        for turn, kills in enumerate(self.rounds()):
            fronts, kind = self.SERVERS[turn % len(self.SERVERS)]
            began = time.monotonic()
            with Server("--dp", 2, "--fronts", fronts, "--restart-intensity", "100000/60s", *self.arguments(kind)) as server:
                load = Load(server, *loads[kind], rng)
                load.run(kills)
                marks, count, wrong, others = marks + load.marks, count + load.tally.count, wrong + load.tally.wrong, others + load.others
                print(f"{kind}, {fronts} fronts: {len(load.marks)} kills, {load.tally}; {time.monotonic() - began:.1f} s", flush=True)
                server.wait_idle(60)
                server.expect_family(4)
                if not wrong:
                    self.assertEqual(metric(server, "phalanx_connections_cut_total"), 0)

        def hit(what):
            return sum(mark[what] > 0 for mark in marks)
        print(f"{len(marks)} kills of fronts, {others} of ranks and replicas: {hit('answers')} in the middle of a response "
              f"({sum(mark['answers'] for mark in marks)} responses), {hit('bodies')} while a body was half-sent "
              f"({sum(mark['bodies'] for mark in marks)} bodies), {hit('awaited')} before the first byte of an answer, "
              f"{hit('no spare')} before the spare front was ready again; {sum(count.values())} exchanges: {count['equal']} equal, "
              f"{count['cut']} cut, {count['malformed']} malformed, {count['different']} different", flush=True)
        self.assertEqual(len(wrong), 0, f"seed {SEED}\n" + shown(wrong))
        if WITH_KILLS and IS_LONG:
            self.assertGreaterEqual(len(marks), KILLS)
            self.assertGreaterEqual(hit("answers"), 300)
            self.assertGreaterEqual(hit("bodies"), 100)
            self.assertGreaterEqual(hit("no spare"), 50)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A request that crashes whoever reads it or answers it costs one front that has others, two that work for it alone, and itself.
Everybody else notices nothing, and signals that somebody sends are held against no request."""
import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trial_settings  # noqa: E402
from phalanx_server import BIN, Server, alive, eventually, main  # noqa: E402
from exchanges import CHAT, SLOW, TEXT, VERSION, Tally, Undisturbed, attempt, chat, head, pieces_of, post, shown, whole  # noqa: E402
from raw_http import CREATED, ID, Wire, difference, events_by_choice, normal  # noqa: E402

_, IS_LONG, _ = trial_settings.read(0, 1)

FAULTY = os.path.join(BIN, "phalanx-front-with-faults")
READY_SECONDS = 2.0  # until all fronts are there again
ENDED = "the request ended the processes that worked for it"
NOT_TRIED = "could not be tried again alone"


# ---- who suffers nothing

def innocent_exchanges():
    def seeded(seed, **fields):
        return chat(seed=seed, max_tokens=250, **fields)
    stream = dict(stream=True)
    return [
        *(whole(f"stream {i}", CHAT, seeded(i, **stream)) for i in range(4)),
        whole("stream of three choices with logprobs", CHAT, seeded(4, n=3, logprobs=True, **stream)),
        whole("completions stream with usage", TEXT, {"prompt": ["a", "b"], "seed": 5, "max_tokens": 250, "echo": True,
                                                      "stream_options": {"include_usage": True}, **stream}),
        whole("whole answer", CHAT, seeded(6)),
        whole("whole answer of four choices", CHAT, seeded(7, n=4, logprobs=True)),
        pieces_of("stream of a body in pieces", CHAT, seeded(8, **stream), 30),
        pieces_of("answer to a body in pieces", CHAT, seeded(9), 30),
    ]


class Innocents:
    """Clients that send one exchange after the other, each on its one connection."""

    def __init__(self, server, undisturbed, exchanges):
        self.undisturbed, self.tally, self.over, self.turns = undisturbed, Tally(), threading.Event(), 0
        self.wires = [(Wire(server.port), exchange) for exchange in exchanges]
        self.threads = [threading.Thread(target=self._work, args=pair, daemon=True) for pair in self.wires]

    def _work(self, wire, exchange):
        stays = True
        while stays and not self.over.is_set():
            stays = attempt(wire, exchange, self.undisturbed, self.tally, "beside a poisonous request")
            self.turns += 1
        if not stays:
            self.tally.note("cut", f"{exchange.name}: its connection cannot take another request")
        wire.close()

    def under_way(self):
        return sum(wire.sent >= exchange.bytes and wire.received < self.undisturbed.bytes(exchange) - 200 for wire, exchange in self.wires)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        eventually(lambda: self.under_way() >= 8, 10, "answers are under way")
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join(60)


# ---- who is to blame

def poisonous(crash, *, path=CHAT, version="1.1", **fields):
    body = {"prompt": "count", "seed": 1, **fields} if path == TEXT else chat(seed=1, **fields)
    first, data = post(path, body, f"x-crash: {crash}", version=version)
    return first + data


POISONED_HEAD = head(CHAT, "content-type: application/json", "content-length: 100", "origin: http://crash-in-head.test")


# Its first front crashes, and no other.
ONCE = dict(stream=True, max_tokens=1200, ignore_eos=True)


def common_fronts(server):
    return [front for front in server.status()["fronts"] if not front["quarantine"]]


def quarantine(server):
    """The front that works for suspects, if there is one."""
    return next((front for front in server.status()["fronts"] if front["quarantine"]), None)


def serving_alone(server, behind=0):
    """Its pid, as soon as it has a suspect and is not that one."""
    found = {}

    def is_there():
        found["front"] = quarantine(server)
        return found["front"] is not None and found["front"]["connections"] == 1 and found["front"]["pid"] != behind
    eventually(is_there, 10, "a suspect is alone")
    assert found["front"]["pid"] > 1
    return found["front"]["pid"]


def program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None  # it has been replaced


class Fronts(unittest.TestCase):
    """One server for all cases, whose fronts run the program with faults."""

    @classmethod
    def setUpClass(cls):
        cls.exchanges = innocent_exchanges()
        cls.server = Server("--dp", 2, "--tp", 1, "--no-prefix-cache", *SLOW)
        try:
            cls.plain = whole("like the poisonous ones", CHAT, chat(seed=1, stream=True, max_tokens=40))
            cls.undisturbed = Undisturbed(cls.server, [*cls.exchanges, cls.plain])
            done = cls.server.control("reload", "--fronts", FAULTY)
            assert done.returncode == 0, done.stderr
            eventually(lambda: [program(pid) for pid in cls.server.front_pids()] == [FAULTY] * 2, 10, "all fronts run the other program")
        except BaseException:
            cls.server.kill()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        self.server.wait_idle(60)
        self.before, self.log_from = self.lives(), len(self.server.log_text())
        self.replicas = [replica["pid"] for replica in self.server.status()["replicas"]]

    def lives(self):
        """Of the fronts that others have."""
        return sum(front["incarnation"] for front in common_fronts(self.server))

    def active_pid(self):
        pid = next(front["pid"] for front in self.server.status()["fronts"] if front["active"])
        self.assertGreater(pid, 1)  # a signal to 0 would be one to this test
        return pid

    def fronts_ready(self):
        fronts = common_fronts(self.server)
        return all(front["state"] == "ready" for front in fronts) and sum(front["active"] for front in fronts) == 1

    def log(self):
        return self.server.log_text()[self.log_from:]

    def suspected(self):
        """{connection: the strikes against it, in order}"""
        found = {}
        for line in self.log().splitlines():
            if "request_suspected" in line:
                connection, strikes = (int(re.search(rf'{name}"?[=:]\s*(\d+)', line)[1]) for name in ("connection", "strikes"))
                found.setdefault(connection, []).append(strikes)
        return found

    def expect_error(self, wire):
        """500, as JSON, and the end of the connection."""
        answer = wire.response()
        self.assertEqual((answer.status, answer.field("content-type"), answer.field("connection")), (500, b"application/json", b"close"))
        self.assertIn(ENDED, json.loads(answer.body)["error"]["message"])
        wire.finish()

    def expect_ended_stream(self, wire, told):
        """The first events of the answer, `told` of them with tokens, then an error event, [DONE] and the end of the connection."""
        answer = wire.response()
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.field("content-type").startswith(b"text/event-stream"))
        events = answer.body.split(b"\n\n")[:-1]
        self.assertEqual(events.pop(), b"data: [DONE]")
        self.assertIn(ENDED, json.loads(events.pop()[6:])["error"]["message"])
        if told is not None:
            expected = self.undisturbed.answers(self.plain)[0][3]
            came = events_by_choice(CREATED.sub(b'"created":0', ID.sub(b'"id":""', b"".join(event + b"\n\n" for event in events))))
            self.assertEqual(came[0], expected[0][:1 + told])
        if answer.framing != "close":
            wire.finish()

    def expect_recovery(self, poisonous_requests, deaths=None, strikes=(1, 2, 3)):
        """Behind as many poisonous requests, none of which anything is left of; each costs the others one front."""
        eventually(self.fronts_ready, READY_SECONDS, "all fronts are ready")
        eventually(lambda: quarantine(self.server) is None, 5, "the quarantine is empty")
        self.assertEqual(self.lives() - self.before, poisonous_requests if deaths is None else deaths)
        self.assertEqual(list(self.suspected().values()), [list(strikes)] * poisonous_requests)
        self.assertEqual(self.server.request("GET", "/version")[0], 200)
        eventually(lambda: self.server.status()["requests"] == 0, 10, "no request is open")
        self.server.wait_idle()
        eventually(lambda: sum(front["connections"] for front in self.server.status()["fronts"]) == 0, 10, "no connection is left")
        self.assertEqual([replica["pid"] for replica in self.server.status()["replicas"]], self.replicas)
        metrics = self.server.request("GET", "/metrics")[1]
        for line in ("phalanx_connections_cut_total 0", "phalanx_suspects 0"):
            self.assertRegex(metrics, f"(?m)^{line}$")
        self.server.expect_family(4)

    def beside_innocents(self, act):
        with Innocents(self.server, self.undisturbed, self.exchanges) as innocents:
            began, under_way = time.monotonic(), innocents.under_way()
            act()
            took = time.monotonic() - began
            eventually(self.fronts_ready, READY_SECONDS, "all fronts are ready")
        print(f"{self.id().split('.', 1)[1]}: {1e3 * took:.0f} ms; {under_way} answers under way, {innocents.tally}", flush=True)
        self.assertEqual(len(innocents.tally.wrong), 0, shown(innocents.tally.wrong))
        return took

    def send(self, request, check):
        with Wire(self.server.port, seconds=60) as wire:
            wire.begin()
            wire.send(request)
            check(wire)

    def check_one(self, request, check):
        self.beside_innocents(lambda: self.send(request, check))
        self.expect_recovery(1)


class OneRequest(Fronts):
    def test_in_its_header(self):
        self.check_one(POISONED_HEAD, self.expect_error)

    def test_in_its_handler(self):
        self.check_one(poisonous("route"), self.expect_error)

    def test_in_its_preparation(self):
        self.check_one(poisonous("preparation", stream=True), self.expect_error)

    def test_in_a_preparation_that_never_ends(self):
        self.check_one(poisonous("stuck", stream=True), self.expect_error)
        self.assertIn("work_does_not_end", self.log())

    def test_at_its_first_token(self):
        self.check_one(poisonous("token:1", stream=True), self.expect_error)

    def test_in_its_stream(self):
        self.check_one(poisonous("token:20", stream=True, max_tokens=40), lambda wire: self.expect_ended_stream(wire, 19))

    def test_at_the_last_token_of_its_stream(self):
        self.check_one(poisonous("token:40", stream=True, max_tokens=40), lambda wire: self.expect_ended_stream(wire, 39))

    def test_in_a_stream_of_several_choices(self):
        self.check_one(poisonous("token:50", path=TEXT, stream=True, n=3, logprobs=2, max_tokens=40),
                       lambda wire: self.expect_ended_stream(wire, None))

    def test_in_a_stream_that_its_connection_ends(self):
        self.check_one(poisonous("token:20", version="1.0", stream=True, max_tokens=40), lambda wire: self.expect_ended_stream(wire, 19))

    def test_in_an_answer_of_which_nothing_is_sent(self):
        self.check_one(poisonous("token:20", max_tokens=40), self.expect_error)

    def test_by_what_is_thrown_and_not_caught(self):
        self.check_one(poisonous("throw:20", stream=True, max_tokens=40), lambda wire: self.expect_ended_stream(wire, 19))

    @unittest.skipUnless(IS_LONG, "a front that stands still is waited for ten seconds")
    def test_that_never_ends(self):
        self.check_one(poisonous("spin:20", stream=True, max_tokens=40), lambda wire: self.expect_ended_stream(wire, 19))


class SeveralRequests(Fronts):
    def test_one_after_the_other(self):
        for crash in ("route", "token:20"):
            with self.subTest(crash=crash):
                self.setUp()
                request = poisonous(crash, max_tokens=40)
                self.beside_innocents(lambda request=request: [self.send(request, self.expect_error) for _ in range(2)])
                self.expect_recovery(2)

    def at_once(self, requests):
        failed = []

        def send(request):
            try:
                self.send(request, self.expect_error)
            except Exception as error:  # pylint: disable=broad-except  # told below
                failed.append(repr(error))

        def all_of_them():
            threads = [threading.Thread(target=send, args=(request,), daemon=True) for request in requests]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        self.beside_innocents(all_of_them)
        self.assertEqual(failed, [])

    def test_two_at_once(self):
        for crashes in (("route", "route"), ("token:20", "token:20"), ("route", "token:5"), ("preparation", "preparation")):
            with self.subTest(crashes=crashes):
                self.setUp()
                self.at_once([poisonous(crash, max_tokens=40) for crash in crashes])
                self.expect_recovery(2)

    def test_many_at_once(self):
        self.at_once([poisonous(crash, max_tokens=40) for crash in 4 * ("route", "token:20")])
        self.expect_recovery(8)

    def test_cost_no_time(self):
        """What is held against a request delays no restart: the twentieth is answered as soon as the first."""
        took = []
        for _ in range(20):
            began = time.monotonic()
            self.send(poisonous("route"), self.expect_error)
            took.append(time.monotonic() - began)
        print(f"one after the other: {' '.join(f'{1e3 * seconds:.0f}' for seconds in took)} ms", flush=True)
        self.assertLess(sorted(took[-10:])[5], 0.3, took)
        self.expect_recovery(20)

    def test_behind_a_good_one(self):
        first, data = post(CHAT, chat(seed=1, stream=True, max_tokens=40))
        for crash in ("route", "preparation", "token:20"):
            with self.subTest(crash=crash):
                self.setUp()

                def check(wire):
                    self.assertIsNone(difference(self.undisturbed.answers(self.plain), [normal(wire.response(), self.plain)]))
                    self.expect_error(wire)
                self.check_one(first + data + poisonous(crash, max_tokens=40), check)

    def test_behind_a_good_one_on_a_connection_that_rested(self):
        def check(wire):
            self.assertIsNone(difference(self.undisturbed.answers(self.plain), [normal(wire.response(), self.plain)]))
            time.sleep(0.1)
            wire.send(poisonous("token:20", stream=True, max_tokens=40))
            self.expect_ended_stream(wire, 19)
        self.check_one(b"".join(post(CHAT, chat(seed=1, stream=True, max_tokens=40))), check)

    def test_whose_client_leaves(self):
        for after in (0.0, 0.005, 0.02, 0.04):
            with self.subTest(after=after):
                self.setUp()

                def leave(_, after=after):
                    time.sleep(after)
                self.beside_innocents(lambda leave=leave: self.send(poisonous("token:5", stream=True), leave))
                eventually(self.fronts_ready, READY_SECONDS, "all fronts are ready")
                self.assertLessEqual(self.lives() - self.before, 1)
                self.server.wait_idle()


class Acquitted(Fronts):
    def test_one_crash_each(self):
        """Deaths of before a connection was at rest are not held against what comes behind."""
        request = b"".join(post(CHAT, chat(seed=1, stream=True, max_tokens=40), "x-crash: once:20"))

        def check(wire):
            for i in range(4):
                if i:
                    wire.begin()
                    wire.send(request)
                self.assertIsNone(difference(self.undisturbed.answers(self.plain), [normal(wire.response(), self.plain)]))
                time.sleep(0.05)
        self.beside_innocents(lambda: self.send(request, check))
        self.expect_recovery(1, deaths=4, strikes=(1, 1, 1, 1))

    def test_of_signals_from_outside(self):
        """The front works for a request all the time, and that is nothing it died of."""
        with Wire(self.server.port) as wire:
            wire.send(poisonous("spin:20", stream=True, max_tokens=40))
            for sign in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV):
                pid = self.active_pid()
                eventually(lambda pid=pid: spins(pid), 10, "the front works")
                os.kill(pid, sign)
                eventually(lambda pid=pid: not alive(pid), 5, "the front is gone")
                eventually(self.fronts_ready, READY_SECONDS + 1, "all fronts are ready")
            self.assertEqual(self.suspected(), {})
            eventually(lambda: any(spins(pid) for pid in self.server.front_pids()), 10, "the request is tried again")
        pid = self.active_pid()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not alive(pid), 5, "the front is gone")
        eventually(self.fronts_ready, READY_SECONDS + 1, "all fronts are ready")
        self.expect_recovery(0, deaths=5)


class Alone(Fronts):
    """What happens to the front of a suspect, and meanwhile."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.long = whole("like one that crashes once", CHAT, chat(seed=1, **ONCE))
            cls.undisturbed.of.update(Undisturbed(cls.server, [cls.long]).of)
        except BaseException:
            cls.server.kill()
            raise

    def begin_once(self, wire):
        wire.begin()
        wire.send(poisonous("once:20", **ONCE))
        return serving_alone(self.server)

    def expect_whole(self, wire):
        self.assertIsNone(difference(self.undisturbed.answers(self.long), [normal(wire.response(), self.long)]))

    def test_nobody_else_is_there(self):
        """Whoever comes meanwhile is served by others, and the suspect goes back to them at rest."""
        with Wire(self.server.port) as wire:
            pid = self.begin_once(wire)
            table = self.server.control("status").stdout
            self.assertRegex(table, r"(?m)^  front 2 .*quarantine: a suspect$")
            metrics = self.server.request("GET", "/metrics")[1]
            for line in ('phalanx_suspects 1', 'phalanx_front_ready{front="quarantine"} 1', 'phalanx_front_connections{front="quarantine"} 1'):
                self.assertIn("\n" + line + "\n", metrics)
            with contextlib.ExitStack() as stack:
                for _ in range(8):
                    other = stack.enter_context(Wire(self.server.port))
                    other.send(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    self.assertEqual(other.response().status, 200)
                self.assertEqual(quarantine(self.server)["connections"], 1)
            self.expect_whole(wire)
            eventually(lambda: not alive(pid), 5, "its front is gone")
            eventually(lambda: sum(front["connections"] for front in common_fronts(self.server)) == 1, 5, "others have it")
            wire.begin()
            wire.send(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n")
            self.assertEqual(wire.response().status, 200)
        self.expect_recovery(1, strikes=(1,))

    def test_signals_from_outside(self):
        for sign in (signal.SIGSTOP, signal.SIGKILL, signal.SIGSEGV):
            with self.subTest(sign=sign), Wire(self.server.port) as wire:
                self.setUp()
                pid = self.begin_once(wire)
                os.kill(pid, sign)
                for _ in range(2):
                    pid = serving_alone(self.server, behind=pid)
                    os.kill(pid, sign)
                    eventually(lambda pid=pid: not alive(pid), 5, "it is gone")
                self.expect_whole(wire)
                wire.close()
                self.expect_recovery(1, strikes=(1,))

    def test_fronts_are_replaced_meanwhile(self):
        with Wire(self.server.port) as wire:
            alone = self.begin_once(wire)
            eventually(self.fronts_ready, READY_SECONDS, "all fronts are ready")  # one that starts later is new as it is
            before = [front["pid"] for front in common_fronts(self.server)]
            done = self.server.control("reload", "--fronts", FAULTY)
            self.assertEqual(done.returncode, 0, done.stderr)
            eventually(lambda: self.fronts_ready() and not set(before) & set(self.server.front_pids()), 5, "all others are new")
            self.assertEqual(serving_alone(self.server), alone)
            self.expect_whole(wire)
        self.expect_recovery(1, deaths=3, strikes=(1,))

    def test_one_that_dies_behind_one_that_lives(self):
        """It waits for its turn, and only the first of its deaths is one of a front that others have."""
        def both():
            with Wire(self.server.port) as long, Wire(self.server.port) as short:
                self.begin_once(long)
                short.send(poisonous("token:20", max_tokens=40))
                eventually(lambda: re.search(r"(?m)^phalanx_suspects 2$", self.server.request("GET", "/metrics")[1]), 5, "it waits")
                self.expect_whole(long)
                self.expect_error(short)
        self.beside_innocents(both)
        eventually(self.fronts_ready, READY_SECONDS, "all fronts are ready")
        self.assertEqual(sorted(self.suspected().values()), [[1], [1, 2, 3]])
        self.assertEqual(self.lives() - self.before, 2)


class Ends(unittest.TestCase):
    """Servers that end, or have little room, with suspects."""

    @contextlib.contextmanager
    def server(self, *arguments, step_us=1500):
        with Server("--dp", 1, "--tp", 1, "--no-prefix-cache", "--runner", "sim", "--sim-step-us", step_us, *arguments) as server:
            done = server.control("reload", "--fronts", FAULTY)
            self.assertEqual(done.returncode, 0, done.stderr)
            eventually(lambda: [program(pid) for pid in server.front_pids()] == [FAULTY] * 2, 10, "all fronts run the other program")
            yield server

    def test_with_a_suspect_that_is_alone(self):
        with self.server() as server, Wire(server.port) as wire:
            wire.send(poisonous("once:20", **ONCE))
            serving_alone(server)
            os.kill(server.pid, signal.SIGTERM)
            self.assertTrue(wire.response().body.endswith(b"data: [DONE]\n\n"))
            server.process.wait(20)
            self.assertEqual(server.process.returncode, 0)

    def test_with_suspects_that_wait(self):
        with self.server("--shutdown-timeout", 1) as server, contextlib.ExitStack() as stack:
            alone, *waiting = [stack.enter_context(Wire(server.port)) for _ in range(3)]
            alone.send(poisonous("once:20", **{**ONCE, "max_tokens": 2000}))
            serving_alone(server)
            for wire in waiting:
                wire.send(poisonous("token:20", max_tokens=40))
            eventually(lambda: "phalanx_suspects 3\n" in server.request("GET", "/metrics")[1], 5, "they wait")
            os.kill(server.pid, signal.SIGTERM)
            for wire in waiting:
                answer = wire.response()
                self.assertEqual(answer.status, 500)
                self.assertIn(NOT_TRIED, json.loads(answer.body)["error"]["message"])
            self.assertTrue(alone.response().body.endswith(b"data: [DONE]\n\n"))
            server.process.wait(20)
            self.assertEqual(server.process.returncode, 75)

    def test_with_suspects_whose_clients_leave(self):
        """Those that wait for their turn have no front, and their requests end all the same."""
        with self.server(step_us=10_000) as server, contextlib.ExitStack() as stack:
            alone, *waiting = [stack.enter_context(Wire(server.port)) for _ in range(3)]
            alone.send(poisonous("once:20", **ONCE))
            serving_alone(server)
            for wire in waiting:
                wire.send(poisonous("token:3", **ONCE))
            eventually(lambda: "phalanx_suspects 3\n" in server.request("GET", "/metrics")[1], 5, "they wait")
            for wire in waiting:
                wire.close()
            eventually(lambda: "phalanx_suspects 1\n" in server.request("GET", "/metrics")[1], 2, "they have left")
            self.assertEqual(server.status()["requests"], 1)
            self.assertTrue(alone.response().body.endswith(b"data: [DONE]\n\n"))

    def test_with_few_connections(self):
        """Suspects keep their places, and give them back."""
        with self.server("--max-connections", 2) as server:
            for _ in range(2):
                with Wire(server.port) as first, Wire(server.port) as second:
                    for wire in (first, second):
                        wire.send(poisonous("token:20", max_tokens=40))
                    for wire in (first, second):
                        answer = wire.response()
                        self.assertEqual(answer.status, 500)
                        self.assertIn(ENDED, json.loads(answer.body)["error"]["message"])
            self.assertEqual(server.request("GET", "/version")[0], 200)

    @unittest.skipUnless(IS_LONG, "a suspect that lives on is alone for fifteen seconds")
    def test_with_one_that_lives_on(self):
        """It goes back to the others in the middle of its answer, and who waits has its turn."""
        with self.server(step_us=25_000) as server, Wire(server.port, seconds=60) as long, Wire(server.port, seconds=60) as short:
            long.send(poisonous("once:20", **ONCE))
            serving_alone(server)
            began = time.monotonic()
            short.send(poisonous("token:2", max_tokens=4))
            self.assertIn(ENDED, json.loads(short.response().body)["error"]["message"])
            self.assertLess(time.monotonic() - began, 24, "the other one takes thirty seconds")
            lives = sum(front["incarnation"] for front in common_fronts(server))
            self.assertEqual([front["connections"] for front in common_fronts(server) if front["active"]], [1])
            answer = long.response()
            self.assertTrue(answer.body.endswith(b"data: [DONE]\n\n"))
            self.assertEqual(answer.body.count(b"data: ") - 2, ONCE["max_tokens"])
            self.assertEqual(sum(front["incarnation"] for front in common_fronts(server)), lives)

    def test_with_too_many_suspects(self):
        with self.server() as server, contextlib.ExitStack() as stack:
            alone, *others = [stack.enter_context(Wire(server.port)) for _ in range(11)]
            alone.send(poisonous("once:20", **{**ONCE, "max_tokens": 2000}))
            serving_alone(server)
            for wire in others:
                wire.send(poisonous("route"))
            self.assertTrue(alone.response().body.endswith(b"data: [DONE]\n\n"))
            said = [json.loads(wire.response().body)["error"]["message"] for wire in others]
            self.assertEqual((sum(ENDED in text for text in said), sum(NOT_TRIED in text for text in said)), (8, 2), said)


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[11])


def spins(pid):
    """It uses a processor for itself alone, nearly."""
    try:
        before = cpu_ticks(pid)
        time.sleep(0.1)
        return cpu_ticks(pid) - before >= 3
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    main()

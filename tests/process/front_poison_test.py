# SPDX-License-Identifier: Apache-2.0
"""A request that crashes whoever reads it or answers it costs two fronts and itself. Everybody else notices nothing, and signals
that somebody sends are held against no request."""
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
        return sum(front["incarnation"] for front in self.server.status()["fronts"])

    def active_pid(self):
        pid = next(front["pid"] for front in self.server.status()["fronts"] if front["active"])
        self.assertGreater(pid, 1)  # a signal to 0 would be one to this test
        return pid

    def fronts_ready(self):
        fronts = self.server.status()["fronts"]
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
        self.assertIn("the request ended two processes", json.loads(answer.body)["error"]["message"])
        wire.finish()

    def expect_ended_stream(self, wire, told):
        """The first events of the answer, `told` of them with tokens, then an error event, [DONE] and the end of the connection."""
        answer = wire.response()
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.field("content-type").startswith(b"text/event-stream"))
        events = answer.body.split(b"\n\n")[:-1]
        self.assertEqual(events.pop(), b"data: [DONE]")
        self.assertIn("the request ended two processes", json.loads(events.pop()[6:])["error"]["message"])
        if told is not None:
            expected = self.undisturbed.answers(self.plain)[0][3]
            came = events_by_choice(CREATED.sub(b'"created":0', ID.sub(b'"id":""', b"".join(event + b"\n\n" for event in events))))
            self.assertEqual(came[0], expected[0][:1 + told])
        if answer.framing != "close":
            wire.finish()

    def expect_recovery(self, poisonous_requests, deaths=None, strikes=(1, 2)):
        """Behind as many poisonous requests, none of which anything is left of."""
        eventually(self.fronts_ready, READY_SECONDS, "all fronts are ready")
        self.assertEqual(self.lives() - self.before, 2 * poisonous_requests if deaths is None else deaths)
        self.assertEqual(list(self.suspected().values()), [list(strikes)] * poisonous_requests)
        self.assertEqual(self.server.request("GET", "/version")[0], 200)
        eventually(lambda: self.server.status()["requests"] == 0, 10, "no request is open")
        self.server.wait_idle()
        eventually(lambda: sum(front["connections"] for front in self.server.status()["fronts"]) == 0, 10, "no connection is left")
        self.assertEqual([replica["pid"] for replica in self.server.status()["replicas"]], self.replicas)
        self.assertRegex(self.server.request("GET", "/metrics")[1], r"(?m)^phalanx_connections_cut 0$")
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
        with Wire(self.server.port) as wire:
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
                self.assertLessEqual(self.lives() - self.before, 2)
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

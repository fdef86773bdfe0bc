# SPDX-License-Identifier: Apache-2.0
"""A front that is killed, stopped or crashes: another one goes on with its connections, and nobody notices. In the middle of a
request or of an answer, byte for byte: front_takeover_test.py."""
import contextlib
import http.client
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Server, alive, counted, eventually, main, open_files  # noqa: E402


# 3,000 tokens take half a minute.
SLOW = ("--runner", "sim", "--sim-step-us", 8000)


def answers(server, first=3, last=12):
    return server.chat(f"count from {first} to {last}")["choices"][0]["message"]["content"] == counted(first, last)


def front_of(server):
    """The active one, when the spare one is ready, too. Never one without a process: its pid would be 0, which a signal takes
    for this whole test."""
    def both():
        fronts = server.status()["fronts"]
        return fronts if [front["state"] for front in fronts] == ["ready", "ready"] else None
    fronts = eventually(both, 5, "both fronts are ready")
    active = [front for front in fronts if front["active"]]
    assert len(active) == 1, fronts
    return active[0]


def lives(server):
    return sum(front["incarnation"] for front in server.status()["fronts"])


class FrontFaults(unittest.TestCase):
    """One server for all cases: each one must leave it as it found it."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--dp", 2, "--tp", 1)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        self.server.wait_idle(60)
        self.before = front_of(self.server)
        self.lives = lives(self.server)
        self.replicas = [r["pid"] for r in self.server.status()["replicas"]]
        self.files = open_files(self.server.pid)

    def break_it(self, sign):
        os.kill(self.before["pid"], sign)
        eventually(lambda: not alive(self.before["pid"]), 5, "the front is gone")

    def expect_recovery(self, deaths=1):
        self.assertTrue(answers(self.server))
        self.assertNotEqual(front_of(self.server)["pid"], self.before["pid"])
        self.assertEqual(lives(self.server), self.lives + deaths)
        self.server.wait_idle(10)
        self.assertEqual([r["pid"] for r in self.server.status()["replicas"]], self.replicas, "no replica was restarted")
        self.server.expect_family(4)
        eventually(lambda: open_files(self.server.pid) <= self.files, 5, f"{self.files} open descriptors as before")

    def test_idle(self):
        for sign in (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP, signal.SIGABRT):
            with self.subTest(sign=sign):
                self.setUp()
                self.break_it(sign)
                self.expect_recovery()

    def test_streams_go_on(self):
        for sign in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(sign=sign):
                self.setUp()
                streams = [self.server.stream(f"count from {100 * i} to {100 * i + 90}") for i in range(1, 5)]
                for stream in streams:
                    stream.wait_for_tokens(10)
                self.break_it(sign)
                for i, stream in enumerate(streams, 1):
                    stream.finish()
                    self.assertEqual((stream.error, stream.text, stream.done), (None, counted(100 * i, 100 * i + 90), True))
                self.expect_recovery()
                self.assertEqual(self.server.status()["requests"], 0)

    def test_clients_that_connect_while_there_is_none_wait(self):
        connections = []
        os.kill(self.before["pid"], signal.SIGKILL)
        for i in range(20):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
            connection.connect()
            connections.append(connection)
        eventually(lambda: not alive(self.before["pid"]), 5, "the front is gone")
        late = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        late.request("GET", "/live")
        self.assertEqual(late.getresponse().status, 200)
        for connection in [*connections, late]:
            connection.close()
        self.expect_recovery()

    def test_connections_at_rest_are_kept(self):
        connections = []
        for i in range(20):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
            connections.append(connection)
            if i % 4 == 0:
                connection.connect()  # and says nothing yet
                continue
            for _ in range(i % 3 + 1):
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "count from 3 to 5", "stream": i % 2 == 1}),
                                   {"content-type": "application/json"})
                self.assertIn(b"finish_reason", connection.getresponse().read())
        sockets = [connection.sock for connection in connections]
        for _ in range(3):
            before = front_of(self.server)
            eventually(lambda: front_of(self.server)["connections"] == 20, 5, "all connections are one front's")
            os.kill(before["pid"], signal.SIGKILL)
            for connection in connections:  # some of them while there is no front
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "count from 3 to 5"}),
                                   {"content-type": "application/json"})
            for connection in connections:
                response = connection.getresponse()
                self.assertEqual((response.status, json.loads(response.read())["choices"][0]["finish_reason"]), (200, "stop"))
        self.assertEqual([connection.sock for connection in connections], sockets, "no client had to connect again")
        for connection in connections:
            connection.close()
        self.expect_recovery(deaths=3)

    def test_a_half_sent_request_goes_on(self):
        request = b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n"
        half = request[:len(request) // 2]
        # The last of them are an empty line before a request, whole or half.
        end = request[len(half):]
        for begun, rest in ((half, end), (request + half, end), (b"\r\n", request), (b"\r", b"\n" + request)):
            with self.subTest(begun=begun):
                self.setUp()
                with socket.create_connection(("127.0.0.1", self.server.port), 20) as client:
                    client.sendall(begun)
                    if begun.startswith(request):
                        self.assertIn(b"200 OK", client.recv(4096))
                    self.assertTrue(answers(self.server))  # so the front has read what came before
                    self.break_it(signal.SIGKILL)
                    client.sendall(rest)
                    self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n"))
                self.expect_recovery()

    def test_the_spare_one_takes_over_at_once(self):
        spare = [front["pid"] for front in self.server.status()["fronts"] if not front["active"]]
        self.break_it(signal.SIGKILL)
        self.assertTrue(answers(self.server))
        self.assertEqual([front["pid"] for front in self.server.status()["fronts"] if front["active"]], spare)
        self.expect_recovery()

    def test_the_death_of_the_spare_one_is_nobodys(self):
        stream = self.server.stream("count from 100 to 190")
        stream.wait_for_tokens(10)
        spare = [front["pid"] for front in self.server.status()["fronts"] if not front["active"]]
        os.kill(spare[0], signal.SIGKILL)
        self.assertEqual((stream.finish().text, stream.done), (counted(100, 190), True))
        self.assertEqual(front_of(self.server)["pid"], self.before["pid"])

    def test_again_and_again(self):
        silent, began = socket.create_connection(("127.0.0.1", self.server.port), 20), time.monotonic()
        for _ in range(8):
            pid = front_of(self.server)["pid"]
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not alive(pid), 5, "the front is gone")
            self.assertTrue(answers(self.server))
            time.sleep(0.4)
        with silent:
            self.assertEqual(silent.recv(1), b"")
        self.assertLess(time.monotonic() - began, 12, "it has 10 s for its first request, from whichever fronts")
        self.expect_recovery(deaths=8)

    def test_all_at_once(self):
        for pid in self.server.front_pids():
            os.kill(pid, signal.SIGKILL)
        self.expect_recovery(deaths=2)


class SeveralFronts(unittest.TestCase):
    def test_all_streams_go_on_when_one_of_them_ends(self):
        with Server("--dp", 2, "--tp", 1, "--fronts", 3) as server:
            streams = [server.stream(f"count from {100 * i} to {100 * i + 90}") for i in range(1, 7)]
            for stream in streams:
                stream.wait_for_tokens(5)
            active = [front for front in server.status()["fronts"] if front["active"]]
            self.assertEqual([front["connections"] for front in active], [2] * 3, "each has as many")
            os.kill(active[1]["pid"], signal.SIGKILL)
            for i, stream in enumerate(streams, 1):
                stream.finish()
                self.assertEqual((stream.error, stream.text, stream.done), (None, counted(100 * i, 100 * i + 90), True))
            server.wait_idle()
            server.expect_family(4)


class NoFront(unittest.TestCase):
    """Fronts that cannot start, as their program may not be run."""

    def test_clients_that_leave_are_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("phalanxd", "phalanx-worker", "phalanx-front"):
                shutil.copy(os.path.join(BIN, name), folder)
            with Server("--tp", 1, *SLOW, program=os.path.join(folder, "phalanxd")) as server:
                streams = [server.stream("count", max_tokens=3000, ignore_eos=True, seed=i) for i in range(4)]
                for stream in streams:
                    stream.wait_for_tokens(5)
                os.chmod(os.path.join(folder, "phalanx-front"), 0)
                for pid in server.front_pids():
                    os.kill(pid, signal.SIGKILL)
                    eventually(lambda pid=pid: not alive(pid), 5, "the front is gone")
                self.assertEqual(server.status()["requests"], 4)
                reset, ended, half_closed, patient = streams
                reset.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                reset.close()
                ended.close()
                half_closed.connection.sock.shutdown(socket.SHUT_WR)
                eventually(lambda: server.status()["requests"] == 1, 4, "their requests are ended")
                self.assertEqual(server.log_text().count("outcome=client_gone"), 3, "as what they are")
                self.assertFalse(any(server.front_pids()), "nobody but the leader can have noticed")
                os.chmod(os.path.join(folder, "phalanx-front"), 0o755)
                read = len(patient.events)
                patient.wait_for_tokens(read + 20)
                self.assertIsNone(patient.error)
                patient.close()
                server.wait_idle()


class Renewal(unittest.TestCase):
    """SIGHUP: every front is replaced, and no client notices."""

    def test_ends_no_connection(self):
        with Server("--dp", 2, "--tp", 1, "--fronts", 2) as server:
            rest = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=20) for _ in range(12)]

            def ask(connection):
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "count from 3 to 5"}), {"content-type": "application/json"})
                response = connection.getresponse()
                return response.status, len(response.read()) > 0, connection.sock
            sockets = [ask(connection) for connection in rest]
            for turn in range(3):
                streams = [server.stream(f"count from {100 * i} to {100 * i + 90}") for i in range(1, 7)]
                for stream in streams:
                    stream.wait_for_tokens(5)
                old, replicas = server.front_pids(), [server.replica_pid(i) for i in range(2)]
                server.process.send_signal(signal.SIGHUP)
                if turn == 2:
                    server.process.send_signal(signal.SIGHUP)  # once more, behind the first
                while set(old) & set(server.front_pids()):
                    self.assertEqual([ask(connection) for connection in rest], sockets, "no client had to connect again")
                for i, stream in enumerate(streams, 1):
                    stream.finish()
                    self.assertEqual((stream.error, stream.text, stream.done), (None, counted(100 * i, 100 * i + 90), True))
                eventually(lambda: not set(replicas) & {server.replica_pid(i) for i in range(2)}, 60, "the replicas are new, too")
                server.wait_idle()
            self.assertEqual([ask(connection) for connection in rest], sockets)
            text = server.request("GET", "/metrics")[1]
            self.assertIn("phalanx_connections_cut_total 0\n", text)

    def test_a_stream_does_not_hold_it_up(self):
        asked = dict(max_tokens=1000, ignore_eos=True, seed=3)
        with Server("--tp", 1, *SLOW) as server:
            undisturbed = server.stream("count", **asked).finish()
            stream = server.stream("count", **asked).wait_for_tokens(5)
            old = server.front_pids()
            self.assertEqual(server.control("reload", "--fronts").returncode, 0)
            eventually(lambda: not any(map(alive, old)), 6, "every old front is gone")
            self.assertFalse(stream.done, "it runs on")
            stream.finish()
            self.assertEqual((stream.error, stream.text, stream.done), (None, undisturbed.text, True))
            log, metrics = server.log_text(), server.request("GET", "/metrics")[1]
            self.assertEqual((log.count("front_renewed"), log.count("front_died")), (2, 0))
            self.assertIn("phalanx_connections_resumed_total 1\n", metrics)
            self.assertIn("phalanx_connections_cut_total 0\n", metrics)

    def test_what_would_end_with_its_front_is_waited_for(self):
        def without_journals():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
        with Server("--tp", 1, *SLOW, before_exec=without_journals) as server:
            self.assertIn("answers_end_with_their_front", server.log_text())
            stream = server.stream("count", max_tokens=400, ignore_eos=True, seed=3).wait_for_tokens(5)
            old = server.front_pids()
            self.assertEqual(server.control("reload", "--fronts").returncode, 0)
            self.assertEqual(server.status()["state"], "rolling")
            stream.finish()
            self.assertEqual((stream.error, stream.done, stream.finish_reason), (None, True, "length"))
            eventually(lambda: not any(map(alive, old)), 6, "every old front is gone")
            eventually(lambda: server.status()["state"] == "serving", 6, "all are new")

    def test_survives_deaths_of_fronts(self):
        with Server("--dp", 2, "--tp", 1) as server:
            for moment in (0, 0.002, 0.01, 0.03):
                old = server.front_pids()
                server.process.send_signal(signal.SIGHUP)
                time.sleep(moment)
                try:
                    os.kill(old[1], signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it has been replaced already
                server.process.send_signal(signal.SIGHUP)
                eventually(lambda: not set(old) & set(server.front_pids()), 10, "every front is new")
                server.wait_idle(60)
                eventually(lambda: server.status()["state"] == "serving", 60, "the replicas are new")
                self.assertTrue(answers(server))


def programs(server):
    """The files that the fronts run; None for one that has just ended."""
    def program(pid):
        try:
            return os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return None
    return [program(pid) for pid in server.front_pids()]


def kill_fronts(server):
    """Those that have a process, which may end meanwhile."""
    for pid in filter(None, server.front_pids()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class NewProgram(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def copy(self, name):
        return shutil.copy(os.path.join(BIN, name), os.path.join(self.folder.name, name))

    def test_is_run_by_fronts_that_replace_the_old_ones(self):
        with Server("--dp", 2, "--tp", 1) as server:
            old, replicas = server.front_pids(), [server.replica_pid(i) for i in range(2)]
            rest = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            rest.connect()
            stream = server.stream("count from 100 to 190").wait_for_tokens(5)
            path = self.copy("phalanx-front")
            done = server.control("reload", "--fronts", path)
            self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
            self.assertEqual((stream.finish().text, stream.done), (counted(100, 190), True))
            eventually(lambda: not set(old) & set(server.front_pids()), 10, "every front is new")
            server.wait_idle()
            self.assertEqual(programs(server), [path, path])
            self.assertEqual([server.replica_pid(i) for i in range(2)], replicas)
            rest.request("GET", "/ready")
            self.assertEqual(rest.getresponse().status, 200)

    def test_that_does_not_get_ready_changes_nothing(self):
        with Server("--tp", 1) as server:
            before = programs(server)
            for path, cause in (("/bin/true", "front_program_refused"), (os.path.join(BIN, "phalanxctl"), "front_program_refused")):
                active = front_of(server)["pid"]
                self.assertEqual(server.control("reload", "--fronts", path).returncode, 0)
                eventually(lambda: f'{cause} why="{path}: ' in server.log_text(), 10, "it is told")
                self.assertEqual(front_of(server)["pid"], active)
                self.assertEqual(programs(server), before)
            for path in ("/no/such/program", TINY):
                done = server.control("reload", "--fronts", path)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("expected a program, found none that may be run", done.stderr)
            self.assertTrue(answers(server))

    def script(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def survives_its_fronts(self, server, before):
        kill_fronts(server)
        self.assertTrue(answers(server))
        eventually(lambda: programs(server) == before, 10, "every front runs what is proven")

    def test_that_cannot_be_run_is_refused(self):
        with Server("--tp", 1) as server:
            before = programs(server)
            for path in (self.script("empty", ""), self.script("lost", "#!/no/such/interpreter\n")):
                self.assertEqual(server.control("reload", "--fronts", path).returncode, 0)
                eventually(lambda: f'front_program_refused why="{path}: ' in server.log_text(), 10, "it is told")
                self.survives_its_fronts(server, before)

    def test_that_hangs_keeps_nobody_from_being_served_and_gives_way_to_another(self):
        with Server("--tp", 1) as server:
            before = programs(server)
            hangs = self.script("hangs", "#!/bin/sh\nexec sleep 1000\n")
            self.assertEqual(server.control("reload", "--fronts", hangs).returncode, 0)
            eventually(lambda: any(path and path.endswith("sleep") for path in programs(server)), 10, "it is tried")
            for front in server.status()["fronts"]:
                if front["state"] == "ready":
                    os.kill(front["pid"], signal.SIGKILL)
            self.assertTrue(answers(server))
            good = self.copy("phalanx-front")
            self.assertEqual(server.control("reload", "--fronts", good).returncode, 0)
            eventually(lambda: programs(server) == [good] * len(before), 10, "every front is new")
            self.assertTrue(answers(server))
            self.assertNotIn("front_program_refused", server.log_text())

    def test_is_run_by_a_front_that_died_while_another_one_tried_it(self):
        good = self.copy("phalanx-front")
        slow = self.script("slow", f'#!/bin/sh\nsleep 1\nexec {good} "$@"\n')
        with Server("--tp", 1, "--fronts", 2) as server:
            self.assertEqual(server.control("reload", "--fronts", slow).returncode, 0)
            eventually(lambda: any(front["state"] == "starting" for front in server.status()["fronts"]), 10, "it is tried")
            for front in server.status()["fronts"]:
                if front["state"] == "ready":
                    os.kill(front["pid"], signal.SIGKILL)
            self.assertTrue(answers(server))
            eventually(lambda: programs(server) == [good] * 3, 30, "every front is new")
            self.assertTrue(answers(server))

    def test_is_tried_again_when_somebody_ends_the_front_that_tries_it(self):
        good = self.copy("phalanx-front")
        slow = self.script("slow", f'#!/bin/sh\nsleep 0.5\nexec {good} "$@"\n')
        with Server("--tp", 1, "--fronts", 2) as server:
            for sign in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
                old = server.front_pids()
                self.assertEqual(server.control("reload", "--fronts", slow).returncode, 0)

                def tried():
                    return [front["pid"] for front in server.status()["fronts"] if front["state"] == "starting" and front["pid"] > 1]
                eventually(tried, 10, "it is tried")
                os.kill(tried()[0], sign)
                eventually(lambda old=old: not set(old) & set(server.front_pids()) and programs(server) == [good] * 3, 30, "every front is new")
                self.assertTrue(answers(server))
            self.assertNotIn("front_program_refused", server.log_text())

    def test_that_is_bad_right_behind_a_good_one_is_refused(self):
        with Server("--tp", 1) as server:
            good = self.copy("phalanx-front")
            for times in range(1, 4):
                for path in (good, "/bin/false"):  # before the good one is ready
                    self.assertEqual(server.control("reload", "--fronts", path).returncode, 0)
                eventually(lambda: server.log_text().count("front_program_refused") == times, 10, "it is told")
                server.wait_idle(60)
                kill_fronts(server)
                self.assertTrue(answers(server))

    def test_is_not_taken_before_it_is_asked_for(self):
        self.copy("phalanxctl")
        self.copy("phalanxd")
        self.copy("phalanx-worker")
        path = self.copy("phalanx-front")
        with Server("--tp", 1, program=os.path.join(self.folder.name, "phalanxd")) as server:
            os.remove(path)
            for _ in range(2):
                os.kill(front_of(server)["pid"], signal.SIGKILL)
                self.assertTrue(answers(server))
            front_of(server)
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: "fronts_not_replaced" in server.log_text(), 10, "there is none to take")
            server.wait_idle(60)
            self.assertTrue(answers(server))


class WithoutFiles(unittest.TestCase):
    def test_a_front_comes_back_when_the_model_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "phalanx-tiny")
            shutil.copytree(TINY, model)
            with Server("--tp", 1, model=model) as server:
                shutil.rmtree(model)
                for _ in range(2):
                    pid = front_of(server)["pid"]
                    os.kill(pid, signal.SIGKILL)
                    eventually(lambda: not alive(pid), 5, "the front is gone")
                    self.assertTrue(answers(server))

    def test_it_has_no_file_open(self):
        with Server("--tp", 1) as server:
            self.assertTrue(answers(server))
            pid = front_of(server)["pid"]
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2]
            kinds = ("socket:", "pipe:", "anon_inode:", "/memfd:phalanx-")
            self.assertEqual([link for link in links if not link.startswith(kinds)], [])


class Program(unittest.TestCase):
    def test_says_who_starts_it(self):
        ended = subprocess.run([os.path.join(BIN, "phalanx-front")], capture_output=True, text=True, timeout=30)
        self.assertEqual(ended.returncode, 64)
        self.assertIn("phalanx-front is started by phalanxd itself", ended.stderr)

    def test_that_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "phalanxd")
            for name in ("phalanxd", "phalanx-worker"):
                shutil.copy(os.path.join(BIN, name), os.path.join(folder, name))
            ended = subprocess.run([alone, "--model", TINY, "--port", "0"], capture_output=True, text=True, timeout=60)
            self.assertEqual(ended.returncode, 66)
            self.assertIn("expected the program phalanx-front beside phalanxd", ended.stderr)


if __name__ == "__main__":
    main()

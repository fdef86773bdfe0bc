# SPDX-License-Identifier: Apache-2.0
"""What an operator does to a running server, and where it takes its settings from."""
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, Server, alive, counted, descendants, eventually, main  # noqa: E402
from failed_start_test import start  # noqa: E402


def has_ipv6_loopback():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


class Watched(unittest.TestCase):
    def test_a_server_that_goes_is_watched_for(self):
        for json_wanted in (False, True):
            with self.subTest(json=json_wanted), Server("--dp", 1, "--tp", 1) as server:
                words = ["--json"] if json_wanted else []
                watch = subprocess.Popen([os.path.join(BIN, "phalanxctl"), "status", "--watch", "--interval", "0.1", "--port",
                                          str(server.port), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    first = watch.stdout.readline()
                    server.stop()
                    away = watch.stderr.readline() if json_wanted else next(line for line in watch.stdout if "no server" in line)
                    time.sleep(0.5)
                    self.assertIsNone(watch.poll(), "it goes on")
                finally:
                    watch.terminate()
                    rest = watch.communicate(timeout=30)
                if json_wanted:
                    self.assertEqual(json.loads(first)["state"], "serving")
                    self.assertEqual(rest[1], "", "it is told once")
                else:
                    self.assertRegex(first, r"^\d\d:\d\d:\d\d  phalanx-tiny  serving  ")
                self.assertRegex(away, r"no server answers \(since \d\d:\d\d:\d\d\): ")


    def test_one_that_hears_too_many_others_is_asked_again(self):
        program = os.path.join(BIN, "phalanxctl")
        with Server("--dp", 1, "--tp", 1) as server:
            port = ["--port", str(server.port)]
            streams = [server.stream("count from 1 to 300", max_tokens=4000, ignore_eos=True).wait_for_tokens(3) for _ in range(16)]
            drain = subprocess.Popen([program, "drain", "0", "--wait", *port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            watch = subprocess.Popen([program, "status", "--watch", "--json", "--interval", "0.1", *port],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                while json.loads(watch.stdout.readline())["replicas"][0]["state"] != "draining":
                    pass
                others = [socket.socket(socket.AF_UNIX) for _ in range(24)]
                for other in others:
                    other.connect(f"\0phalanx-admin-{os.getuid()}-{server.port}")
                self.assertIn("too many clients", watch.stderr.readline())
                for command in (("status",), ("ping",), ("resume", "0"), ("drain", "0", "--wait", "--timeout", "0.5")):
                    refused = subprocess.run([program, *command, *port], timeout=30, capture_output=True, text=True)
                    self.assertEqual(refused.returncode, 75, (command, refused.stderr))
                    self.assertIn("too many clients", refused.stderr)
                late = subprocess.Popen([program, "resume", "0", "--wait", *port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                time.sleep(0.5)
                self.assertIsNone(late.poll(), "it is told again and again")
                self.assertIsNone(watch.poll())
                self.assertIsNone(drain.poll(), "it has been told to")
                for other in others:
                    other.close()
                for stream in streams:
                    stream.close()
                self.assertEqual((late.communicate(timeout=60)[0], late.returncode), ("ok\n", 0))
                # It waits for a drain that is over, as the replica takes requests again.
                self.assertEqual(server.control("drain", "0").returncode, 0)
                self.assertEqual(drain.communicate(timeout=60)[0], "ok\n")
                self.assertEqual(drain.returncode, 0)
                while json.loads(watch.stdout.readline())["replicas"][0]["open_attempts"] != 0:
                    pass
            finally:
                for process in (drain, watch):
                    process.kill()
                    process.communicate()


class RollingRestart(unittest.TestCase):
    def test_hangup_restarts_one_replica_after_the_other_under_load(self):
        with Server("--dp", 2, "--tp", 1) as server:
            old = descendants(server.pid)
            streams = [server.stream(f"count from {100 + i} to {180 + i}").wait_for_tokens(2) for i in range(4)]
            server.process.send_signal(signal.SIGHUP)
            seen = []

            def restarted():
                replicas = server.status()["replicas"]
                seen.append([r["state"] == "ready" for r in replicas])
                return [r["incarnation"] for r in replicas] == [2, 2] and all(seen[-1])
            eventually(restarted, 60, "both replicas are restarted")
            self.assertFalse([ready for ready in seen if not any(ready)], "one replica serves at any time")
            self.assertTrue([ready for ready in seen if not all(ready)], "a replica was seen while it was away")
            for i, stream in enumerate(streams):
                stream.finish()
                self.assertIsNone(stream.error)
                self.assertEqual((stream.text, stream.done), (counted(100 + i, 180 + i), True))
            server.wait_idle()
            eventually(lambda: not [p for p in old if alive(p)], 10, "no process of before the signal is left")
            server.expect_family(4)
            self.assertEqual(server.process.poll(), None)

    def test_hangup_to_every_process_restarts_each_replica_once(self):
        with Server("--dp", 2, "--tp", 1) as server:
            for pid in [*descendants(server.pid), server.pid]:
                os.kill(pid, signal.SIGHUP)
            eventually(lambda: [r["incarnation"] for r in server.status()["replicas"]] == [2, 2], 60, "both are restarted")
            server.wait_idle()
            time.sleep(0.3)  # a further restart would have begun
            self.assertEqual([r["incarnation"] for r in server.status()["replicas"]], [2, 2])

    def test_hangups_while_it_is_under_way_wedge_nothing_under_load(self):
        with Server("--dp", 2, "--tp", 1, "--restart-intensity", "100/60s") as server:
            over, wrong, answered = threading.Event(), [], []

            def ask(first):
                while not over.is_set():
                    status, answer, _ = server.request("POST", "/v1/chat/completions",
                                                       server.chat_body(f"count from {first} to {first + 20}"))
                    if status != 200 or answer["choices"][0]["message"]["content"] != counted(first, first + 20):
                        wrong.append((status, answer))
                answered.append(first)
            clients = [threading.Thread(target=ask, args=(100 * i,)) for i in range(1, 4)]
            for client in clients:
                client.start()
            for _ in range(5):
                for _ in range(3):
                    server.process.send_signal(signal.SIGHUP)
                time.sleep(2)
            over.set()
            for client in clients:
                client.join(60)
            self.assertEqual((wrong, sorted(answered)), ([], [100, 200, 300]))
            eventually(lambda: server.status()["state"] == "serving", 60, "the rolling restarts are over")
            before = [r["incarnation"] for r in server.status()["replicas"]]
            self.assertGreaterEqual(min(before), 3, "the signals had an effect")
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: [r["incarnation"] for r in server.status()["replicas"]] == [n + 1 for n in before], 60, "one more each")
            server.wait_idle()


class Drained(unittest.TestCase):
    def test_with_every_replica_drained_requests_are_refused_at_once(self):
        with Server("--dp", 2, "--tp", 1) as server:
            running = server.stream("count from 100 to 180").wait_for_tokens(2)
            for replica in ("0", "1"):
                self.assertEqual(server.control("drain", replica).returncode, 0)
            began = time.monotonic()
            status, body, headers = server.request("POST", "/v1/completions", {"prompt": "count from 1 to 3", "max_tokens": 4})
            self.assertEqual(status, 503, body)
            self.assertIn("drained", str(body))
            self.assertIn("retry-after", {name.lower() for name in headers})
            self.assertLess(time.monotonic() - began, 10)
            for path in ("/ready", "/ping"):
                self.assertEqual(server.request("GET", path)[0], 503)
            running.finish()
            self.assertEqual((running.text, running.done, running.error), (counted(100, 180), True, None))
            self.assertEqual(server.control("resume", "1").returncode, 0)
            eventually(lambda: server.request("GET", "/ready")[0] == 200, 20, "a resumed replica serves")
            self.assertEqual(server.request("POST", "/v1/completions", {"prompt": "count from 1 to 3", "max_tokens": 4})[0], 200)


    def test_who_waits_for_a_command_sees_its_end(self):
        with Server("--dp", 1, "--tp", 1) as server:
            def state():
                return server.status()["replicas"][0]["state"]
            running = server.stream("count from 1 to 9", ignore_eos=True, max_tokens=3000).wait_for_tokens(2)
            early = server.control("drain", "0", "--wait", "--timeout", "0.3")
            self.assertEqual(early.returncode, 75, early.stderr)
            self.assertIn("replica 0 is draining, sequences left: 1", early.stderr)
            self.assertEqual(state(), "draining")
            leaving = threading.Timer(0.2, running.close)
            leaving.start()
            self.assertEqual(server.control("drain", "0", "--wait").returncode, 0)
            self.assertFalse(leaving.is_alive(), "the end of the stream is the end of the wait")
            self.assertEqual(state(), "drained")
            table = server.control("status").stdout
            self.assertRegex(table, r"  degraded  .*\n(?:.*\n)*  dp0 +drained ")
            self.assertEqual(server.control("resume", "0", "--wait").returncode, 0)
            self.assertEqual(state(), "ready")
            self.assertEqual(server.control("restart", "0", "--wait", "--timeout", "60").returncode, 0)
            replica = server.status()["replicas"][0]
            self.assertEqual((replica["state"], replica["incarnation"]), ("ready", 2))
            self.assertEqual(server.control("restart", "1", "--wait").returncode, 78, "there is no such replica")

    def test_one_drained_replica_of_two_is_a_degraded_server(self):
        with Server("--dp", 2, "--tp", 1) as server:
            self.assertEqual(server.control("drain", "1", "--wait").returncode, 0)
            self.assertEqual(server.status()["state"], "degraded")
            self.assertEqual(server.request("GET", "/ready")[0], 200)

    def test_what_was_accepted_goes_on_whatever_becomes_of_drained_replicas(self):
        def drain(server, replica):
            self.assertEqual(server.control("drain", str(replica)).returncode, 0)

        def restart(server, replica):
            self.assertEqual(server.control("restart", str(replica)).returncode, 0)

        def kill(server, replica):
            pid = server.replica_pid(replica)
            self.assertGreater(pid, 1)
            os.kill(pid, signal.SIGKILL)
        for dp, acts in ((1, (drain, restart)), (1, (restart, drain)), (1, (drain, kill)), (1, (kill, drain)), (2, (drain, restart)), (2, (drain, kill))):
            with self.subTest(dp=dp, acts=[act.__name__ for act in acts]), Server("--dp", dp, "--tp", 1) as server:
                running = [server.stream(f"count from {100 + i} to {180 + i}").wait_for_tokens(2) for i in range(3)]
                for act in acts:
                    for replica in range(dp):
                        act(server, replica)
                for i, stream in enumerate(running):
                    stream.finish()
                    self.assertEqual((stream.text, stream.done, stream.error), (counted(100 + i, 180 + i), True, None))
                eventually(lambda: {r["state"] for r in server.status()["replicas"]} == {"drained"}, 20, "they are drained as before")
                self.assertEqual(server.request("GET", "/ready")[0], 503)
                self.assertEqual(server.control("resume", "0").returncode, 0)
                eventually(lambda: server.request("GET", "/ready")[0] == 200, 20, "a resumed replica serves")

    def test_a_drain_is_not_over_while_what_was_accepted_waits_for_the_replica(self):
        with Server("--dp", 1, "--tp", 1) as server:
            running = server.stream("count from 1 to 9", ignore_eos=True, max_tokens=3000).wait_for_tokens(2)
            self.assertEqual(server.control("drain", "0").returncode, 0)
            os.kill(server.replica_pid(0), signal.SIGKILL)
            self.assertEqual(server.control("drain", "0", "--wait", "--timeout", "60").returncode, 0)
            self.assertEqual(server.status()["requests"], 0)
            running.finish()
            self.assertEqual((running.done, running.error), (True, None))

    def test_what_was_accepted_ends_behind_a_signal_as_well(self):
        with Server("--dp", 2, "--tp", 1) as server:
            running = server.stream("count from 100 to 180").wait_for_tokens(2)
            server.process.send_signal(signal.SIGTERM)
            for command in ("drain", "restart"):
                for replica in ("0", "1"):
                    self.assertEqual(server.control(command, replica).returncode, 0)
            running.finish()
            self.assertEqual((running.text, running.done, running.error), (counted(100, 180), True, None))
            self.assertEqual(server.process.wait(30), 0)


LONGEST_TOKEN = 377  # <|endoftext|>, in the built-in model


class Multiplied(unittest.TestCase):
    def test_what_a_body_multiplies_is_capped_by_name(self):
        with Server() as server:
            for fields, *words in (({"n": 128, "logprobs": 5}, "logprobs", "512"),
                                   ({"n": 129}, "n", "128"),
                                   ({"prompt": ["x"] * 129}, "prompt", "128"),
                                   ({"prompt": [LONGEST_TOKEN] * 3000, "n": 128, "echo": True}, "echo", str(4 << 20))):
                with self.subTest(words=words):
                    status, body = server.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, **fields})[:2]
                    self.assertEqual(status, 400, body)
                    for word in words:
                        self.assertIn(word, str(body))
            self.assertEqual(server.request("GET", "/ready")[0], 200)

    def test_many_choices_without_max_tokens_shut_nobody_out(self):
        with Server("--max-num-queued-tokens", 20000) as server:
            many = server.stream("count from 100 to 180", n=128).wait_for_tokens(1)
            status, body, _ = server.request("POST", "/v1/completions", {"prompt": "count from 1 to 3", "max_tokens": 4})
            self.assertEqual(status, 200, body)
            many.close()
            server.wait_idle()


def requests_at_once(port, requests):
    """The status of each, of connections that all are open and asked before any is read."""
    clients = []
    for request in requests:
        clients.append(socket.create_connection(("127.0.0.1", port), timeout=120))
        clients[-1].sendall(request)
    statuses = []
    for client in clients:
        with client, client.makefile("rb") as answer:
            statuses.append(int(answer.readline().split()[1]))
    return statuses


class Bursts(unittest.TestCase):
    def test_a_benchmark_that_sends_all_its_requests_at_once_gets_none_refused(self):
        """A thousand requests of 1,024 tokens that ask for 128, by the server's defaults."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)  # of this test
        with Server("--dp", 1, "--tp", 1, "--runner", "sim", "--sim-step-us", 1000, "--log-level", "warning") as server:
            one = "count from 1 to 30 "
            per_text = len(server.request("POST", "/tokenize", {"prompt": one * 10})[1]["tokens"]) / 10
            text = one * int(1024 / per_text)
            tokens = server.request("POST", "/tokenize", {"prompt": text})[1]["count"]
            self.assertTrue(1000 < tokens < 1050, tokens)

            def request(number):
                body = json.dumps({"prompt": f"{number} {text}", "max_tokens": 128, "ignore_eos": True}).encode()
                return (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                        b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)) + body
            statuses = requests_at_once(server.port, [request(number) for number in range(1000)])
            self.assertEqual([status for status in statuses if status != 200], [])


class Signals(unittest.TestCase):
    """What each signal does in the phases that a process alone can show; the table of them is a unit test's."""

    def test_the_same_end_told_twice_still_drains(self):
        with Server("--dp", 1, "--tp", 1) as server:
            stream = server.stream("count from 100 to 160").wait_for_tokens(4)
            for sign in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # as `timeout` does, within a millisecond
                server.process.send_signal(sign)
            stream.finish()
            self.assertIsNone(stream.error)
            self.assertEqual((stream.text, stream.done), (counted(100, 160), True))
            self.assertEqual(server.process.wait(30), 0)
            server.residue.check()

    def test_signals_that_a_shell_had_ignored_are_heard(self):
        """As of `phalanxd &` in a script, and under nohup."""
        def ignore():
            for sign in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(sign, signal.SIG_IGN)

        with Server("--dp", 1, "--tp", 1, before_exec=ignore) as server:
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: server.status()["replicas"][0]["incarnation"] == 2, 20, "it is restarted")
            eventually(lambda: server.status()["state"] == "serving", 20, "the rolling restart is over")
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(30), 0)

    def test_a_second_end_later_is_at_once(self):
        server = Server("--dp", 1, "--tp", 1, "--runner", "sim", "--sim-step-us", 200000)
        try:
            stream = server.stream("count", max_tokens=400, ignore_eos=True).wait_for_tokens(2)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(1.2)
            self.assertIsNone(server.process.poll(), "it drains")
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(10), 128 + signal.SIGINT)
            stream.close()
            server.residue.check()
        finally:
            server.__exit__(None, None, None)

    def end_under_signals(self, server):
        """From the first SIGTERM until the server is gone: all of them, again and again."""
        insists = time.monotonic() + 0.7  # a second SIGTERM or SIGINT later than a second ends it at once
        while server.process.poll() is None:
            signs = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) if time.monotonic() < insists else (signal.SIGHUP,)
            for sign in signs:
                server.process.send_signal(sign)
            self.assertLess(time.monotonic(), insists + 30)
            time.sleep(0.001)
        self.assertEqual(server.process.returncode, 0, server.log_text()[-2000:])
        server.residue.check()

    def test_no_signal_ends_a_server_that_is_ending(self):
        for _ in range(4):
            with Server("--dp", 2, "--tp", 1) as server:
                self.end_under_signals(server)

    def test_no_signal_ends_a_server_whose_last_stream_is_ending(self):
        with Server("--dp", 1, "--tp", 1) as server:
            stream = server.stream("count from 100 to 120").wait_for_tokens(4)
            reader = threading.Thread(target=stream.finish)
            reader.start()
            self.end_under_signals(server)
            reader.join(30)
            self.assertEqual((stream.text, stream.done, stream.error), (counted(100, 120), True, None))

    def end_a_start(self, moment, *arguments, send=subprocess.Popen.terminate):
        """A signal when `moment` of the leader's pid has passed: it ends at once, and leaves nothing."""
        residue = Residue()
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen([os.path.join(BIN, "phalanxd"), "--model", TINY, "--port", "0", *arguments],
                                       stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
            try:
                moment(process.pid)
                family = descendants(process.pid)
                send(process)
                status = process.wait(3)
                log.seek(0)
                self.assertEqual(status, 0, log.read())
            finally:
                process.kill()
                process.wait(30)
        eventually(lambda: not [pid for pid in family if alive(pid)], 2, "no descendant outlives the leader")
        residue.check()

    def end_starts(self, moments, **how):
        for milliseconds in moments:
            def passed(pid, seconds=milliseconds / 1000):
                deadline = time.monotonic() + 20
                while not descendants(pid) and time.monotonic() < deadline:
                    pass  # the moments are to begin with that of its first child, the planner
                time.sleep(seconds)
            with self.subTest(milliseconds=milliseconds):
                self.end_a_start(passed, **how)

    def test_an_end_at_any_moment_of_the_start_is_at_once(self):
        self.end_starts(range(0, 120, 2))

    def test_an_end_of_the_whole_group_at_any_moment_of_the_start_is_one(self):
        def interrupt_group(process):
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
        self.end_starts(range(0, 60), send=interrupt_group)

    def test_an_end_before_a_replica_says_a_word_is_at_once(self):
        def there(pid):
            def sleeps():
                return any(b"sleep" in command_line(child) for child in descendants(pid))
            eventually(sleeps, 20, "the replica's command runs")
        self.end_a_start(there, "--worker-wrapper", "replica=sh -c 'sleep 20; exec \"$@\"' --")

    def test_a_hangup_before_it_serves_is_ignored(self):
        process = subprocess.Popen([os.path.join(BIN, "phalanxd"), "--model", TINY, "--port", "0", "--dp", "2"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        lines, ready = [], threading.Event()

        def read():
            for line in process.stdout:
                if line.startswith("ready "):
                    ready.set()
        lines.append(process.stderr.readline())  # the summary: main() has begun
        readers = [threading.Thread(target=read), threading.Thread(target=lambda: lines.extend(process.stderr))]
        for reader in readers:
            reader.start()
        try:
            deadline = time.monotonic() + 60
            while not ready.is_set() and process.poll() is None and time.monotonic() < deadline:
                os.killpg(process.pid, signal.SIGHUP)  # also to children that have just begun
                time.sleep(0.002)
            self.assertTrue(ready.is_set(), "".join(lines))
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(30), 0)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(30)
            for reader in readers:
                reader.join(10)
            process.stdout.close()
            process.stderr.close()
        self.assertIn("signal_without_effect", "".join(lines))


@unittest.skipUnless(has_ipv6_loopback(), "this machine has no ::1")
class Ipv6(unittest.TestCase):
    def load(self, url, *arguments):
        return subprocess.run([os.path.join(BIN, "phalanx-load"), "--base-url", url, "--num-prompts", "3", "--random-input-len", "8",
                               "--random-output-len", "4", "--no-progress", *arguments], capture_output=True, text=True, timeout=60)

    def test_serves_and_loads_over_ipv6(self):
        with Server("--host", "::1") as server:
            url = next(line.split()[1] for line in server.output if line.startswith("ready "))
            self.assertEqual(url, f"http://[::1]:{server.port}")
            result = self.load(url)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_host_field_has_brackets(self):
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
            port = listener.getsockname()[1]
            heads = []

            def answer():
                connection, _ = listener.accept()
                with connection:
                    heads.append(connection.recv(4096).decode())
            thread = threading.Thread(target=answer)
            thread.start()
            self.load(f"http://[::1]:{port}", "--model", "any", "--request-timeout", "2")
            thread.join(10)
        self.assertIn(f"\r\nhost: [::1]:{port}\r\n", heads[0].lower())


class Settings(unittest.TestCase):
    def file_of(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".toml", prefix="settings-")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def test_command_line_wins_over_environment_over_file(self):
        path = self.file_of('data-parallel-size = 2\nmax_num_seqs = 3\nserved-model-name = "from-file"\nlog-level = "debug"\n')
        with Server("--config", path, "--max-num-seqs", 5,
                    environment={"PHALANX_SERVED_MODEL_NAME": "from-environment", "PHALANX_MAX_NUM_SEQS": "4"}) as server:
            self.assertEqual(len(server.status()["replicas"]), 2)
            self.assertEqual(server.request("GET", "/v1/models")[1]["data"][0]["id"], "from-environment")
            log = server.log_text()
            self.assertIn(" 5 sequences and ", log)
            self.assertIn(" debug ", log)

    def test_a_bad_file_is_refused_by_line_or_key(self):
        for text, *words in (("port = \n", "line 1"), ("max-num-sequences = 4\n", "max-num-sequences", "settings-"),
                             ("max-num-seqs = 0\n", "max-num-seqs", "4096"), ("pipeline-parallel-size = 2\n", "not supported")):
            with self.subTest(text=text):
                status, output, _ = start("--config", self.file_of(text))
                self.assertEqual(status, 64, output)
                for word in words:
                    self.assertIn(word, output.splitlines()[-1])

    def test_a_missing_file_is_refused(self):
        status, output, _ = start("--config", "/nonexistent.toml")
        self.assertEqual(status, 66, output)
        self.assertIn("/nonexistent.toml", output.splitlines()[-1])


if __name__ == "__main__":
    main()

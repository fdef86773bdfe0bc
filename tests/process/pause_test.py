# SPDX-License-Identifier: Apache-2.0
"""The whole server, or its leader, is stopped for longer than its limits are, as by Ctrl-Z, a paused container or a debugger: what
was under way goes on when it does.

usage: pause_test.py [--long]   --long or PHALANX_TEST_LONG=1: also the limits that are tens of seconds.
"""
import os
import random
import signal
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trial_settings  # noqa: E402
from phalanx_server import Server, Stream, descendants, eventually, main  # noqa: E402

_, IS_LONG, _ = trial_settings.read(1, 2)
START_TIMEOUT = 3
REQUEST_SECONDS = 10  # from the first byte of a request to the end of its header; an idle connection has longer
CLIENTS = 240  # more than the loop hears of at once
SHUTDOWN_TIMEOUT = 4
SERVED_SECONDS = 60  # how long connections wait for a front, and requests for a replica


def stop_for(group, seconds, meanwhile=lambda: None):
    os.killpg(group, signal.SIGTSTP)
    time.sleep(seconds / 2)
    meanwhile()
    time.sleep(seconds / 2)
    os.killpg(group, signal.SIGCONT)


class Request:
    """One that is begun now and completed later."""

    def __init__(self, server, begun):
        body = b'{"model": "phalanx-tiny", "prompt": "count", "max_tokens": 2}'
        whole = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        cut = begun(whole)
        self.socket.sendall(whole[:cut])
        self.rest = whole[cut:]

    def complete(self):
        self.socket.sendall(self.rest)

    def status(self):
        with self.socket:
            try:
                answer = b"".join(iter(lambda: self.socket.recv(65536), b""))
            except OSError as error:
                return repr(error)
        return answer.split(b" ")[1].decode() if answer else "nothing"


class Pause(unittest.TestCase):
    def test_a_start_goes_on(self):
        def stop_soon(pid):
            time.sleep(random.uniform(0.01, 0.1))
            stop_for(pid, START_TIMEOUT + 0.5)
        with Server("--dp", 2, "--tp", 2, "--start-timeout", START_TIMEOUT, before_exec=os.setpgrp, on_start=stop_soon) as server:
            self.assertEqual([replica["restarts"] for replica in server.status()["replicas"]], [0, 0])
            self.assertEqual(server.chat("count from 1 to 3")["choices"][0]["finish_reason"], "stop")

    def test_a_shutdown_goes_on(self):
        with Server("--runner", "sim", "--sim-step-us", 20000, "--shutdown-timeout", SHUTDOWN_TIMEOUT,
                    before_exec=os.setpgrp) as server:
            stream = server.stream("count", max_tokens=60, ignore_eos=True).wait_for_tokens(2)
            server.process.send_signal(signal.SIGTERM)
            eventually(lambda: " drain " in server.log_text(), 10, "it drains")
            stop_for(server.pid, SHUTDOWN_TIMEOUT + 1)
            stream.finish()
            self.assertEqual((stream.error, stream.done), (None, True))
            self.assertEqual(server.process.wait(30), 0)

    @unittest.skipUnless(IS_LONG, "takes a quarter of a minute")
    def test_requests_that_came_meanwhile_are_answered(self):
        with Server("--tp", 2, before_exec=os.setpgrp) as server:
            kinds = [lambda whole: 0, lambda whole: 30, lambda whole: len(whole) - 10]
            requests = [Request(server, kinds[i % len(kinds)]) for i in range(CLIENTS)]
            time.sleep(0.3)  # what has been sent is heard
            stop_for(server.pid, REQUEST_SECONDS + 2, lambda: [request.complete() for request in requests])
            self.assertEqual({request.status() for request in requests}, {"200"})

    def leader_stopped_without(self, pids_of):
        with Server() as server:
            expected = Stream(server, *self.body(server)).finish()
            streams = [Stream(server, *self.body(server)).wait_for_tokens(3) for _ in range(3)]
            for pid in pids_of(server):
                os.kill(pid, signal.SIGKILL)
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(SERVED_SECONDS + 6)
            os.kill(server.pid, signal.SIGCONT)
            for stream in streams:
                stream.finish()
                self.assertEqual((stream.error, stream.done, stream.text), (None, True, expected.text))

    def body(self, server):
        return "/v1/chat/completions", server.chat_body("count from 100 to 190", stream=True, ignore_eos=True, max_tokens=1500)

    @unittest.skipUnless(IS_LONG, "takes more than a minute")
    def test_fronts_that_died_before_the_leader_was_stopped(self):
        self.leader_stopped_without(lambda server: server.front_pids())

    @unittest.skipUnless(IS_LONG, "takes more than a minute")
    def test_a_replica_that_died_before_the_leader_was_stopped(self):
        self.leader_stopped_without(lambda server: [server.replica_pid(0)])


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Limits of the process (ulimit): each start either serves or ends with one clear line and a documented status, never by a
signal; and a server with few descriptors answers beyond them instead of standing still."""
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, Server, eventually, main  # noqa: E402

MIB = 1 << 20
NOBODY = 65534


def limited(limits, user=None):
    """What a child does before exec. Descriptors last: what comes before may need some."""
    def apply():
        if user is not None:
            os.setgroups([])
            os.setgid(user)
        for kind, value in limits.items():
            resource.setrlimit(kind, (value, value))
        if user is not None:
            os.setuid(user)
    return apply


def generate(limits, user=None):
    """(status, output) of a server that answers one prompt and ends."""
    residue = Residue()
    result = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", TINY, "--prompt", "count from 1 to 3"], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100,
                            preexec_fn=limited(limits, user))
    residue.check()
    return result.returncode, result.stdout


class Limits(unittest.TestCase):
    def expect_clear_end(self, outcome, what, words, statuses=(75,)):
        status, output = outcome
        lines = [line for line in output.splitlines() if line]
        self.assertTrue(lines, what)
        if status == 127:  # the dynamic linker, before the first line of the program
            self.assertIn("error while loading shared libraries", lines[-1], what)
            return
        self.assertIn(status, statuses, f"{what}: {output}")
        self.assertTrue(lines[-1].startswith("phalanxd: "), f"{what}: {output}")
        for word in words:
            self.assertIn(word, lines[-1], what)

    def test_few_open_files(self):
        for count in (4, 5, 7, 10, 13, 16, 20, 24, 30, 37, 45, 54, 64):
            outcome = generate({resource.RLIMIT_NOFILE: count})
            self.expect_clear_end(outcome, f"-n {count}", [f"{count} open files", "ulimit -n"])

    def test_little_address_space(self):
        for mib in (30, 60, 90, 150, 300, 600, 1000):
            self.expect_clear_end(generate({resource.RLIMIT_AS: mib * MIB}), f"-v {mib} MiB", ["ulimit -v"])

    def test_little_stack(self):
        for kib in (128, 256, 512, 1024, 2047):
            self.expect_clear_end(generate({resource.RLIMIT_STACK: kib << 10}), f"-s {kib}", ["of stack", "ulimit -s"])

    def test_small_files(self):
        for size in (0, 4096):
            self.expect_clear_end(generate({resource.RLIMIT_FSIZE: size}), f"-f {size}", ["ulimit -f"])

    @unittest.skipUnless(os.geteuid() == 0, "only root may become a user without other processes")
    def test_few_processes(self):
        try:
            probe = subprocess.run([os.path.join(BIN, "phalanxd"), "--version"], preexec_fn=limited({}, NOBODY), timeout=60,
                                   stdout=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError):
            self.skipTest("this tree cannot be read by others")
        self.assertEqual(probe.returncode, 0)
        for count in (1, 2, 3, 4, 5, 7):
            self.expect_clear_end(generate({resource.RLIMIT_NPROC: count}, NOBODY), f"-u {count}", [], statuses=(69, 75))

    def test_enough_of_everything_serves(self):
        status, output = generate({resource.RLIMIT_NOFILE: 128, resource.RLIMIT_STACK: 2 * MIB})
        self.assertEqual(status, 0, output)
        self.assertIn("1 2 3", output)


class FewDescriptors(unittest.TestCase):
    LIMIT = 380  # the processes of a server need 112 of them, and clients that are refused 256

    def test_connections_beyond_are_refused_and_nobody_waits(self):
        with Server(before_exec=limited({resource.RLIMIT_NOFILE: self.LIMIT})) as server:
            log = server.log_text()
            self.assertIn("max_connections_lowered asked=4096", log)
            most = int(log.split("max_connections_lowered", 1)[1].split("max_connections=", 1)[1].split()[0])
            self.assertLess(most, self.LIMIT)
            held = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(most)]
            try:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                connection.request("GET", "/live")
                self.assertEqual(connection.getresponse().status, 503)
                connection.close()
            finally:
                for one in held:
                    one.close()
            self.assertIn("1 2 3", server.chat("count from 1 to 3")["choices"][0]["message"]["content"])

    def test_clients_that_are_refused_take_none_that_a_front_needs(self):
        with Server(before_exec=limited({resource.RLIMIT_NOFILE: self.LIMIT})) as server:
            eventually(lambda: [front["state"] for front in server.status()["fronts"]] == ["ready", "ready"], 10, "the spare front is ready")
            most = int(server.log_text().split("max_connections=", 1)[1].split()[0])
            pid = next(front["pid"] for front in server.status()["fronts"] if front["active"])
            held = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(most + 256)]
            try:
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.3)
                held[0].sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b" 200 ", held[0].recv(100))
                log = server.log_text()
                self.assertEqual(log.count("front_died"), 1, log)
                for word in ("cannot_accept", "not_started"):
                    self.assertNotIn(word, log)
            finally:
                for one in held:
                    one.close()


if __name__ == "__main__":
    main()

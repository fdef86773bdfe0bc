# SPDX-License-Identifier: Apache-2.0
"""Programs whose standard input, output or error is closed, full, or read by nobody."""
import array
import fcntl
import http.client
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, eventually, main  # noqa: E402

PHALANXD = os.path.join(BIN, "phalanxd")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


class StandardFiles(unittest.TestCase):
    def setUp(self):
        self.residue = Residue()

    def tearDown(self):
        self.residue.check()

    def serve(self, **how):
        """Starts a server so, and ends it when it answers."""
        port = free_port()
        server = subprocess.Popen([PHALANXD, "--model", TINY, "--tp", "2", "--port", str(port)],
                                  **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **how})
        try:
            eventually(lambda: answers(port) or server.poll() is not None, 30, "it answers")
            self.assertIsNone(server.poll(), "it serves")
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(20), 0)
        finally:
            server.kill()
            server.wait()

    def test_closed_ones(self):
        """What is opened next would have their numbers, and get what is said: the weights, too."""
        for closed in ((0,), (1,), (2,), (0, 1, 2)):
            self.serve(preexec_fn=lambda closed=closed: [os.close(fd) for fd in closed])

    def test_a_full_pipe_that_nobody_reads(self):
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            while True:
                os.write(writing, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(writing, True)
        try:
            self.serve(stdout=writing)
        finally:
            os.close(reading)
            os.close(writing)

    def test_a_terminal_that_nobody_reads(self):
        """It says that it takes something, and then waits for room for all of it."""
        terminal, writing = pty.openpty()
        prompts = [word for _ in range(80) for word in ("--prompt", "count from 100 to 400")]
        with os.fdopen(writing, "w") as output, tempfile.TemporaryFile("w+") as log:
            server = subprocess.Popen([PHALANXD, "--model", TINY, "--max-tokens", "900", *prompts], stdout=output, stderr=log)
        try:
            queued = array.array("i", [0])

            def is_full():
                before = queued[0]
                time.sleep(1)
                fcntl.ioctl(terminal, termios.FIONREAD, queued)
                return queued[0] == before and before > 4000

            eventually(is_full, 60, "the terminal takes no more")
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(20), 128 + signal.SIGTERM)
        finally:
            server.kill()
            server.wait()
            os.close(terminal)

    def test_a_pipe_whose_writes_do_not_wait(self):
        for command in ((PHALANXD, "--help"), (PHALANXD, "--model", TINY, *["--prompt", "count from 100 to 200"] * 20)):
            reading, writing = os.pipe()
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
            os.set_blocking(writing, False)
            with os.fdopen(writing, "w") as output:
                program = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
            with os.fdopen(reading) as given:
                time.sleep(2)
                text = given.read()
            self.assertEqual(program.wait(60), 0, command)
            self.assertGreater(len(text), 7000, command)

    def test_output_that_cannot_be_written_is_no_success(self):
        for target in ("/dev/full", None):
            reading, writing = os.pipe()
            os.close(reading)
            with open(target, "w") if target else os.fdopen(writing, "w") as output:
                result = subprocess.run([PHALANXD, "--model", TINY, "--prompt", "hi"], stdout=output, stderr=subprocess.PIPE, text=True,
                                        timeout=60)
            self.assertEqual(result.returncode, 75, target)
            self.assertIn("standard output cannot be written", result.stderr)

    def test_help_that_cannot_be_written_is_no_success(self):
        for program in ("phalanxd", "phalanxctl", "phalanx-load"):
            for option in ("--help", "--version"):
                with open("/dev/full", "w") as output:
                    result = subprocess.run([os.path.join(BIN, program), option], stdout=output, stderr=subprocess.PIPE, text=True,
                                            timeout=60)
                self.assertEqual(result.returncode, 75, (program, option))
                self.assertIn(f"{program}: standard output cannot be written", result.stderr)

    def test_a_closed_output_takes_nothing(self):
        """What is opened in its place must not swallow what was asked for."""
        for command in ((PHALANXD, "--model", TINY, "--prompt", "hi"), *((os.path.join(BIN, program), "--help")
                        for program in ("phalanxd", "phalanxctl", "phalanx-load")), (os.path.join(BIN, "phalanxctl"), "inspect", TINY)):
            result = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, preexec_fn=lambda: os.close(1))
            self.assertEqual(result.returncode, 75, command)
            self.assertIn("standard output cannot be written", result.stderr)

    def test_a_server_that_cannot_say_that_it_is_ready_says_so(self):
        with open("/dev/full", "w") as full, tempfile.TemporaryFile("w+") as log:
            self.serve(stdout=full, stderr=log)
            log.seek(0)
            self.assertIn("ready_not_written", log.read())

    def test_prompts_that_are_given_up(self):
        for sign in (signal.SIGTERM, signal.SIGINT):
            server = subprocess.Popen([PHALANXD, "--model", TINY, "--runner", "sim", "--sim-step-us", "50000", "--max-tokens", "500",
                                       "--prompt", "hi"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(1.5)
            server.send_signal(sign)
            output, _ = server.communicate(timeout=20)
            self.assertEqual((server.returncode, output), (128 + sign, b""))

    def test_prompts_that_are_given_up_while_the_server_starts(self):
        for child in ("loader", "replica"):
            server = subprocess.Popen([PHALANXD, "--model", TINY, "--worker-wrapper", f"{child}=sh -c 'sleep 20; exec \"$@\"' --", "--prompt", "hi"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(1)
            server.send_signal(signal.SIGTERM)
            output, _ = server.communicate(timeout=20)
            self.assertEqual((server.returncode, output), (128 + signal.SIGTERM, b""), child)


if __name__ == "__main__":
    main()

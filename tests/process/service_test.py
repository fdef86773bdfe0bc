# SPDX-License-Identifier: Apache-2.0
"""A server as a service of systemd: what the unit of deploy/ asks for, what the manager is told, what the journal gets."""
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, ROOT, TINY, Residue, Stream, descendants, main  # noqa: E402
from sandbox_test import SCHED_SETAFFINITY, forbid  # noqa: E402

UNIT = os.path.join(ROOT, "deploy", "systemd", "phalanxd.service")


def unit_text():
    with open(UNIT) as file:
        return file.read()


def unit_settings():
    """The assignments of the unit: (section, key) -> value."""
    found, section = {}, None
    for line in unit_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            assert (section, key) not in found, f"{key} is set twice"
            found[section, key] = value
    return found


class Unit(unittest.TestCase):
    def expect(self, section, key, value):
        self.assertEqual(unit_settings().get((section, key)), value, key)

    def test_systemd_understands_it(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "phalanxd.service")
            with open(path, "w") as file:
                file.write(unit_text().replace("/opt/phalanx/bin", BIN))
            result = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60)
        said = [line for line in result.stderr.splitlines() if "phalanxd.service" in line]
        self.assertEqual((result.returncode, said), (0, []))

    def test_a_rank_without_memory_does_not_end_the_service(self):
        self.expect("Service", "OOMPolicy", "continue")

    def test_what_passes_is_tried_again_and_what_stays_is_not(self):
        self.expect("Unit", "StartLimitIntervalSec", "0")
        self.expect("Service", "RestartSec", "5")
        self.expect("Service", "RestartPreventExitStatus", "64 65 66")

    def test_it_has_started_when_the_server_says_so(self):
        self.expect("Service", "Type", "notify")
        self.expect("Service", "TimeoutStartSec", "infinity")


class Manager:
    """What systemd is to a service: a socket, and a server that is told its name."""

    def __init__(self, *arguments):
        self.residue = Residue()
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(60)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.process = subprocess.Popen([os.path.join(BIN, "phalanxd"), TINY, "--port", str(self.port), *arguments],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "NOTIFY_SOCKET": path})
        self.told = []

    def wait_for(self, assignment):
        """Until the manager is told so; what it is told then."""
        while True:
            self.told.append(self.socket.recv(4096).decode().split("\n"))
            if assignment in self.told[-1]:
                return self.told[-1]

    def end(self, status):
        assert self.process.wait(30) == status
        self.socket.setblocking(False)
        while True:
            try:
                self.told.append(self.socket.recv(4096).decode().split("\n"))
            except BlockingIOError:
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.socket.close()
        self.folder.cleanup()
        self.residue.check()


class Notice(unittest.TestCase):
    def test_ready_is_told_when_it_is_and_the_end_when_it_begins(self):
        with Manager("--tp", "2") as manager:
            self.assertEqual(manager.wait_for("READY=1"), ["READY=1", "STATUS=ready"])
            connection = http.client.HTTPConnection("127.0.0.1", manager.port, timeout=10)
            connection.request("GET", "/ready")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            self.assertEqual(manager.told[:-1], [["STATUS=loading the weights"], ["STATUS=starting the replicas"]])
            for pid in descendants(manager.process.pid):
                with open(f"/proc/{pid}/environ") as file:
                    self.assertNotIn("NOTIFY_SOCKET", file.read(), "no child speaks for the service")
            stream = Stream(manager, "/v1/completions", {"prompt": "count", "max_tokens": 300, "ignore_eos": True, "stream": True})
            stream.wait_for_tokens(2)
            manager.process.send_signal(signal.SIGTERM)
            self.assertEqual(manager.wait_for("STOPPING=1"), ["STOPPING=1", "STATUS=draining"])
            self.assertIsNone(stream.finish().error)
            manager.end(0)
            self.assertEqual(len(manager.told), 4, manager.told)

    def test_an_end_of_a_start_is_no_readiness(self):
        with Manager("--max-model-len", "5000") as manager:
            manager.end(64)
            self.assertEqual(manager.told, [])


class Journal(unittest.TestCase):
    def lines_of(self, *arguments, before_exec=None):
        """(exit status, lines) of phalanxd whose standard error is the journal, as systemd says it."""
        residue = Residue()
        ours, journal = socket.socketpair()
        with ours, journal:
            file = os.fstat(journal.fileno())
            process = subprocess.Popen([os.path.join(BIN, "phalanxd"), TINY, *arguments], stdout=subprocess.DEVNULL, stderr=journal,
                                       preexec_fn=before_exec,
                                       env={**os.environ, "JOURNAL_STREAM": f"{file.st_dev}:{file.st_ino}"})
            journal.close()
            with ours.makefile() as reader:
                lines = reader.read().splitlines()
            status = process.wait(30)
        residue.check()
        return status, lines

    def test_lines_of_every_process_have_their_level(self):
        status, lines = self.lines_of("--prompt", "count from 1 to 3", "--log-level", "trace",
                                      before_exec=forbid(SCHED_SETAFFINITY))  # so that the rank has something to say
        self.assertEqual(status, 0, lines)
        self.assertEqual([line for line in lines if not re.match("<[3467]>", line)], [])
        roles = set()
        for line in lines:
            event = re.match(r"<(\d)>\d{4}-\S+Z (\w+) role=(\w+) ", line)
            if event:
                self.assertEqual(event[1], {"error": "3", "warning": "4", "info": "6", "debug": "7", "trace": "7"}[event[2]], line)
                roles.add(event[3])
        self.assertLessEqual({"leader", "loader", "replica"}, roles)
        if len(os.sched_getaffinity(0)) > 1:  # else it would not be pinned anyway
            self.assertIn("rank", roles)
        self.assertIn("<6>  topology ", "\n".join(lines))

    def test_the_last_word_of_a_failed_start_is_an_error(self):
        status, lines = self.lines_of("--max-model-len", "5000")
        self.assertEqual(status, 64)
        self.assertRegex(lines[-1], "^<3>phalanxd: ")


if __name__ == "__main__":
    main()

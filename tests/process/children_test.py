# SPDX-License-Identifier: Apache-2.0
"""What the processes of a server are given: no environment, no core dumps, no way to more rights, no foreign descriptors."""
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Server, descendants, main  # noqa: E402

SECRETS = {"SOME_SERVICE_TOKEN": "not for children", "PHALANX_MAX_NUM_SEQS": "8", "MALLOC_ARENA_MAX": "2", "JOURNAL_STREAM": "8:12"}
PASSED_ON = {"LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "JOURNAL_STREAM", "MALLOC_ARENA_MAX",
             "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}


def read(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()


def variables(pid):
    return {setting.split("=", 1)[0] for setting in read(pid, "environ").split("\0") if setting}


def core_limit(pid):
    line = next(line for line in read(pid, "limits").splitlines() if line.startswith("Max core file size"))
    return line.split()[4]


def no_new_privileges(pid):
    return next(line.split()[1] for line in read(pid, "status").splitlines() if line.startswith("NoNewPrivs:"))


class Given(unittest.TestCase):
    def setUp(self):
        self.hard = resource.getrlimit(resource.RLIMIT_CORE)[1]

    def allow_cores(self):
        resource.setrlimit(resource.RLIMIT_CORE, (self.hard, self.hard))

    def expect_hardened(self, pid):
        self.assertEqual(no_new_privileges(pid), "1")
        self.assertEqual(core_limit(pid), "0" if self.hard == 0 else "1")

    def test_fronts_replicas_and_ranks(self):
        with Server("--dp", 2, "--tp", 2, environment=SECRETS, before_exec=self.allow_cores) as server:
            self.expect_hardened(server.pid)
            children = descendants(server.pid)
            self.assertEqual(len(children), 8)
            for pid in children:
                with self.subTest(title=read(pid, "cmdline")):
                    self.assertLessEqual(variables(pid), PASSED_ON)
                    self.assertLessEqual({"MALLOC_ARENA_MAX", "JOURNAL_STREAM"}, variables(pid))
                    self.expect_hardened(pid)

    def test_the_loader(self):
        for _ in range(20):
            if self.saw_the_loader():
                return
        self.fail("the loader was never caught while it lived")

    def saw_the_loader(self):
        with tempfile.TemporaryFile() as log, subprocess.Popen(
                [os.path.join(BIN, "phalanxd"), "--model", TINY, "--port", "0"], stdout=log, stderr=log,
                env={**os.environ, **SECRETS}, preexec_fn=self.allow_cores) as server:
            try:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline and server.poll() is None:
                    for pid in descendants(server.pid):
                        if "front" in read(pid, "cmdline"):
                            continue  # one that is stopped is killed
                        os.kill(pid, signal.SIGSTOP)
                        title = read(pid, "cmdline")
                        if "loader" in title:
                            self.assertLessEqual(variables(pid), PASSED_ON)
                            self.expect_hardened(pid)
                            os.kill(pid, signal.SIGKILL)  # stopped before it watches its parent, it would stay
                            return True
                        if "replica" in title or "rank" in title:
                            return False
                        os.kill(pid, signal.SIGCONT)  # between fork and exec
                return False
            except (ProcessLookupError, FileNotFoundError):
                return False
            finally:
                server.kill()

    def test_every_descriptor_is_closed_by_another_program(self):
        """Of leader, fronts, replicas and ranks, while a client and an operator are there."""
        with Server("--tp", 2, "--log-level", "error") as server:
            stream = server.stream("count from 1 to 300").wait_for_tokens(3)
            with socket.socket(socket.AF_UNIX) as operator:
                operator.connect(f"\0phalanx-admin-{os.getuid()}-{server.port}")
                time.sleep(0.1)
                seen = 0
                for pid in [server.pid, *descendants(server.pid)]:
                    for fd in os.listdir(f"/proc/{pid}/fd"):
                        try:
                            flags = next(line for line in read(pid, f"fdinfo/{fd}").splitlines() if line.startswith("flags:"))
                            target = os.readlink(f"/proc/{pid}/fd/{fd}")
                        except FileNotFoundError:
                            continue  # closed meanwhile
                        if int(fd) > 2:
                            seen += 1
                            self.assertTrue(int(flags.split()[1], 8) & os.O_CLOEXEC, f"{read(pid, 'cmdline')[:30]}: {fd} is {target}")
                self.assertGreater(seen, 50)
            stream.close()

    def test_core_dumps_when_asked_for(self):
        with Server("--tp", 2, "--core-dumps", before_exec=self.allow_cores) as server:
            allowed = "unlimited" if self.hard == resource.RLIM_INFINITY else str(self.hard)
            for pid in [server.pid, *descendants(server.pid)]:
                self.assertEqual(core_limit(pid), allowed)


if __name__ == "__main__":
    main()

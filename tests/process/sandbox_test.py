# SPDX-License-Identifier: Apache-2.0
"""Where a container forbids system calls, or has processes of others in it, the server serves or says what it lacks."""
import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, Server, counted, descendants, main  # noqa: E402

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
SCHED_SETSCHEDULER, SCHED_SETAFFINITY = 144, 203  # of x86-64
EPERM = 1


def forbid(*calls):
    """What a child runs before its program: from then on these system calls fail with EPERM, as under a filter of systemd."""
    load, equal, answer = 0x20, 0x15, 0x06  # BPF: the number of the call; is it this one; what becomes of it
    program = [(load, 0, 0, 0)]
    for call in calls:
        program += [(equal, 0, 1, call), (answer, 0, 0, 0x00050000 | EPERM)]
    program.append((answer, 0, 0, 0x7fff0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        for option, value, argument in ((PR_SET_NO_NEW_PRIVS, 1, 0), (PR_SET_SECCOMP, FILTER, ctypes.addressof(header))):
            if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(argument), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
                os._exit(99)
    install.memory = (code, header)
    return install


def name_of(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


class Sandbox(unittest.TestCase):
    def ask(self, server):
        self.assertEqual(server.chat("count from 3 to 5")["choices"][0]["message"]["content"], counted(3, 5))

    def test_ranks_that_may_not_be_pinned_run_where_they_may(self):
        with Server("--tp", "2", before_exec=forbid(SCHED_SETAFFINITY)) as server:
            self.ask(server)
            if len(os.sched_getaffinity(0)) > 1:  # else none would be pinned anyway
                self.assertEqual(server.log_text().count(" rank_not_pinned "), 2)

    def test_what_zeromq_would_abort_for_is_said(self):
        residue = Residue()
        outcome = subprocess.run([os.path.join(BIN, "phalanxd"), "--model", TINY, "--port", "0"], capture_output=True, text=True,
                                 timeout=60, preexec_fn=forbid(SCHED_SETSCHEDULER))
        residue.check()
        self.assertEqual(outcome.returncode, 78, outcome.stderr)
        self.assertIn("phalanxd: ZeroMQ's threads must be allowed", outcome.stderr)

    def test_a_helper_that_was_here_before_delays_no_restart(self):
        def with_helper():
            if os.fork() == 0:  # of the process that becomes the server
                os.execvp("sleep", ["sleep", "300"])

        with Server("--dp", "1", "--tp", "1", before_exec=with_helper) as server:
            helper, = [pid for pid in descendants(server.pid) if name_of(pid) == "sleep"]
            try:
                time.sleep(2.2)  # until it is known to be no rank
                for _ in range(2):
                    os.kill(server.replica_pid(0), signal.SIGKILL)
                    self.ask(server)
                self.assertNotIn("orphan_remains", server.log_text())
            finally:
                os.kill(helper, signal.SIGKILL)


if __name__ == "__main__":
    main()

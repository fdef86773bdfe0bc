# SPDX-License-Identifier: Apache-2.0
"""The process that reads a model's files for the leader: its end by whatever cause is an error in one line, and nothing is left."""
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, ROOT, TINY, Residue, Server, alive, counted, descendants, eventually, main  # noqa: E402


def title(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class WhileItReads(unittest.TestCase):
    """A lease on a file of the model, which is not given back while the test lasts, keeps a planner opening it."""

    def setUp(self):
        self.residue = Residue()
        self.folder = tempfile.TemporaryDirectory()
        self.model = shutil.copytree(TINY, os.path.join(self.folder.name, "model"))
        self.leased = os.open(os.path.join(self.model, "tokenizer.json"), os.O_RDWR)
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # says that somebody opens the file
        self.addCleanup(signal.signal, signal.SIGIO, before)
        fcntl.fcntl(self.leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)

    def tearDown(self):
        os.close(self.leased)
        self.folder.cleanup()
        self.residue.check()

    def start(self, *arguments):
        doors = [] if "--prompt" in arguments else ["--port", "0"]
        process = subprocess.Popen([os.path.join(BIN, "phalanxd"), "--model", self.model, *doors, *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)

        def reading():
            return next((pid for pid in descendants(process.pid) if title(pid) == "phalanxd: planner"), None)
        return process, eventually(reading, 20, "the planner is there")

    def end(self, process, planner, seconds=20):
        output = process.communicate(timeout=seconds)[0]
        self.assertFalse(alive(planner), output)
        return process.returncode, output

    def expect(self, ended, status, cause):
        self.assertEqual(ended[0], status, ended[1])
        causes = [line for line in ended[1].splitlines() if line.startswith("phalanxd: ")]
        self.assertEqual(causes, [cause], ended[1])

    def test_a_crash_is_told(self):
        for number, name in ((signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV")):
            process, planner = self.start()
            os.kill(planner, number)
            self.expect(self.end(process, planner), 69,
                        f"phalanxd: the planner killed by signal {int(number)} ({name})")

    def test_a_file_that_is_cut_is_told(self):
        process, planner = self.start()
        os.kill(planner, signal.SIGBUS)  # as the kernel does where a mapped file has no bytes any more
        self.expect(self.end(process, planner), 69,
                    f"phalanxd: the planner killed by signal 7 (SIGBUS): most likely {self.model}, or a file of it, "
                    "became shorter while it was read, or its disk failed")

    def test_one_that_is_stopped_is_killed(self):
        process, planner = self.start()
        os.kill(planner, signal.SIGSTOP)
        self.expect(self.end(process, planner), 69, "phalanxd: the planner was stopped by a signal")

    def test_a_start_has_its_time(self):
        began = time.monotonic()
        ended = self.end(*self.start("--start-timeout", "1.5"))
        self.assertLess(time.monotonic() - began, 15)
        self.expect(ended, 75, "phalanxd: the model's files were not read within 1.5 s (--start-timeout)")

    def test_a_server_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process, planner = self.start()
            process.send_signal(number)
            began = time.monotonic()
            self.assertEqual(self.end(process, planner), (0, ""))
            self.assertLess(time.monotonic() - began, 5)

    def test_prompts_that_are_given_up_are_no_success(self):
        process, planner = self.start("--prompt", "hi")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process, planner), (128 + signal.SIGINT, ""))

    def test_a_hang_up_is_nothing(self):
        process, planner = self.start()
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(process, planner)[0], 0)

    def test_it_ends_with_the_leader(self):
        process, planner = self.start()
        process.kill()
        process.communicate(timeout=20)
        eventually(lambda: not alive(planner), 5, "the planner has ended")


# What stands in for phalanx-worker: in ROLE has its bootstrap record, and answers as FAULT says; in others it is what it should be.
# Frames of the version that is spoken.
GOLDEN = os.path.join(ROOT, "proto", "golden", max(os.listdir(os.path.join(ROOT, "proto", "golden")), key=lambda name: int(name[1:])))

HOSTILE = """#!{python}
import fcntl, mmap, os, socket, sys, time
if sys.argv[2] != {role!r}:
    os.execv({real!r}, ["/proc/self/exe", *sys.argv[1:]])
SIZE, SEALS = 163840, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
plan = open({plan!r}, "rb").read()

def memory(size=SIZE, seals=SEALS):
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd

parent = socket.socket(fileno=3)
parent.setblocking(True)
socket.recv_fds(parent, 1 << 17, 32)
send = lambda data, *fds: socket.send_fds(parent, [data], fds)
{fault}
time.sleep(60)
"""


class Hostile(unittest.TestCase):
    """A planner, or a loader, that the files have turned against the leader. It does not end by itself."""

    def cause_of(self, fault, role="planner"):
        residue = Residue()
        with tempfile.TemporaryDirectory() as folder:
            program = shutil.copy(os.path.join(BIN, "phalanxd"), folder)
            shutil.copy(os.path.join(BIN, "phalanx-front"), folder)
            worker = os.path.join(folder, "phalanx-worker")
            with open(worker, "w") as file:
                file.write(HOSTILE.format(python=sys.executable, fault=fault, role=role,
                                          real=os.path.join(BIN, "phalanx-worker"),
                                          plan=os.path.join(GOLDEN, "control_server_plan.bin")))
            os.chmod(worker, 0o755)
            ended = subprocess.run([program, "--model", TINY, "--port", "0"], capture_output=True, text=True, timeout=30)
        residue.check()
        causes = [line for line in ended.stderr.splitlines() if line.startswith("phalanxd: ")]
        self.assertEqual(len(causes), 1, ended.stderr)
        return ended.returncode, causes[0]

    def test_descriptors_that_are_not_one(self):
        for fault in ("send(plan)", "send(plan, memory(), memory())", "send(plan, memory()); send(plan, memory())"):
            self.assertEqual(self.cause_of(fault),
                             (65, "phalanxd: the planner sent something else than one plan with one descriptor"), fault)

    def test_memory_that_may_change_or_is_none(self):
        for fault in ("send(plan, memory(size=SIZE - 1))", "send(plan, memory(seals=0))", "send(plan, 0)",
                      "fd = memory(); held = mmap.mmap(fd, SIZE); send(plan, fd)",
                      "send(plan, memory(seals=SEALS | fcntl.F_SEAL_SEAL))"):
            status, cause = self.cause_of(fault)
            self.assertIn("the tokenizer from the planner: ", cause, fault)
            self.assertNotIn(status, (0, 70), cause)

    def test_no_plan(self):
        for fault, cause in (("send(b'\\xc1')", "control_record"), ("send(plan[:-1], memory())", "control_record"),
                             ("os._exit(0)", "the planner exited with status 0"),
                             ("os.abort()", "the planner killed by signal 6 (SIGABRT)")):
            self.assertIn(cause, self.cause_of(fault)[1], fault)

    def test_a_loader_that_says_what_none_says(self):
        failure = os.path.join(GOLDEN, "control_child_failed.bin")
        for fault, status, cause in (
                ("send(b'\\xc1')", 64, "control_record"),
                (f"send(b'\\xc1'); send(open({failure!r}, 'rb').read())", 64, "control_record"),
                ("send(plan)", 65, "the loader sent something else than its progress or its end"),
                ("os._exit(0)", 69, "the loader exited with status 0")):
            ended = self.cause_of(fault, "loader")
            self.assertEqual(ended[0], status, ended[1])
            self.assertIn(cause, ended[1], fault)


class Program(unittest.TestCase):
    def test_that_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(os.path.join(BIN, "phalanxd"), folder)
            ended = subprocess.run([alone, "--model", TINY, "--port", "0"], capture_output=True, text=True, timeout=60)
            self.assertEqual((ended.returncode, ended.stdout), (66, ""))
            self.assertEqual(ended.stderr, f"phalanxd: {folder}/phalanx-worker: expected the program phalanx-worker beside "
                                           "phalanxd, found none that may be run\n")

    def test_is_the_same_when_its_file_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("phalanxd", "phalanx-front", "phalanx-worker", "phalanxctl"):
                shutil.copy(os.path.join(BIN, name), folder)
            with Server("--tp", 1, program=os.path.join(folder, "phalanxd")) as server:
                os.remove(os.path.join(folder, "phalanx-worker"))
                for victim in (lambda: server.rank_pid(0, 0), lambda: server.replica_pid(0)):
                    pid = victim()
                    os.kill(pid, signal.SIGKILL)
                    eventually(lambda: server.all_ready() and victim() != pid, 60, "it is started again")
                stream = server.stream("count from 100 to 120").finish()
                self.assertEqual(stream.text, counted(100, 120))


if __name__ == "__main__":
    main()

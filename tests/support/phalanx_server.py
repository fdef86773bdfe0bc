# SPDX-License-Identifier: Apache-2.0
"""Runs a real phalanxd for process and end-to-end tests, talks to it, and proves that nothing is left behind."""
import http.client
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("TEST_BIN_DIR", os.path.join(ROOT, "build", "release", "bin"))
TINY = os.path.join(ROOT, "deploy", "models", "phalanx-tiny")


def eventually(condition, seconds, what):
    """Waits until condition() is true and returns its value; fails naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


def stat_fields(pid):
    """(state, parent pid) of a process, or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            rest = file.read().rsplit(")", 1)[1].split()
        return rest[0], int(rest[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(pid):
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in "ZX"


def descendants(root):
    """Pids of the living descendants of `root`, by parent links."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields and fields[0] not in "ZX":
                parents[int(name)] = fields[1]
    found, frontier = [], [root]
    while frontier:
        current = frontier.pop()
        children = [pid for pid, parent in parents.items() if parent == current]
        found += children
        frontier += children
    return found


def zombies_of(parents):
    """Pids of the dead children that these processes have not reaped."""
    result = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields and fields[0] == "Z" and fields[1] in parents:
                result.append(int(name))
    return result


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


# Inherited by every program of this test and by its children, so that what other servers of this machine hold or write is
# told from what ours left: a mark, and a temporary folder of our own.
RUN = f"{os.getpid()}-{secrets.token_hex(8)}"
TEMPORARY = tempfile.TemporaryDirectory(prefix="test-")
os.environ.update(TEST_RUN=RUN, TMPDIR=TEMPORARY.name)


def abstract_sockets():
    """Name -> inodes of the abstract sockets of any Phalanx process on this machine."""
    found = {}
    with open("/proc/net/unix") as file:
        for fields in map(str.split, file):
            if len(fields) > 7 and fields[7].startswith("@phalanx-"):
                found.setdefault(fields[7], set()).add(fields[6])
    return found


def held_by_others():
    """Inodes of the sockets of living processes that this run did not start."""
    inodes = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"TEST_RUN={RUN}".encode() in file.read().split(b"\0"):
                    continue
            links = [os.readlink(f"/proc/{name}/fd/{fd}") for fd in os.listdir(f"/proc/{name}/fd")]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
    return inodes


def sockets_left(before):
    """Names of sockets that were not there `before` and that no stranger holds."""
    new = {name: inodes for name, inodes in abstract_sockets().items() if name not in before}
    if not new:
        return set()
    others = held_by_others()
    return {name for name, inodes in new.items() if not inodes & others}


def named_shared_memory():
    """Entries of /dev/shm that could be ours; other programs of this machine come and go there."""
    return {name for name in os.listdir("/dev/shm") if "phalanx" in name or "phlx" in name or "zmq" in name}


class Residue:
    """What the machine held before a test, compared afterwards."""

    def __init__(self):
        self.sockets = abstract_sockets()
        self.shared_memory = named_shared_memory()
        self.temporary = set(os.listdir(TEMPORARY.name))

    def check(self, seconds=2.0):
        eventually(lambda: not sockets_left(self.sockets), seconds, "no abstract socket is left")
        left = named_shared_memory() - self.shared_memory
        assert not left, f"left in /dev/shm: {left}"
        left = {n for n in os.listdir(TEMPORARY.name) if not n.startswith("serve-test-")} - self.temporary
        assert not left, f"left in the temporary folder: {left}"


class Stream:
    """A streamed answer, read to its end on a thread."""

    def __init__(self, server, path, body):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self.events, self.error, self.status, self.done = [], None, None, False
        self.times = []
        self.connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            response = self.connection.getresponse()
            self.status = response.status
            if response.status != 200:
                self.error = json.loads(response.read())["error"]
                return
            for raw in response:
                line = raw.decode().rstrip("\r\n")
                if line == "data: [DONE]":
                    self.done = True
                elif line.startswith("data: "):
                    assert not self.done, "an event after [DONE]"
                    event = json.loads(line[6:])
                    self.times.append(time.monotonic())
                    if "error" in event:
                        self.error = event["error"]
                    self.events.append(event)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.error = self.error or {"message": f"connection: {error!r}", "type": "cut"}
        finally:
            self.connection.close()

    def wait_for_tokens(self, count, seconds=60):
        eventually(lambda: len(self.events) > count or not self.thread.is_alive(), seconds, f"{count} streamed tokens")
        return self

    def finish(self, seconds=120):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the stream hangs"
        return self

    def close(self):
        """Leaves as a client that goes away: the socket is shut at once."""
        if self.connection.sock:
            self.connection.sock.shutdown(socket.SHUT_RDWR)

    @property
    def text(self):
        parts = []
        for event in self.events:
            for choice in event.get("choices", []):
                parts.append(choice["delta"].get("content") or "" if "delta" in choice else choice.get("text", ""))
        return "".join(parts)

    @property
    def finish_reason(self):
        reasons = [c["finish_reason"] for e in self.events for c in e.get("choices", []) if c.get("finish_reason")]
        assert len(reasons) <= 1, f"several finish reasons: {reasons}"
        return reasons[0] if reasons else None


class Server:
    """A phalanxd with its own port. Use as a context manager: leaving it stops the server and checks the residue."""

    def __init__(self, *arguments, model=TINY, program="phalanxd", environment=None, start_seconds=120,
                 before_exec=None, on_start=lambda pid: None):
        self.residue = Residue()
        self.log = tempfile.NamedTemporaryFile(mode="w+", prefix="serve-test-", suffix=".log")
        named = ["--model", model] if model is not None else []  # else the arguments name it
        command = [os.path.join(BIN, program), *named, "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=ROOT,
                                        env={**os.environ, **(environment or {})}, preexec_fn=before_exec)
        self.pid, self.port, self.output = self.process.pid, None, []
        on_start(self.pid)
        self.reader = threading.Thread(target=self._read_output, daemon=True)
        self.reader.start()
        try:
            eventually(lambda: self.port or self.process.poll() is not None, start_seconds, "the server is ready")
            if not self.port:
                raise AssertionError(f"phalanxd ended with {self.process.returncode}:\n{self.log_text()[-3000:]}")
            eventually(lambda: all(self.front_pids()), start_seconds, "the spare front is there")
        except BaseException:
            self.kill()
            raise

    def _read_output(self):
        for line in self.process.stdout:
            self.output.append(line)
            if line.startswith("ready http://"):
                self.port = int(line.split()[1].rsplit(":", 1)[1])

    def log_text(self):
        with open(self.log.name) as file:
            return file.read()

    def request(self, method, path, body=None, headers=None, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
            connection.request(method, path, data, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read().decode()
            kind = response.getheader("content-type", "")
            return response.status, json.loads(text) if "json" in kind else text, dict(response.getheaders())
        finally:
            connection.close()

    def chat_body(self, text, **fields):
        return {"model": "phalanx-tiny", "messages": [{"role": "user", "content": text}], **fields}

    def chat(self, text, **fields):
        status, answer, _ = self.request("POST", "/v1/chat/completions", self.chat_body(text, **fields))
        assert status == 200, f"{status}: {answer}"
        return answer

    def stream(self, text, **fields):
        return Stream(self, "/v1/chat/completions", self.chat_body(text, stream=True, **fields))

    def control(self, *arguments):
        return subprocess.run([os.path.join(BIN, "phalanxctl"), "--port", str(self.port), *arguments],
                              capture_output=True, text=True, timeout=30)

    def status(self):
        result = self.control("status", "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def rank_pid(self, replica, rank):
        return self.status()["replicas"][replica]["ranks"][rank]["pid"]

    def replica_pid(self, replica):
        return self.status()["replicas"][replica]["pid"]

    def all_ready(self):
        status = self.status()
        return all(f["state"] == "ready" for f in status["fronts"]) and all(
            r["state"] == "ready" and all(k["state"] == "ready" for k in r["ranks"]) for r in status["replicas"])

    def ledger_is_zero(self):
        status = self.status()
        return status["requests"] == 0 and all(
            r["pending_tokens"] == {"to_compute": 0, "to_generate": 0} and r["open_attempts"] == 0 for r in status["replicas"])

    def front_pids(self):
        return [front["pid"] for front in self.status()["fronts"]]

    def expect_family(self, count, seconds=5):
        """The leader's living descendants are its fronts and so many others, and none is dead and not reaped."""
        def as_it_should_be():
            fronts, family = self.front_pids(), descendants(self.pid)
            return all(fronts) and len(family) == count + len(fronts) and not zombies_of([self.pid, *family])
        eventually(as_it_should_be, seconds, f"{count} descendants and no zombie")

    def longest_callback(self):
        """(seconds of CPU of the longest callback, callbacks above 2 ms), of the loops of leader and fronts together."""
        text = self.request("GET", "/metrics")[1]
        of = {name: [float(value) for value in re.findall(rf"^phalanx_(?:front_)?{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.M)]
              for name in ("loop_callback_seconds_max", "loop_long_callbacks_total")}
        # Those of the leader and of the quarantine, which is there when there is a suspect, are always told.
        fronts = [front for front in self.status()["fronts"] if not front.get("quarantine")]
        assert all(len(values) == 2 + len(fronts) for values in of.values()), of
        return max(of["loop_callback_seconds_max"]), sum(of["loop_long_callbacks_total"])

    def wait_idle(self, seconds=30):
        eventually(self.all_ready, seconds, "all replicas and ranks are ready")
        eventually(self.ledger_is_zero, seconds, "the ledger is zero")

    def stop(self, seconds=30):
        """SIGTERM, and the proof that everything is gone. Returns the exit status."""
        family = descendants(self.pid)
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(seconds)
        eventually(lambda: not [p for p in family if alive(p)], 2, "no descendant outlives the leader")
        self.residue.check()
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            if kind is not None:
                sys.stderr.write(f"--- log of phalanxd, last lines\n{self.log_text()[-6000:]}\n---\n")
                self.kill()
            elif self.process.poll() is None:
                status = self.stop()
                assert status == 0, f"exit status {status} after SIGTERM\n{self.log_text()[-3000:]}"
        finally:
            self.reader.join(5)
            self.process.stdout.close()
            self.log.close()


# A prompt of many chunks, for faults in the middle of a prefill.
LONG_PROMPT = "reverse the word " + "abcdefgh " * 150


def counted(first, last):
    return " ".join(str(n) for n in range(first, last + 1))


def main():
    unittest.main(verbosity=2)

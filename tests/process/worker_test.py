# SPDX-License-Identifier: Apache-2.0
"""Workers: started by hand, shown by ps, and run under a command (--worker-wrapper)."""
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Server, alive, counted, descendants, eventually, main, stat_fields  # noqa: E402

PHALANXD = os.path.join(BIN, "phalanxd")
WORKER = os.path.join(BIN, "phalanx-worker")
# In place, and as a child that is waited for.
EXECS = "env WRAPPED=1"
FORKS = "sh -c '\"$@\"; exit $?' --"
# As a child that counts processes from 1 on; empty where that takes more rights.
SPACES = next((command for command in ("unshare --pid --fork", "unshare --user --map-root-user --pid --fork")
               if shutil.which("unshare") and subprocess.run([*command.split(), "true"], capture_output=True, check=False).returncode == 0), "")
PROMPT = "count from 3 to 40"


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode().strip()


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return dict(setting.split("=", 1) for setting in file.read().decode().split("\0") if "=" in setting)


def run(*arguments, program=PHALANXD, **more):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, **more)


def ranks_of_arena(leader):
    """For how many ranks the weights that a leader holds are laid out (libs/model/src/arena_header.h)."""
    folder = f"/proc/{leader}/fd"
    for name in os.listdir(folder):
        if os.readlink(f"{folder}/{name}").startswith("/memfd:phalanx-weights"):
            with open(f"{folder}/{name}", "rb") as file:
                magic, _, ranks = struct.unpack("<8sII", file.read(16))
            assert magic == b"PHLXRENA", magic
            return ranks
    raise AssertionError("the leader holds no weights")


class ByHand(unittest.TestCase):
    def test_is_refused_in_one_line(self):
        for role in ("rank", "replica", "loader", "planner"):
            ended = run("worker", role, program=WORKER)
            self.assertEqual(ended.returncode, 64, ended.stderr)
            self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
            self.assertIn(f"a {role} is started by phalanxd itself", ended.stderr)

    def test_an_unknown_role_names_the_known_ones(self):
        for words in ((), ("worker",), ("worker", "keeper"), ("rank", "rank")):
            ended = run(*words, program=WORKER)
            self.assertEqual(ended.returncode, 64)
            self.assertIn("expected worker planner, loader, replica or rank", ended.stderr)

    def test_help_says_who_starts_workers(self):
        self.assertIn("phalanx-worker worker planner|loader|replica|rank is how a server starts", " ".join(run("--help").stdout.split()))


class Titles(unittest.TestCase):
    def test_are_what_each_process_is(self):
        with Server("--dp", 2, "--tp", 2) as server:
            titles = sorted(command_line(pid) for pid in descendants(server.pid))
            self.assertEqual(titles, ["phalanxd: front 0", "phalanxd: front 1", "phalanxd: rank dp0.tp0", "phalanxd: rank dp0.tp1", "phalanxd: rank dp1.tp0",
                                      "phalanxd: rank dp1.tp1", "phalanxd: replica dp0", "phalanxd: replica dp1"])


class BadWrappers(unittest.TestCase):
    def test_are_refused_at_start(self):
        for wrapper, cause in (("valgrind", "expected SELECTOR=COMMAND"),
                               ("rank:dp0.tp1=env", "there are 1 ranks in each replica"),
                               ("replica:dp3=env", "there are 1 replicas"),
                               ("rank=no-such-tool -q", "no-such-tool: no such program in PATH"),
                               ("rank=sh -c 'true", "without its end")):
            ended = run("--model", TINY, "--port", "0", "--worker-wrapper", wrapper)
            self.assertIn(ended.returncode, (64, 66), wrapper)
            self.assertIn(cause, ended.stderr)
            self.assertIn("--worker-wrapper", ended.stderr)


class Wrapped(unittest.TestCase):
    """Leaving a Server proves that none of its processes, sockets or memory is left."""

    def rank_of(self, server, rank=1):
        return eventually(lambda: server.all_ready() and server.rank_pid(0, rank), 60, "the rank is ready")

    def answers(self, server):
        answer = server.chat(PROMPT, temperature=0)
        return answer["choices"][0]["message"]["content"]

    def test_that_execs_in_place(self):
        with Server("--tp", 2, "--worker-wrapper", f"rank:dp0.tp1={EXECS}") as server:
            plain, wrapped = self.rank_of(server, 0), self.rank_of(server, 1)
            self.assertEqual(environment(wrapped).get("WRAPPED"), "1")
            self.assertEqual(environment(wrapped).get("PATH"), os.environ.get("PATH"))
            self.assertNotIn("WRAPPED", environment(plain))
            self.assertEqual(command_line(wrapped), "phalanxd: rank dp0.tp1")
            self.assertIn("4", self.answers(server))
            ranks = server.status()["replicas"][0]["ranks"]
            self.assertEqual([rank["wrapper"] for rank in ranks], ["", EXECS])
            self.assertIn(f"under {EXECS}", server.control("status").stdout)
            self.assertIn(f"wrapped    rank:dp0.tp1={EXECS}", server.log_text())
            os.kill(wrapped, signal.SIGKILL)
            eventually(lambda: server.all_ready() and server.rank_pid(0, 1) != wrapped, 30, "it is replaced")
            self.assertEqual(environment(server.rank_pid(0, 1)).get("WRAPPED"), "1", "its successor is wrapped too")

    def test_that_forks_and_waits(self):
        with Server("--tp", 2, "--worker-wrapper", f"rank={FORKS}") as server:
            worker = self.rank_of(server)
            wrapper = stat_fields(worker)[1]
            self.assertTrue(command_line(wrapper).startswith("sh -c"), command_line(wrapper))
            stream = server.stream("count from 100 to 160")
            stream.wait_for_tokens(12)
            os.kill(wrapper, signal.SIGKILL)
            eventually(lambda: not alive(worker), 10, "the worker ends with its wrapper")
            stream.finish()
            self.assertEqual(stream.text, counted(100, 160))
            eventually(lambda: server.all_ready() and server.rank_pid(0, 1) != worker, 30, "it is replaced")
            again = server.rank_pid(0, 1)
            os.kill(again, signal.SIGKILL)
            eventually(lambda: server.all_ready() and server.rank_pid(0, 1) != again, 30, "the worker is replaced")
            self.assertIn("4", self.answers(server))

    @unittest.skipUnless(SPACES, "no namespaces of processes can be made here")
    def test_that_counts_processes_in_a_namespace_of_its_own(self):
        """What a worker takes for its number is somebody else's, or nobody's, outside."""
        with Server("--dp", 2, "--tp", 2, "--worker-wrapper", f"rank:dp0.tp1={SPACES}", "--worker-wrapper", f"replica:dp1={SPACES}") as server:
            self.rank_of(server)
            replica = server.replica_pid(0)
            self.replaces(server, "phalanxd: rank dp0.tp1", 8)
            self.assertEqual(server.replica_pid(0), replica)
            self.replaces(server, "phalanxd: replica dp1", 20)
            self.assertIn("4", self.answers(server))

    def replaces(self, server, title, seconds):
        """Kills the process of that title. Numbers that it tells of itself are not those that it has here."""
        def titled():
            return [pid for pid in descendants(server.pid) if alive(pid) and command_line(pid) == title]

        [worker] = titled()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: not alive(worker) and len(titled()) == 1 and server.all_ready(), seconds, f"{title} is replaced")

    def test_replica_and_loader(self):
        with Server("--tp", 2, "--worker-wrapper", f"replica={FORKS}", "--worker-wrapper", f"loader={FORKS}",
                    "--worker-wrapper", f"rank:dp0.tp0={EXECS}") as server:
            self.rank_of(server)
            wrapper = server.replica_pid(0)
            family = descendants(wrapper)
            self.assertEqual(len(family), 3, [command_line(pid) for pid in family])
            os.kill(wrapper, signal.SIGKILL)
            eventually(lambda: not any(alive(pid) for pid in family), 10, "nothing of the replica is left")
            eventually(lambda: server.all_ready() and server.replica_pid(0) != wrapper, 60, "it is started again")
            self.assertIn("4", self.answers(server))

    def test_that_stands_still_is_waited_for(self):
        with Server("--tp", 2, "--worker-wrapper", f"rank:dp0.tp1={FORKS}") as server:
            worker = self.rank_of(server)
            stream = server.stream("count from 100 to 160")
            stream.wait_for_tokens(12)
            os.kill(worker, signal.SIGSTOP)  # its parent is the wrapper, so only its silence is seen
            time.sleep(6)  # a rank without a wrapper is hung after 2 s
            os.kill(worker, signal.SIGCONT)
            stream.finish()
            self.assertEqual(stream.text, counted(100, 160))
            rank = server.status()["replicas"][0]["ranks"][1]
            self.assertEqual((rank["pid"], rank["restarts"]), (worker, 0))

    def test_the_leader_dies(self):
        with Server("--dp", 2, "--tp", 2, "--worker-wrapper", f"rank={FORKS}") as server:
            family = descendants(server.pid)
            server.kill()
            eventually(lambda: not any(alive(pid) for pid in family), 10, "nothing outlives the leader")
            server.residue.check()


class TheLoader(unittest.TestCase):
    def test_packs_weights_for_the_ranks_of_a_group(self):
        for tp in (1, 2):
            with Server("--tp", tp) as server:
                self.assertEqual(ranks_of_arena(server.pid), tp)

    def test_takes_no_other_files_than_were_planned(self):
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copytree(TINY, os.path.join(folder, "model"))
            weights = os.path.join(model, "model.safetensors")
            other = os.path.join(folder, "other.safetensors")
            with open(weights, "rb") as source, open(other, "wb") as target:
                head = source.read(int.from_bytes(source.read(8), "little")) + b" " * 8
                target.write(len(head).to_bytes(8, "little") + head + source.read())
            ended = run("--model", model, "--prompt", "1", "--worker-wrapper",
                        f"loader=sh -c 'mv {other} {weights}; exec \"$@\"' --")
            self.assertEqual(ended.returncode, 78, ended.stderr)
            self.assertIn(f"{model}: expected the files that this start was planned from", ended.stderr)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""phalanxd --prompt: the same processes without a listener, and the summary of what was generated."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, Residue, counted, descendants, main  # noqa: E402


def title_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode()


def answers_of(output):
    """What was generated, without the times."""
    return re.findall(r"text +(.*)\ntoken ids +(.*)\nfinish_reason +(.*)\n", output)


def collect(stream):
    """Reads a stream beside others; returns what gives its lines."""
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(stream))
    reader.start()

    def result():
        reader.join()
        return lines
    return result


class Offline(unittest.TestCase):
    def run_offline(self, *arguments, model=TINY, program=os.path.join(BIN, "phalanxd")):
        residue = Residue()
        result = subprocess.run([program, "--model", model, *arguments], capture_output=True, text=True,
                                timeout=120)
        residue.check()
        return result

    def test_prompts_are_answered_in_order(self):
        result = self.run_offline("--tp", "2", "--prompt", "count from 3 to 40", "--prompt", "count from 5 to 9")
        self.assertEqual(result.returncode, 0, result.stderr)
        first = result.stdout.index(counted(3, 40))
        self.assertGreater(result.stdout.index(counted(5, 9)), first)
        for pattern in (r"finish_reason\s+stop", r"token ids\s+\[[\d, ]+\]", r"tok/s", r"TTFT", r"ms per token"):
            self.assertRegex(result.stdout, pattern)

    def test_the_tokenizers_end_token_ends_an_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            shutil.copytree(TINY, model)
            for name in ("config.json", "generation_config.json"):
                path = os.path.join(model, name)
                with open(path, encoding="utf-8") as file:
                    fields = json.load(file)
                fields.pop("eos_token_id")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(fields, file)
            result = self.run_offline("--prompt", "count from 5 to 9", "--max-tokens", "100", model=model)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(counted(5, 9), result.stdout)
        self.assertRegex(result.stdout, r"finish_reason\s+stop")

    def test_the_end_of_the_last_answer_ends_no_rank_by_force(self):
        for _ in range(6):  # whether a step is under way then is a matter of milliseconds
            result = self.run_offline("--tp", "2", "--prompt", "count from 3 to 9")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotRegex(result.stderr, r"command_failed|killed by signal")

    def test_every_tp_gives_the_same_ids(self):
        ids = set()
        for tp in ("1", "2", "3", "4"):
            result = self.run_offline("--tp", tp, "--prompt", "what is 17 + 25?", "--temperature", "1", "--seed", "5")
            self.assertEqual(result.returncode, 0, result.stderr)
            ids.add(re.search(r"token ids\s+(\[[\d, ]+\])", result.stdout).group(1))
        self.assertEqual(len(ids), 1, ids)

    def test_a_prompt_that_does_not_fit_ends_it_by_name(self):
        result = self.run_offline("--prompt", "a" * 9000)
        self.assertEqual((result.returncode, result.stdout), (64, ""))
        self.assertRegex(result.stderr.splitlines()[-1], r"phalanxd: --prompt: the prompt has \d+ tokens")

    def test_a_front_that_is_killed_is_followed_by_one_that_goes_on(self):
        slow = ["--runner", "sim", "--sim-step-us", "20000", "--seed", "5", "--temperature", "1", "--max-tokens", "60",
                "--prompt", "count from 3 to 40", "--prompt", "what is 17 + 25?"]
        undisturbed = answers_of(self.run_offline(*slow).stdout)
        self.assertEqual(len(undisturbed), 2)
        residue = Residue()
        with subprocess.Popen([os.path.join(BIN, "phalanxd"), "--model", TINY, *slow], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as server:
            log = []
            for line in server.stderr:
                log.append(line)
                if "request_start" in line and "role=leader" in line:
                    break
            fronts = [pid for pid in descendants(server.pid) if "front" in title_of(pid)]
            self.assertEqual(len(fronts), 1)
            time.sleep(0.3)
            os.kill(fronts[0], signal.SIGKILL)
            rest = collect(server.stderr)
            output = server.stdout.read()
            self.assertEqual(server.wait(60), 0)
            log += rest()
        residue.check()
        self.assertEqual(answers_of(output), undisturbed)
        self.assertIn("front_died", "".join(log))
        self.assertEqual(len([line for line in log if "request_end" in line and "role=leader" in line]), 2, "each ran once")

    def test_a_front_that_dies_of_them_ends_it(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("phalanxd", "phalanx-worker"):
                shutil.copy(os.path.join(BIN, name), os.path.join(folder, name))
            shutil.copy(os.path.join(BIN, "phalanx-front-with-faults"), os.path.join(folder, "phalanx-front"))
            result = self.run_offline("--prompt", "count from 3 to 40", "--max-tokens", "77", program=os.path.join(folder, "phalanxd"))
        self.assertEqual((result.returncode, result.stdout), (69, ""))
        self.assertIn("the front that works for --prompt has ended 3 times", result.stderr.splitlines()[-1])


if __name__ == "__main__":
    main()

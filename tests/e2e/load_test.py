# SPDX-License-Identifier: Apache-2.0
"""phalanx-load against two replicas of two ranks: 500 audited requests, then again with a rank killed halfway."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, Server, eventually, main  # noqa: E402


class Load(unittest.TestCase):
    def start_load(self, server, folder, *arguments):
        return subprocess.Popen(
            [os.path.join(BIN, "phalanx-load"), "--base-url", f"http://127.0.0.1:{server.port}", "--model", "phalanx-tiny",
             "--backend", "openai-chat", "--num-prompts", "500", "--max-concurrency", "64", "--dataset-name", "random",
             "--random-input-len", "48", "--random-output-len", "32", "--ignore-eos", "--seed", "7", "--save-result",
             "--result-dir", folder, "--result-filename", "result.json", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, load, folder):
        output, _ = load.communicate(timeout=280)
        with open(os.path.join(folder, "result.json")) as file:
            return output, json.load(file)

    def watch_ledger(self, server, stop, problems):
        """At any moment the ledger's sums equal a recount over its open attempts."""
        while not stop.wait(0.1):
            for replica in server.status()["replicas"]:
                if replica["pending_tokens"] != replica["pending_tokens_recount"]:
                    problems.append(replica)

    def run_load(self, kill):
        with Server("--dp", 2, "--tp", 2, "--restart-intensity", "50/60s") as server, tempfile.TemporaryDirectory() as folder:
            stop, problems = threading.Event(), []
            watcher = threading.Thread(target=self.watch_ledger, args=(server, stop, problems))
            watcher.start()
            try:
                load = self.start_load(server, folder)
                if kill:
                    eventually(lambda: server.status()["requests_finished"] >= 250, 240, "half of the requests are done")
                    os.kill(server.rank_pid(0, 1), signal.SIGKILL)
                output, result = self.finish(load, folder)
            finally:
                stop.set()
                watcher.join()
            self.assertEqual(problems, [])
            self.assertEqual(load.returncode, 0, output)
            self.assertEqual((result["completed"], result["failed"]), (500, 0), output)
            self.assertEqual(result["total_output_tokens"], 500 * 32)
            server.wait_idle(60)
            print(output)

    def test_500_requests_without_a_failure(self):
        self.run_load(kill=False)

    def test_a_rank_killed_halfway_hangs_no_request(self):
        self.run_load(kill=True)


if __name__ == "__main__":
    main()

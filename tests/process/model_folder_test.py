# SPDX-License-Identifier: Apache-2.0
"""The model's folder is removed, or another is put in its place, while the server runs: no later death is final."""
import os
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import TINY, Server, alive, counted, eventually, main  # noqa: E402


class ModelFolder(unittest.TestCase):
    def setUp(self):
        place = tempfile.mkdtemp(prefix="model-folder-")
        self.addCleanup(shutil.rmtree, place)
        self.model = os.path.join(place, "phalanx-tiny")
        shutil.copytree(TINY, self.model)

    def expect_answers_through_deaths(self, server, change):
        stream = server.stream("count from 100 to 200").wait_for_tokens(5)
        change()
        for victim in (server.rank_pid(0, 1), server.rank_pid(1, 0), server.replica_pid(0), server.replica_pid(1)):
            os.kill(victim, signal.SIGKILL)
            eventually(lambda pid=victim: not alive(pid), 10, "the victim is gone")
            eventually(lambda: any(r["state"] == "ready" for r in server.status()["replicas"]), 30, "a replica serves")
            self.assertEqual(server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))
            server.wait_idle()
        stream.finish()
        self.assertIsNone(stream.error)
        self.assertEqual(stream.text, counted(100, 200))
        server.expect_family(6)

    def test_removed(self):
        with Server("--dp", 2, "--tp", 2, "--restart-intensity", "100/60s", model=self.model) as server:
            self.expect_answers_through_deaths(server, lambda: shutil.rmtree(self.model))

    def test_replaced_by_something_else(self):
        def replace():
            shutil.rmtree(self.model)
            os.makedirs(self.model)
            with open(os.path.join(self.model, "config.json"), "w") as file:
                file.write('{"model_type": "another"}')
        with Server("--dp", 2, "--tp", 2, "--restart-intensity", "100/60s", model=self.model) as server:
            self.expect_answers_through_deaths(server, replace)


if __name__ == "__main__":
    main()

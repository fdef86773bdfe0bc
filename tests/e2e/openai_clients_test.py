# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI clients, pinned, against a real server, undisturbed and while its fronts die. Needs npm and PyPI, so only tools/test --long runs it."""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from phalanx_server import Server, eventually, main  # noqa: E402

NPM_PACKAGE = "openai@7.55.0"
PYPI_PACKAGE = "openai==3.52.0"
ROUNDS = 12  # of a client, while fronts die


class OfficialClients(unittest.TestCase):
    def run_client(self, command, folder):
        with Server("--dp", 2, "--tp", 2, "--log-level", "error") as server:
            for fronts_die in (False, True):
                for _ in range(ROUNDS if fronts_die else 1):
                    self.run_once(server, command, folder, fronts_die)

    def run_once(self, server, command, folder, fronts_die):
        kills = 0
        with open(os.path.join(folder, "output"), "w+") as output:
            client = subprocess.Popen([*command, f"http://127.0.0.1:{server.port}/v1"], cwd=folder, stdout=output, stderr=output)
            deadline = time.monotonic() + 120
            while client.poll() is None:
                self.assertLess(time.monotonic(), deadline, "the client is at its end")
                time.sleep(random.uniform(0.02, 0.2))
                for front in server.status()["fronts"] if fronts_die else []:
                    if front["active"] and client.poll() is None:
                        os.kill(front["pid"], random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV)))
                        kills += 1
            output.seek(0)
            text = output.read()
        self.assertEqual(client.returncode, 0, f"{kills} kills of fronts\n{text}")
        print(text.strip(), f"({kills} kills of fronts)" if fronts_die else "", flush=True)
        eventually(lambda: server.status()["requests"] == 0, 5, "the cancelled request has gone")

    def test_npm(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", NPM_PACKAGE],
                           cwd=folder, check=True)
            script = os.path.join(folder, "client.mjs")
            with open(os.path.join(HERE, "clients", "openai_node.mjs")) as source, open(script, "w") as target:
                target.write(source.read())
            self.run_client(["node", script], folder)

    def test_pypi(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", os.path.join(folder, "venv")], check=True)
            python = os.path.join(folder, "venv", "bin", "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYPI_PACKAGE], check=True)
            self.run_client([python, os.path.join(HERE, "clients", "openai_python.py")], folder)


if __name__ == "__main__":
    main()

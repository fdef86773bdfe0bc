# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI clients, pinned, against a real server. Needs npm and PyPI, so only tools/test --long runs it."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from phalanx_server import Server, eventually, main  # noqa: E402

NPM_PACKAGE = "openai@7.55.0"
PYPI_PACKAGE = "openai==3.52.0"


class OfficialClients(unittest.TestCase):
    def run_client(self, command, folder):
        with Server("--dp", 2, "--tp", 2) as server:
            result = subprocess.run([*command, f"http://127.0.0.1:{server.port}/v1"], cwd=folder, capture_output=True,
                                    text=True, timeout=120)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            print(result.stdout)
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

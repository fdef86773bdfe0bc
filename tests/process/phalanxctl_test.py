# SPDX-License-Identifier: Apache-2.0
"""phalanxctl refuses what it would ignore, and `inspect` what phalanxd would refuse."""
import os
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, TINY, main  # noqa: E402


def run(*arguments, program="phalanxctl", environment=None):
    result = subprocess.run([os.path.join(BIN, program), *arguments], timeout=60, capture_output=True, text=True,
                            env={**os.environ, **(environment or {})})
    return result.returncode, result.stdout + result.stderr


class Phalanxctl(unittest.TestCase):
    def test_a_word_that_a_command_does_not_take_is_refused(self):
        for words in (("status", "3"), ("ping", "foo"), ("ping", ""), ("reload", "program"), ("drain", "1", "2"), ("dump", "a", "b")):
            status, output = run(*words)
            self.assertEqual(status, 64, (words, output))
            self.assertIn("expected" if words[0] != "reload" else "--fronts", output)

    def test_what_is_no_replica_is_named_as_it_was_written(self):
        for number in ("", "x", "-", "1.5", "256", "99999", "dp65536", "4294967296"):
            for command in ("drain", "resume", "restart"):
                status, output = run(command, number, "--port", "1")
                self.assertEqual((status, output), (64, f'phalanxctl: {command}: expected the number of a replica, found "{number}"\n'))
        self.assertEqual(run("drain", "dp255", "--port", "1")[0], 66, "no server is there")

    def test_who_finds_no_server_learns_of_those_that_there_are(self):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0phalanx-admin-%d-%d" % (os.geteuid(), os.getpid() % 60000 + 2))
            server.listen()
            status, output = run("status", "--port", "1")
        self.assertEqual(status, 66, output)
        self.assertRegex(output, r"\(Connection refused\): there is one( of user \d+)? at port \d+: phalanxctl (--uid \d+ )?--port \d+")

    def test_a_flag_without_an_effect_is_refused(self):
        for words in (("drain", "0", "--fronts"), ("ping", "--watch"), ("status", "--num-kv-blocks", "4"), ("inspect", TINY, "--port", "1"),
                      ("reload", "--json"), ("dump", TINY, "--interval", "2"), ("dump", TINY, "--json"), ("ping", "--wait")):
            status, output = run(*words)
            self.assertEqual(status, 64, (words, output))
            self.assertIn(f"found {words[-1] if words[-1].startswith('--') else words[-2]}", output)
        self.assertEqual(run("status", "--interval", "2"), (64, "phalanxctl: --interval: expected only with --watch\n"))

    def test_settings_of_another_command_do_no_harm(self):
        of_inspect = {"PHALANXCTL_KV_CACHE_MEMORY_BYTES": "1G", "PHALANXCTL_NUM_KV_BLOCKS": "5"}
        self.assertEqual(run("ping", "--port", "1", environment=of_inspect)[0], 66, "no server is there")
        status, output = run("inspect", TINY, environment=of_inspect)
        self.assertEqual(status, 64, output)
        self.assertIn("give one of them", output)

    def test_help_is_a_command_and_fits_a_terminal(self):
        status, help_text = run("help")
        self.assertEqual(status, 0, help_text)
        self.assertEqual(help_text, run("--help")[1])
        self.assertIn("exit status: 0 done, ", help_text)
        self.assertIn("(default one's own)", help_text)
        for program in ("phalanxctl", "phalanx-load", "phalanxd"):
            prose = [line for line in run("--help", program=program)[1].splitlines() if not line.startswith("    --")]
            self.assertEqual([line for line in prose if len(line) > 100], [])

    def test_a_file_of_settings_is_read_for_every_command(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("port = 1\n")
            file.flush()
            for command in ("status", "ping", "reload"):
                status, output = run(command, "--config", file.name)
                self.assertEqual(status, 66, (command, output))

    def test_inspect_refuses_what_phalanxd_refuses(self):
        for limits in (("--max-model-len", "1"), ("--max-num-seqs", "4096", "--max-num-batched-tokens", "1"), ("--dp", "257"), ("--kv-cache-memory-bytes", "1"),
                       ("--kv-cache-memory-bytes", "9999999", "--num-kv-blocks", "9")):
            for program, words in (("phalanxctl", ("inspect", TINY)), ("phalanxd", (TINY, "--port", "0"))):
                status, output = run(*words, *limits, program=program)
                self.assertEqual(status, 64, (program, limits, output))

    def test_inspect_names_what_does_not_fit_once(self):
        status, output = run("inspect", TINY, "--num-kv-blocks", str(1 << 24))
        self.assertEqual(status, 75, output)
        self.assertIn("phalanxctl: memory: expected", output)
        self.assertNotIn("memory: memory:", output)


if __name__ == "__main__":
    main()

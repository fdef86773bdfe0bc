# SPDX-License-Identifier: Apache-2.0
"""phalanx-load finds out before the run what would spoil it."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import BIN, Server, eventually, main  # noqa: E402


def run(*arguments):
    # Nothing listens on this port: whoever looks for a server first ends with 69.
    result = subprocess.run([os.path.join(BIN, "phalanx-load"), "--port", "1", "--num-prompts", "1", *arguments], timeout=60,
                            capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def answer_one(listener, status, body):
    with listener.accept()[0] as client:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
                       % (status, len(body.encode()), body.encode()))


class PhalanxLoad(unittest.TestCase):
    def test_a_result_that_cannot_be_written_is_known_before_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "taken"))
            for place in (("--result-dir", "/proc/none"), ("--result-dir", "/dev/null/none"),
                          ("--result-dir", folder, "--result-filename", "taken")):
                status, output = run("--save-result", *place)
                self.assertNotIn(status, (0, 69), output)
                self.assertIn(place[-1], output)

    def test_looking_for_the_place_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept.json")
            with open(kept, "w") as file:
                file.write("kept")
            os.symlink("nowhere.json", os.path.join(folder, "link.json"))
            for name in ((), ("--result-filename", "new.json"), ("--result-filename", "kept.json"), ("--result-filename", "link.json")):
                self.assertEqual(run("--save-result", "--result-dir", folder, *name)[0], 69)
            self.assertEqual(sorted(os.listdir(folder)), ["kept.json", "link.json"])
            self.assertEqual(os.readlink(os.path.join(folder, "link.json")), "nowhere.json")
            with open(kept) as file:
                self.assertEqual(file.read(), "kept")

    def test_a_result_is_replaced_as_a_whole_or_not_at_all(self):
        with tempfile.TemporaryDirectory() as folder, Server() as server:
            kept, link = os.path.join(folder, "kept.json"), os.path.join(folder, "link.json")
            with open(kept, "w") as file:
                file.write("kept")
            os.chmod(kept, 0o600)
            os.symlink("kept.json", link)

            def save(name, limit):
                return subprocess.run(["sh", "-c", f'ulimit -f {limit}; exec "$@"', "sh", os.path.join(BIN, "phalanx-load"), "--port",
                                       str(server.port), "--num-prompts", "60", "--random-input-len", "3", "--random-output-len", "4",
                                       "--save-result", "--result-dir", folder, "--result-filename", name], timeout=60,
                                      capture_output=True, text=True)
            full = save("link.json", 1)
            self.assertEqual(full.returncode, 75, full.stderr)
            self.assertIn("kept.json: File too large", full.stderr)
            with open(kept) as file:
                self.assertEqual(file.read(), "kept")
            whole = save("link.json", "unlimited")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            with open(kept) as file:
                self.assertEqual(json.load(file)["completed"], 60)
            self.assertEqual(os.stat(kept).st_mode & 0o777, 0o600)
            self.assertEqual(os.readlink(link), "kept.json")
            self.assertEqual(sorted(os.listdir(folder)), ["kept.json", "link.json"])
            self.assertEqual(save("/dev/full", "unlimited").returncode, 75)
            self.assertFalse([name for name in os.listdir("/dev") if "full." in name])

    def test_no_word_of_a_server_reaches_the_terminal_raw(self):
        body = json.dumps({"error": {"message": "\x1b]0;owned\x07 \u202e\n"}})
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = threading.Thread(target=answer_one, args=(listener, 400, body))
            server.start()
            status, output = run("--base-url", f"http://127.0.0.1:{listener.getsockname()[1]}", "--model", "m", "--num-warmups", "1")
            server.join()
        self.assertEqual(status, 69, output)
        self.assertIn("a warm-up request failed: ", output)
        self.assertIn(r"\u{1b}]0;owned\u{7} \u{202e}", output)

    def test_what_was_measured_until_a_signal_or_for_nobody_is_saved(self):
        for name, end, status in (("signal", lambda load: load.send_signal(signal.SIGINT), 130),
                                  ("unread", lambda load: load.stdout.close(), 75)):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, Server() as server:
                count, concurrency = (100_000, 2) if name == "signal" else (3, 1)
                command = [os.path.join(BIN, "phalanx-load"), "--port", server.port, "--num-prompts", count, "--max-concurrency",
                           concurrency, "--random-input-len", 3, "--random-output-len", 4, "--save-result", "--result-dir", folder,
                           "--result-filename", "r.json"]
                load = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    if name == "signal":
                        ended = re.compile(r"request_success_total\{[^}]*\} [1-9]")
                        eventually(lambda: ended.search(server.request("GET", "/metrics")[1]), 60, "requests have ended")
                    end(load)
                    errors = load.stderr.read()
                    self.assertEqual(load.wait(60), status, errors)
                finally:
                    load.kill()
                    load.wait()
                    load.stderr.close()
                    load.stdout.close()
                with open(os.path.join(folder, "r.json")) as file:
                    result = json.load(file)
                self.assertGreater(result["completed"], 0)
                self.assertLess(result["completed"], 100_000)
                self.assertEqual(result["failed"], 0, "those that were given up are none")

    def test_a_target_that_is_no_path_is_refused(self):
        for target in ("/a b", "/a\r\nx: y", "a", "/\u00e4"):
            status, output = run("--model", "m", "--endpoint", target)
            self.assertEqual(status, 64, output)
            self.assertIn("--endpoint: expected a path", output)

    def test_a_url_or_header_that_requests_cannot_have_is_refused(self):
        for words, error in ((("--base-url", "http://u:p@h"), "without a user"), (("--base-url", "http://h?k=1"), "without query"),
                             (("--base-url", "http://h:1/v1/"), "without /v1, with which /v1/completions begins"),
                             (("--base-url", "http://h:1/x/v1/chat/completions/"),
                              "the server's address without the endpoint /v1/chat/completions"),
                             (("--base-url", "http://h:1/v1/completions"), "without the endpoint /v1/completions"),
                             (("--base-url", "http://h:1/v1/models", "--backend", "openai-chat"), "without the endpoint /v1/models"),
                             (("--base-url", "https://h"), "expected http://HOST:PORT"),
                             (("--header", "a b: c"), 'expected "NAME: VALUE"'), (("--header", ": c"), 'expected "NAME: VALUE"')):
            status, output = run("--model", "m", *words)
            self.assertEqual(status, 64, output)
            self.assertIn(error, output)

    def test_no_server_is_its_own_end_and_one_that_hangs_up_is_none(self):
        status, output = run("--model", "m")
        self.assertEqual(status, 69, output)
        self.assertRegex(output, "Failed requests: +1\n")
        self.assertIn("cannot connect to 127.0.0.1:1", output)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = threading.Thread(target=lambda: listener.accept()[0].close())
            server.start()
            status, output = run("--base-url", f"http://127.0.0.1:{listener.getsockname()[1]}", "--model", "m")
            server.join()
        self.assertEqual(status, 1, output)

    def test_a_server_without_model_is_told_with_the_cause(self):
        for answer, cause in (((401, json.dumps({"error": {"message": "no such key"}})), "no such key"), ((404, "<html>gone"), "<html>gone"),
                              ((404, ""), "its body is empty"),
                              ((200, "<html>hello"), "answered 200 and no model: "), ((200, '{"data": []}'), "its list is empty"),
                              ((200, '{"data": [{}]}'), "expected models with an id")):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                server = threading.Thread(target=answer_one, args=(listener, *answer))
                server.start()
                status, output = run("--base-url", f"http://127.0.0.1:{listener.getsockname()[1]}")
                server.join()
            self.assertEqual(status, 69, output)
            self.assertIn(cause, output)
            self.assertIn("name one with --model", output)

    def test_a_dataset_that_cannot_be_read_is_named(self):
        status, output = run("--model", "m", "--dataset-name", "custom", "--dataset-path", "/tmp")
        self.assertEqual(status, 66, output)
        self.assertIn("dataset /tmp: ", output)


if __name__ == "__main__":
    main()

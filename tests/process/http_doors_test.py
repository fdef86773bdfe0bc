# SPDX-License-Identifier: Apache-2.0
"""Who may use a server, how it ends what is open, and that nobody who reads slowly holds it up."""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from exchanges import CHAT, chat, post  # noqa: E402
from phalanx_server import BIN, ROOT, TINY, Server, Stream, eventually, main  # noqa: E402
from raw_http import Wire  # noqa: E402


class Doors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--allowed-hosts", "llm.example", "--allowed-origins", "https://chat.example")
        cls.addClassCleanup(lambda: cls.server.__exit__(None, None, None))

    def ask(self, **headers):
        body = self.server.chat_body("count from 1 to 3", max_tokens=2)
        return self.server.request("POST", "/v1/chat/completions", body, {k.replace("_", "-"): v for k, v in headers.items()})

    def test_a_name_that_somebody_made_resolve_to_this_machine_is_not_answered(self):
        status, answer, _ = self.ask(host=f"evil.example:{self.server.port}")
        self.assertEqual(status, 421)
        self.assertIn("--allowed-hosts evil.example", answer["error"]["message"])
        self.assertEqual(self.ask(host="llm.example")[0], 200)
        self.assertEqual(self.ask(host=f"localhost:{self.server.port}")[0], 200)

    def test_a_page_of_a_foreign_origin_is_refused(self):
        status, answer, _ = self.ask(origin="https://evil.example")
        self.assertEqual(status, 403)
        self.assertIn("--allowed-origins", answer["error"]["message"])
        status, _, headers = self.ask(origin="https://chat.example")
        self.assertEqual((status, headers["access-control-allow-origin"]), (200, "https://chat.example"))
        self.assertEqual(self.ask(origin="http://localhost:3000")[0], 200)

    def test_what_only_begins_with_a_name_that_is_answered_is_refused(self):
        for host in ("localhost:evil.com", "[::1]evil.com", "llm.example:99999"):
            status, answer, _ = self.ask(host=host)
            self.assertEqual(status, 400)
            self.assertIn(f'came "{host}"', answer["error"]["message"])
            status, _, headers = self.ask(origin=f"http://{host}")
            self.assertEqual((status, headers.get("access-control-allow-origin")), (403, None))

    def test_a_body_that_calls_itself_something_else_is_refused(self):
        status, answer, _ = self.ask(content_type="application/x-www-form-urlencoded")
        self.assertEqual(status, 415)
        self.assertIn("content-type: application/json", answer["error"]["message"])

    def test_the_longest_callback_is_told(self):
        self.assertGreater(self.server.longest_callback()[0], 0)


    def test_a_field_that_is_not_known_is_named_and_logged_once(self):
        body = self.server.chat_body("count from 1 to 3", max_tokens=2, presence_penality=1, stream=False)
        for _ in range(2):
            status, _, headers = self.server.request("POST", "/v1/chat/completions", body)
            self.assertEqual((status, headers["x-phalanx-ignored-fields"]), (200, "presence_penality"))
        self.assertEqual(self.server.log_text().count("field=presence_penality"), 1)
        status, _, headers = self.server.request(
            "POST", "/v1/chat/completions", {**body, "stream": True, "minstat": "x"})
        self.assertEqual((status, headers["x-phalanx-ignored-fields"]), (200, "presence_penality,minstat"))
        _, _, headers = self.server.request("POST", "/v1/chat/completions", body, {"origin": "http://localhost:3000"})
        readable = [name.strip() for name in headers["access-control-expose-headers"].split(",")]
        self.assertIn("x-phalanx-ignored-fields", readable)
        self.assertIn("x-request-id", readable)

    def test_routes_that_only_tokenize_name_unknown_fields_too(self):
        for path, body in (("/tokenize", {"prompt": "a", "propmt": 1}), ("/detokenize", {"tokens": [1], "propmt": 1})):
            status, _, headers = self.server.request("POST", path, body)
            self.assertEqual((status, headers["x-phalanx-ignored-fields"]), (200, "propmt"))
        self.assertEqual(self.server.log_text().count("field=propmt"), 1)

    def test_a_large_text_is_tokenized_away_from_the_loop(self):
        text = "count from 1 to 3 " * 200_000  # hundreds of milliseconds of work
        began = time.monotonic()
        status, answer, _ = self.server.request("POST", "/tokenize", {"prompt": text})
        took = time.monotonic() - began
        self.assertEqual((status, len(answer["tokens"])), (200, answer["count"]))
        longest, _ = self.server.longest_callback()
        print(f"longest callback of the loop: {longest * 1e3:.2f} ms of {took * 1e3:.0f}")
        self.assertLess(longest, took / 10, "the work is not the loop's; how long a callback may be is for the adversary's long form")


    def test_an_answer_that_would_be_far_larger_than_its_body_is_refused(self):
        long_token = 378  # <|im_start|>
        status, answer, _ = self.server.request("POST", "/detokenize", {"tokens": [long_token] * 1_600_000})
        self.assertEqual((status, answer["error"]["param"]), (400, "tokens"))
        self.assertIn("at most 16777216 bytes", answer["error"]["message"])
        body = {"prompt": "\u0627" * 1_300_000, "return_token_strs": True}
        status, answer, _ = self.server.request("POST", "/tokenize", body)
        self.assertEqual((status, answer["error"]["param"]), (400, "prompt"))
        self.assertIn("no return_token_strs", answer["error"]["message"])

    def test_a_large_body_finds_a_place_beside_a_small_one(self):
        stream = self.server.stream("count", max_tokens=3000, min_tokens=3000).wait_for_tokens(1)
        body = {"prompt": "a", "max_tokens": 1, "metadata": {"x": "y" * 3_000_000}}
        self.assertEqual(self.server.request("POST", "/v1/completions", body)[0], 200)
        self.assertTrue(stream.thread.is_alive())
        stream.close()

    def test_offsets_of_a_stream_are_those_of_the_whole_answer(self):
        body = {"prompt": "count from 1 to 5", "max_tokens": 12, "min_tokens": 2, "logprobs": 0, "stop": ["aab"], "temperature": 2, "seed": 4}
        _, answer, _ = self.server.request("POST", "/v1/completions", body)
        whole = answer["choices"][0]["logprobs"]["text_offset"]
        stream = Stream(self.server, "/v1/completions", {**body, "stream": True}).finish(20)
        parts = [event["choices"][0]["logprobs"] for event in stream.events if event.get("choices")]
        self.assertEqual([offset for part in parts for offset in part["text_offset"]], whole)
        self.assertEqual(len(whole), 12)


class StrictApi(unittest.TestCase):
    def test_a_field_that_is_not_known_is_refused(self):
        with Server("--strict-api") as server:
            body = {"prompt": "count", "max_tokens": 2}
            self.assertEqual(server.request("POST", "/v1/completions", body)[0], 200)
            status, answer, _ = server.request("POST", "/v1/completions", {**body, "max_new_tokens": 3})
            self.assertEqual((status, answer["error"]["param"]), (400, "max_new_tokens"))
            for path, valid in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})):
                self.assertEqual(server.request("POST", path, valid)[0], 200)
                status, answer, _ = server.request("POST", path, {**valid, "propmt": 3})
                self.assertEqual((status, answer["error"]["param"]), (400, "propmt"))


class ShutdownDeadline(unittest.TestCase):
    def test_what_is_open_at_the_deadline_ends_with_an_error(self):
        with Server("--shutdown-timeout", 0.3, "--runner", "sim", "--sim-step-us", 50000) as server:
            stream = server.stream("count", max_tokens=100, ignore_eos=True).wait_for_tokens(2)
            completion = Stream(server, "/v1/completions", {"prompt": "count", "max_tokens": 100, "ignore_eos": True})
            time.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            stream.finish(20)
            completion.finish(20)
            self.assertTrue(stream.done, stream.error)
            self.assertIn("shutting down", stream.error["message"])
            self.assertEqual(completion.status, 503)
            self.assertEqual(server.process.wait(20), 75)

    def test_an_answer_that_is_not_taken_by_the_deadline_is_told_as_cut(self):
        for takes, status in ((False, 75), (True, 0)):
            with Server("--shutdown-timeout", 1, "--runner", "sim", "--sim-step-us", 200) as server, Wire(server.port, receive_buffer=65536) as wire:
                body = chat(max_tokens=1500, n=100, logprobs=True, ignore_eos=True)
                wire.send(b"".join(post(CHAT, body)))
                eventually(lambda: wire.arrived() > 0, 60, "the answer has begun")
                eventually(lambda: server.status()["requests"] == 0, 10, "all of it is generated")
                server.process.send_signal(signal.SIGTERM)
                if takes:
                    answer = wire.response()  # its connection stays: the server's end alone says that it is over
                    self.assertEqual(answer.status, 200)
                    self.assertGreater(len(answer.body), 8_000_000)
                self.assertEqual(server.process.wait(20), status, f"the client takes it: {takes}")


class StalledLog(unittest.TestCase):
    def test_a_log_that_nobody_reads_holds_nothing_up(self):
        read, write = os.pipe()
        try:
            command = [os.path.join(BIN, "phalanxd"), "--model", TINY, "--port", "0", "--log-level", "trace"]
            self.run_with(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=write, text=True, cwd=ROOT), write)
        finally:
            os.close(read)
            os.close(write)

    def fill(self, write):
        os.set_blocking(write, False)
        try:
            for size in (4096, 1):
                try:
                    while True:
                        os.write(write, b"x" * size)
                except BlockingIOError:
                    pass
        finally:
            os.set_blocking(write, True)

    def run_with(self, process, write):
        server = Server.__new__(Server)
        try:
            line = ""
            while not line.startswith("ready http://"):
                line = process.stdout.readline()
                self.assertTrue(line, f"phalanxd ended with {process.poll()}")
            server.port = int(line.split()[1].rsplit(":", 1)[1])
            self.fill(write)  # from here on no line of any process of the server finds room
            for _ in range(5):
                status, _, _ = server.request("POST", "/v1/completions", {"prompt": "count", "max_tokens": 8}, timeout=30)
                self.assertEqual(status, 200)
            _, text, _ = server.request("GET", "/metrics")
            self.assertGreaterEqual(float(re.search(r"^phalanx_log_lines_dropped_total (\S+)$", text, re.M)[1]), 5, "each request has a line")
            process.send_signal(signal.SIGTERM)
            eventually(lambda: process.poll() is not None, 20, "the server ends")
            self.assertEqual(process.returncode, 0)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(20)
            process.stdout.close()


if __name__ == "__main__":
    main()

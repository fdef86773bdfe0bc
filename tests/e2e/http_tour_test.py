# SPDX-License-Identifier: Apache-2.0
"""What an OpenAI client does, call by call: models, chat, stream, usage, errors, cancellation, and the operator's pages."""
import os
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from phalanx_server import Server, Stream, counted, eventually, main  # noqa: E402


class HttpTour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--dp", 2, "--tp", 2)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def expect_error(self, status, param, *words, path="/v1/chat/completions", **body):
        if path == "/v1/chat/completions":
            body = {"model": "phalanx-tiny", "messages": [{"role": "user", "content": "hi"}], **body}
        got, answer, headers = self.server.request("POST", path, body)
        self.assertEqual(got, status, answer)
        error = answer["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(error["param"], param)
        for word in words:
            self.assertIn(word, error["message"])
        return headers

    def test_models(self):
        status, answer, _ = self.server.request("GET", "/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual(answer["object"], "list")
        self.assertEqual(answer["data"][0]["id"], "phalanx-tiny")
        self.assertGreaterEqual(answer["data"][0]["max_model_len"], 2048)

    def test_chat(self):
        answer = self.server.chat("count from 3 to 40")
        self.assertEqual(answer["object"], "chat.completion")
        self.assertTrue(answer["id"].startswith("chatcmpl-"))
        choice = answer["choices"][0]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertEqual(choice["message"]["content"], counted(3, 40))
        self.assertEqual(choice["finish_reason"], "stop")
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])

    def test_stream_with_usage(self):
        stream = self.server.stream("count from 3 to 40", stream_options={"include_usage": True}).finish()
        self.assertIsNone(stream.error)
        self.assertEqual(stream.text, counted(3, 40))
        self.assertEqual(stream.finish_reason, "stop")
        self.assertTrue(stream.done)
        self.assertEqual(stream.events[0]["choices"][0]["delta"]["role"], "assistant")
        last = stream.events[-1]
        self.assertEqual(last["choices"], [])
        tokens = sum(1 for e in stream.events for c in e["choices"] if "role" not in c["delta"])
        self.assertEqual(last["usage"]["completion_tokens"], tokens)
        whole = self.server.chat("count from 3 to 40")["usage"]
        self.assertEqual({k: last["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")},
                         {k: whole[k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")})

    def test_completions(self):
        body = {"model": "phalanx-tiny", "prompt": "<|im_start|>user\ncount from 5 to 9<|im_end|>\n<|im_start|>assistant\n",
                "max_tokens": 40, "temperature": 0}
        status, answer, _ = self.server.request("POST", "/v1/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["object"], "text_completion")
        text = answer["choices"][0]["text"]
        self.assertEqual(self.server.request("POST", "/v1/completions", {**body, "echo": True})[1]["choices"][0]["text"],
                         body["prompt"] + text)
        ids = self.server.request("POST", "/tokenize", {"model": "phalanx-tiny", "prompt": body["prompt"]})[1]["tokens"]
        self.assertEqual(self.server.request("POST", "/v1/completions", {**body, "prompt": ids})[1]["choices"][0]["text"], text)
        stream = Stream(self.server, "/v1/completions", {**body, "stream": True}).finish()
        self.assertEqual(stream.text, text)

    def test_several_prompts_and_choices(self):
        body = {"model": "phalanx-tiny", "prompt": ["count", "sort"], "n": 2, "max_tokens": 5, "temperature": 0.8, "seed": 4}
        status, answer, _ = self.server.request("POST", "/v1/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2, 3])

    def test_seeds(self):
        def ask(seed):
            return [c["message"]["content"] for c in
                    self.server.chat("hello", seed=seed, temperature=1.5, n=3, max_tokens=12)["choices"]]
        self.assertEqual(ask(1), ask(1))
        self.assertNotEqual(ask(1), ask(2))
        self.assertGreater(len(set(ask(1))), 1, "the choices of one request differ")

    def test_the_log_names_a_drawn_seed_as_a_request_would(self):
        def ask(**fields):
            return self.server.request("POST", "/v1/chat/completions",
                                       self.server.chat_body("hello", temperature=1.5, max_tokens=12, **fields))
        for seed in (None, None, None, None, -5):
            status, answer, headers = ask(**({} if seed is None else {"seed": seed}))
            self.assertEqual(status, 200, answer)
            line = re.compile(rf"request_start req={headers['x-request-id']} .* seed=(-?\d+)\"")
            logged = int(eventually(lambda: line.search(self.server.log_text()), 5, "its line in the log")[1])
            self.assertEqual(logged, logged if seed is None else seed)
            status, again, _ = ask(seed=logged)
            self.assertEqual(status, 200, again)
            self.assertEqual(again["choices"], answer["choices"])

    def test_logprobs(self):
        answer = self.server.chat("count from 3 to 8", logprobs=True, top_logprobs=3)
        content = answer["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(content), answer["usage"]["completion_tokens"])
        for entry in content:
            self.assertLessEqual(entry["logprob"], 0.0)
            self.assertEqual(len(entry["top_logprobs"]), 3)
            likelihoods = [t["logprob"] for t in entry["top_logprobs"]]
            self.assertEqual(likelihoods, sorted(likelihoods, reverse=True))
            self.assertEqual(entry["token"], entry["top_logprobs"][0]["token"], "greedy takes the likeliest")
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])

    def test_stop_strings_and_limits(self):
        answer = self.server.chat("count from 3 to 40", stop=[" 12", "never"])["choices"][0]
        self.assertEqual((answer["message"]["content"], answer["finish_reason"]), (counted(3, 11), "stop"))
        answer = self.server.chat("count from 3 to 40", max_tokens=4)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 4)

    def test_errors(self):
        self.expect_error(400, "temperature", "temperature", temperature=3)
        self.expect_error(400, "max_tokens", "0", max_tokens=0)
        self.expect_error(400, "max_tokens", "100000", "4096", max_tokens=100000)
        self.expect_error(400, "messages", "messages", messages="hi")
        self.expect_error(400, "n", "n", n=0)
        self.expect_error(400, "top_logprobs", "top_logprobs", logprobs=True, top_logprobs=99)
        self.expect_error(400, "tools", "takes none", tools=[{"type": "function", "function": {"name": "f"}}])
        self.expect_error(404, "model", "gpt-5", "phalanx-tiny", model="gpt-5")
        self.expect_error(400, "messages", "context", messages=[{"role": "user", "content": "1 " * 3000}])
        status, answer, _ = self.server.request("POST", "/v1/chat/completions", "{not json")
        self.assertEqual(status, 400)
        self.assertIn("JSON", answer["error"]["message"])
        self.assertEqual(self.server.request("GET", "/nowhere")[0], 404)
        for path in ("/v1/responses", "/v1/messages"):
            status, answer, _ = self.server.request("POST", path, {"model": "phalanx-tiny"})
            self.assertEqual(status, 404)
            self.assertIn("there is /v1/chat/completions", answer["error"]["message"])
        self.assertEqual(self.server.request("GET", "/v1/chat/completions")[0], 405)

    def test_tokenize(self):
        status, answer, _ = self.server.request("POST", "/tokenize", {"model": "phalanx-tiny", "prompt": "count 12 €"})
        self.assertEqual(status, 200)
        self.assertEqual(answer["count"], len(answer["tokens"]))
        status, text, _ = self.server.request("POST", "/detokenize", {"model": "phalanx-tiny", "tokens": answer["tokens"]})
        self.assertEqual((status, text["prompt"]), (200, "count 12 €"))

    def test_disconnect_frees_the_sequence(self):
        stream = self.server.stream("count from 1 to 400", max_tokens=1500).wait_for_tokens(5)
        stream.close()
        left = time.monotonic()
        eventually(lambda: self.server.status()["requests"] == 0, 2, "the request has gone")
        eventually(self.server.ledger_is_zero, 2, "the ledger is zero")
        eventually(lambda: not any(r["running"] for r in self.server.status()["replicas"]), 2, "the sequence has gone")
        self.assertLess(time.monotonic() - left, 2)
        stream.finish()

    def test_operator_pages(self):
        for path in ("/live", "/ready", "/ping", "/health"):
            status, _, _ = self.server.request("GET", path)
            self.assertEqual(status, 200, path)
        self.assertEqual(self.server.request("POST", "/ping", {})[:2], self.server.request("GET", "/ready")[:2])
        health = self.server.request("GET", "/health")[1]
        self.assertEqual(len(health["replicas"]), 2)
        # One document, whoever writes it.
        shown = self.server.status()
        self.assertEqual(list(shown), list(health))
        for part in ("model", "pid", "version", "state"):
            self.assertEqual(shown[part], health[part], part)
        for ours, theirs in zip(shown["replicas"] + shown["fronts"], health["replicas"] + health["fronts"]):
            self.assertEqual(list(ours), list(theirs))
            self.assertEqual(ours["pid"], theirs["pid"])
        self.assertIn("version", self.server.request("GET", "/version")[1])
        self.server.chat("count from 1 to 5")
        metrics = self.server.request("GET", "/metrics")[1]
        for name in ("vllm:num_requests_running", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
                     "vllm:time_to_first_token_seconds_bucket", "vllm:e2e_request_latency_seconds_count",
                     "vllm:request_success_total", "vllm:prefix_cache_queries_total", "phalanx_rank_restarts_total",
                     "phalanx_pending_tokens"):
            self.assertIn(name, metrics)

    def test_request_id_is_echoed(self):
        _, _, headers = self.server.request("GET", "/v1/models", headers={"X-Request-Id": "tour-1"})
        self.assertEqual({k.lower(): v for k, v in headers.items()}.get("x-request-id"), "tour-1")


class ChatTemplates(unittest.TestCase):
    """What a request may say to the template: with one that takes all of it, and with the model's own, which takes less."""

    SOURCE = """{%- for t in tools or [] %}{{- 'tool ' + t.function.name + '\\n' }}{%- endfor %}
{%- for m in messages %}
    {%- if m.role == 'assistant' and loop.first %}{{- raise_exception('The user speaks first.') }}{%- endif %}
    {{- '<|im_start|>' + m.role + '\\n' + m.content }}
    {%- for c in m.tool_calls or [] %}{{- c.function.name ~ c.function.arguments | tojson }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% if calm %}{{- 'calm ' }}{% endif %}{%- endif %}"""
    TOOLS = [{"type": "function", "function": {"name": "count", "parameters": {"type": "object", "properties": {}}}}]

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "template.jinja")
        with open(path, "w", encoding="utf-8") as file:
            file.write(cls.SOURCE)
        cls.server = Server("--dp", 1, "--tp", 1, "--chat-template", path)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.folder.cleanup()

    def prompt(self, messages, **fields):
        """The text of the prompt, special tokens spelled out."""
        status, answer, _ = self.server.request("POST", "/tokenize", {"messages": messages, **fields})
        self.assertEqual(status, 200, answer)
        return self.server.request("POST", "/detokenize", {"tokens": answer["tokens"]})[1]["prompt"], answer["tokens"]

    def expect_error(self, param, *words, messages=None, **fields):
        body = {"messages": messages or [{"role": "user", "content": "hi"}], **fields}
        status, answer, _ = self.server.request("POST", "/v1/chat/completions", body)
        self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        self.assertEqual(answer["error"]["type"], "invalid_request_error")
        for word in words:
            self.assertIn(word, answer["error"]["message"])

    def test_tools_and_calls(self):
        call = {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "count", "arguments": '{"b": 1, "a": "<|im_end|>"}'}}]}
        messages = [{"role": "user", "content": "x"}, call, {"role": "tool", "tool_call_id": "c1", "content": "3"}]
        for choice in ({}, {"tool_choice": "auto"}, {"tool_choice": "none"}):
            text, tokens = self.prompt(messages, tools=self.TOOLS, **choice)
            self.assertEqual(text, "tool count\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
                                   'count{"b": 1, "a": "<|im_end|>"}<|im_end|>\n<|im_start|>tool\n3<|im_end|>\n'
                                   "<|im_start|>assistant\n")
            end = self.server.request("POST", "/tokenize", {"prompt": "<|im_end|>"})[1]["tokens"]
            self.assertEqual(sum(tokens[i:i + len(end)] == end for i in range(len(tokens))), 3, "the client's is text")
        status, answer, _ = self.server.request("POST", "/v1/chat/completions",
                                                {"messages": messages, "tools": self.TOOLS, "max_tokens": 3})
        self.assertEqual(status, 200, answer)
        self.expect_error("tool_choice", "forced", tools=self.TOOLS, tool_choice="required")
        self.expect_error("tools[0].function", tools=[{"type": "function"}])
        call["tool_calls"][0]["function"]["arguments"] = "{"  # as a model may have written it
        self.assertIn('assistant\ncount"{"<|im_end|>', self.prompt(messages)[0])

    def test_continue_final_message(self):
        messages = [{"role": "user", "content": "count from 3 to 40"}, {"role": "assistant", "content": counted(3, 10)}]
        text, _ = self.prompt(messages, continue_final_message=True)
        self.assertTrue(text.endswith("<|im_start|>assistant\n" + counted(3, 10)), text)
        prefixed = [messages[0], {**messages[1], "prefix": True}]
        self.assertEqual(self.prompt(prefixed)[0], text)
        status, answer, _ = self.server.request("POST", "/v1/chat/completions", {
            "messages": messages, "continue_final_message": True, "temperature": 0})
        self.assertEqual(status, 200, answer)
        self.assertEqual(counted(3, 10) + answer["choices"][0]["message"]["content"], counted(3, 40))
        self.expect_error("continue_final_message", "add_generation_prompt", continue_final_message=True,
                          add_generation_prompt=True)

    def test_variables_and_the_templates_words(self):
        hi = [{"role": "user", "content": "hi"}]
        self.assertEqual(self.prompt(hi)[0], "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
        self.assertTrue(self.prompt(hi, chat_template_kwargs={"calm": True})[0].endswith("assistant\ncalm "))
        self.assertEqual(self.prompt(hi, add_generation_prompt=False)[0], "<|im_start|>user\nhi<|im_end|>\n")
        self.expect_error("messages", "The user speaks first.", messages=[{"role": "assistant", "content": "hi"}])
        self.expect_error("chat_template_kwargs.messages", "request itself", chat_template_kwargs={"messages": []})
        self.expect_error("chat_template", "own template", chat_template="{{ 1 }}")
        self.expect_error("documents", "takes none", documents=[{"text": "t"}])


class ServedNames(unittest.TestCase):
    def test_one_model_by_several_names(self):
        with Server("--dp", 1, "--tp", 1, "--served-model-name", "count, org/count-1") as server:
            def expect_every_name():
                models = server.request("GET", "/v1/models")[1]["data"]
                self.assertEqual([model["id"] for model in models], ["count", "org/count-1"])
                for name in ("count", "org/count-1"):
                    self.assertEqual(server.request("GET", "/v1/models/" + name)[1]["id"], name)
                    answer = server.chat("count from 3 to 5", model=name)
                    self.assertEqual((answer["model"], answer["choices"][0]["message"]["content"]), ("count", counted(3, 5)))
                    status, answer, _ = server.request("POST", "/tokenize", {"prompt": "a", "model": name})
                    self.assertEqual(status, 200, answer)
                status, answer, _ = server.request("POST", "/v1/completions", {"prompt": "a", "model": "phalanx-tiny"})
                self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))
                self.assertIn('"count", "org/count-1"', answer["error"]["message"])
            expect_every_name()
            self.assertIn('vllm:request_success_total{finished_reason="stop",model_name="count"} 2', server.request("GET", "/metrics")[1])
            stream = server.stream("count from 1 to 100", model="org/count-1").wait_for_tokens(5)
            for pid in server.front_pids():
                os.kill(pid, signal.SIGKILL)
            stream.finish()
            self.assertEqual(stream.text, counted(1, 100), "another front takes the request by that name")
            self.assertEqual({event["model"] for event in stream.events}, {"count"})
            expect_every_name()


class QueueLimits(unittest.TestCase):
    def test_a_full_server_says_when_to_come_back(self):
        with Server("--dp", 1, "--tp", 1, "--max-num-queued-reqs", "2") as server:
            streams = [server.stream("count from 1 to 300", max_tokens=1400).wait_for_tokens(2) for _ in range(2)]
            status, answer, headers = server.request("POST", "/v1/chat/completions", server.chat_body("hi"))
            self.assertEqual(status, 503, answer)
            self.assertIn("retry-after", {k.lower() for k in headers})
            self.assertIn("limit 2", answer["error"]["message"])
            for stream in streams:
                stream.close()
                stream.finish()
            eventually(lambda: server.status()["requests"] == 0, 5, "the requests have gone")
            server.chat("count from 1 to 3")


class OperatorCommands(unittest.TestCase):
    def test_drain_resume_restart(self):
        with Server("--dp", 2, "--tp", 1) as server:
            self.assertEqual(server.control("ping").returncode, 0)
            self.assertEqual(server.control("drain", "0").returncode, 0)
            self.assertEqual(server.status()["replicas"][0]["state"], "drained")
            for i in range(4):
                server.chat(f"count from {i} to {i + 2}")
            self.assertEqual(server.control("resume", "0").returncode, 0)
            eventually(lambda: server.status()["replicas"][0]["state"] == "ready", 10, "the replica serves again")
            before = server.status()["replicas"][1]["incarnation"]
            self.assertEqual(server.control("restart", "1").returncode, 0)
            eventually(lambda: server.status()["replicas"][1]["incarnation"] == before + 1 and server.all_ready(), 60,
                       "the replica was restarted")
            self.assertNotEqual(server.control("drain", "7").returncode, 0)
            self.assertIn("dp0", server.control("status").stdout)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Chat templates as Hugging Face's transformers renders them: the behaviour that libs/tokenizer reproduces.

Needs Jinja 3.1.2 (Debian's python3-jinja2). The configuration and the meaning of continue_final_message are those of
transformers' utils/chat_template_utils.py.
"""
import copy
import datetime
import functools
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

JINJA = "3.1.2"
NOW = datetime.datetime(2024, 2, 29, 13, 5, 9)  # what strftime_now tells
TAG = "CONTINUE_FINAL_MESSAGE_TAG "

if jinja2.__version__ != JINJA:
    sys.exit(f"chat templates: expected Jinja {JINJA}, found {jinja2.__version__}: run with /usr/bin/python3")


class Raised(Exception):
    """The template called raise_exception; carries its message."""


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def tagged(messages):
    """The messages with the tag behind the last text of the last one, and that text."""
    messages = copy.deepcopy(messages)
    last = messages[-1]
    if not isinstance(last["content"], list):
        text = last["content"]
        last["content"] = text + TAG
        return messages, text
    for part in reversed(last["content"]):
        if "text" in part:
            text = part["text"]
            part["text"] = text + TAG
            return messages, text
    raise ValueError("the final message has no text to continue")


def cut_at_tag(rendered, text):
    if text.strip() not in rendered or TAG.strip() not in rendered:
        raise ValueError("the final message does not appear in the rendered chat")
    at = rendered.rindex(TAG.strip())
    kept = rendered[:at]
    # Where the template took the space behind the tag, it would have taken that of the message as well.
    return kept if rendered[at:at + len(TAG)] == TAG else kept.rstrip()


def takes_parts(env, source):
    """Whether the template goes through the parts of a content, by Jinja's own syntax tree."""
    def is_content(node):
        if isinstance(node, jinja2.nodes.Name):
            return node.name == "content"
        if isinstance(node, jinja2.nodes.Getattr):
            return node.attr == "content"
        if isinstance(node, jinja2.nodes.Getitem):
            if isinstance(node.arg, jinja2.nodes.Slice):
                return is_content(node.node)
            return isinstance(node.arg, jinja2.nodes.Const) and node.arg.value == "content"
        return isinstance(node, (jinja2.nodes.Filter, jinja2.nodes.Test)) and node.node and is_content(node.node)
    return any(is_content(loop.iter) for loop in env.parse(source).find_all(jinja2.nodes.For))


def joined(messages):
    """Servers hand a template that takes text the texts of text parts, joined by line ends."""
    def are_texts(content):
        return isinstance(content, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content)
    return [{**m, "content": "\n".join(p["text"] for p in m["content"])} if are_texts(m.get("content")) else m
            for m in messages]


CALLS = [{"role": "user", "content": "a"},
         {"role": "assistant", "content": "", "tool_calls": [
             {"id": "call00000", "type": "function",
              "function": {"name": "probe_of_calls", "arguments": {"probe_of_arguments": 1}}}]},
         {"role": "tool", "tool_call_id": "call00000", "name": "probe_of_calls", "content": "b"}]


def with_calls(messages, knows_none, are_texts):
    """Servers get calls with an empty content, and have their arguments as objects."""
    def in_form(call):
        function = call.get("function") if isinstance(call, dict) else None
        if not (are_texts and isinstance(function, dict) and isinstance(function.get("arguments"), dict)):
            return call
        return {**call, "function": {**function, "arguments": json.dumps(function["arguments"], ensure_ascii=False)}}
    changed = []
    for message in messages:
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            message = {**message, "tool_calls": [in_form(call) for call in calls]}
            if knows_none and message.get("content") == "":
                message["content"] = None
        changed.append(message)
    return changed


@functools.lru_cache(maxsize=64)
def form_of_calls(env, source, constants):
    """The first form in which the template shows a call; the usual one if none does."""
    for form in ((False, False), (True, False), (False, True), (True, True)):
        try:
            text = env.from_string(source).render(messages=with_calls(CALLS, *form), tools=None, documents=None,
                                                  add_generation_prompt=True, **dict(constants))
        except Exception:  # it does not fit this form, whatever Python says
            continue
        if "probe_of_calls" in text and "probe_of_arguments" in text and "'probe_of_arguments'" not in text:
            return form
    return False, False


def render(env, source, case, constants):
    """A rendering of {messages, tools, documents, variables, add_generation_prompt, continue_final_message}."""
    template = env.from_string(source)
    going_on = case.get("continue_final_message", False)
    if going_on and case.get("add_generation_prompt"):
        raise ValueError("continue_final_message and add_generation_prompt exclude each other")
    messages = with_calls(case["messages"], *form_of_calls(env, source, tuple(sorted(constants.items()))))
    messages, text = messages if takes_parts(env, source) else joined(messages), ""
    if going_on:
        messages, text = tagged(messages)
    rendered = template.render(messages=messages, tools=case.get("tools"), documents=case.get("documents"),
                               add_generation_prompt=case.get("add_generation_prompt", not going_on),
                               **{**constants, **case.get("variables", {})})
    return cut_at_tag(rendered, text) if going_on else rendered


def outcome(env, source, case, constants):
    """{"rendered": text}, {"raised": the template's message} or {"error": Python's}."""
    try:
        return {"rendered": render(env, source, case, constants)}
    except Raised as raised:
        return {"raised": str(raised)}
    except Exception as error:  # whatever Python raises, the template does not fit the case
        return {"error": f"{type(error).__name__}: {error}"}

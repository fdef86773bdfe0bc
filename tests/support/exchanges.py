# SPDX-License-Identifier: Apache-2.0
"""Requests of every shape, what a server says to them undisturbed, and whether it says the same at another time."""
import collections
import json
import time

from raw_http import CONTINUE, Cut, Exchange, Malformed, Wire, difference, normal, run, stays_open

CHAT, TEXT, TOKENIZE = "/v1/chat/completions", "/v1/completions", "/tokenize"
# Arguments of a server with steps of 1.5 ms, whose tokens are drawn by the seed of the request: all characters, and halves of some.
SLOW = ("--runner", "sim", "--sim-step-us", 1500)
SEVERAL = 40  # tokens


# ---- what is sent

def head(path, *fields, method="POST", version="1.1"):
    return "\r\n".join([f"{method} {path} HTTP/{version}", "host: localhost", *fields, "", ""]).encode()


def get(path, *fields, method="GET", version="1.1"):
    return head(path, *fields, method=method, version=version)


def post(path, body, *fields, version="1.1"):
    """(head, body)"""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    return head(path, "content-type: application/json", f"content-length: {len(data)}", *fields, version=version), data


def chat(text="count", **fields):
    return {"model": "phalanx-tiny", "messages": [{"role": "user", "content": text}], **fields}


def in_pieces(data, size):
    return [data[i:i + size] for i in range(0, len(data), size)]


def whole(name, path, body, *fields, version="1.1", **more):
    first, data = post(path, body, *fields, version=version)
    return Exchange(name, [first + data], body_from=len(first), **more)


def pieces_of(name, path, body, size):
    first, data = post(path, body)
    return Exchange(name, [first, *in_pieces(data, size)], body_from=len(first))


def chunked(name, path, body, size):
    """A body in chunks, each cut into two pieces; the last piece ends in the middle of the last line."""
    first = head(path, "content-type: application/json", "transfer-encoding: chunked")
    pieces = [first]
    for part in in_pieces(json.dumps(body).encode(), size):
        chunk = f"{len(part):x}\r\n".encode() + part + b"\r\n"
        pieces += [chunk[:len(chunk) // 2], chunk[len(chunk) // 2:]]
    return Exchange(name, [*pieces, b"0\r", b"\n\r\n"], body_from=len(first))


def expecting(name, path, body):
    first, data = post(path, body, "expect: 100-continue")
    return Exchange(name, [first, CONTINUE, data[:len(data) // 2], data[len(data) // 2:]], body_from=len(first))


VERSION = Exchange("version", [get("/version")])


def slow_exchanges():
    """Of a server whose steps take their time."""
    def seeded(seed, **fields):
        return chat(seed=seed, max_tokens=fields.pop("max_tokens", SEVERAL), **fields)
    stream = dict(stream=True)
    three = [post(CHAT, seeded(20, max_tokens=12, **stream)), post(CHAT, seeded(21, max_tokens=12)), post(TEXT, {
        "prompt": "a", "max_tokens": 12, "seed": 22, **stream})]
    return [
        whole("chat stream", CHAT, seeded(1, **stream)),
        whole("chat stream with the client's own id and usage", CHAT, seeded(2, stream_options={"include_usage": True}, **stream),
              "x-request-id: the-clients-own"),
        whole("chat stream of three choices with logprobs", CHAT, seeded(3, n=3, logprobs=True, **stream)),
        whole("completions stream with echo", TEXT, {"prompt": "count from 1 to 3", "echo": True, "seed": 4, "max_tokens": SEVERAL, **stream}),
        whole("completions stream of two prompts", TEXT, {"prompt": ["a", "b"], "n": 2, "seed": 5, "max_tokens": SEVERAL, **stream}),
        whole("whole chat answer", CHAT, seeded(6)),
        whole("whole chat answer of four choices with logprobs", CHAT, seeded(7, n=4, logprobs=True)),
        whole("whole answer that closes its connection", CHAT, seeded(8), "connection: close"),
        whole("HTTP/1.0 stream", CHAT, seeded(9, **stream), version="1.0"),
        whole("HTTP/1.0 whole answer", CHAT, seeded(10), version="1.0"),
        whole("stream that closes its connection", CHAT, seeded(11, **stream), "connection: close"),
        Exchange("head of the models", [get("/v1/models", method="HEAD")], heads=(True,)),
        Exchange("models", [get("/v1/models")]),
        Exchange("metrics", [get("/metrics")], same_body=False),
        Exchange("health", [get("/health")], same_body=False),
        Exchange("head of a request in pieces", in_pieces(get("/version", "x-request-id: mine", "x-other: " + 300 * "a"), 60)),
        expecting("stream behind 100 Continue", CHAT, seeded(12, **stream)),
        expecting("answer behind 100 Continue", CHAT, seeded(13)),
        chunked("chunked body of a stream", CHAT, seeded(14, user="u" * 200, **stream), 40),
        chunked("chunked body of an answer", CHAT, seeded(15, user="u" * 200), 60),
        pieces_of("body of a stream, a few bytes at a time", CHAT, seeded(16, **stream), 7),
        pieces_of("body of an answer, a few bytes at a time", CHAT, seeded(17), 9),
        Exchange("three pipelined requests", [b"".join(a + b for a, b in three)], heads=(False,) * 3),
        Exchange("a stream and GETs pipelined", [b"".join(three[0]) + get("/v1/models", method="HEAD") + get("/nope") + get("/version")],
                 heads=(False, True, False, False)),
        whole("bad JSON", CHAT, b'{"model": "phalanx-tiny", "messages": [}'),
        whole("bad field", CHAT, seeded(18, n="x")),
        pieces_of("unknown model, in pieces", CHAT, {**seeded(19), "model": "other"}, 30),
        Exchange("no such page", [get("/nope")]),
    ]


def computed_exchanges():
    """Of the model itself: what its logits say, and texts that end where they should."""
    stream = dict(stream=True)
    text = "count from 100 to 160"
    return [
        whole("stream of likely tokens", CHAT, chat(text, logprobs=True, top_logprobs=5, n=3, temperature=0.8, seed=1, max_tokens=120, **stream)),
        whole("stream that a stop string ends", CHAT, chat(text, stop=["40 14"], stream_options={"include_usage": True}, **stream)),
        whole("stream of choices that stop strings end in turn", CHAT, chat(
            text, n=4, temperature=1.4, seed=2, max_tokens=150, stop=["33", "9 1"], logprobs=True, **stream)),
        whole("completions stream with echo and stop", TEXT, {"prompt": text, "echo": True, "stop": ["40 14"], "max_tokens": 250, **stream}),
        whole("completions stream with logprobs", TEXT, {"prompt": text, "logprobs": 4, "max_tokens": 150, "ignore_eos": True, **stream}),
        whole("answer that a stop string ends", CHAT, chat(text, stop=["50 15"], include_stop_str_in_output=True)),
        whole("answer of four choices with logprobs", CHAT, chat(text, n=4, temperature=1, seed=3, logprobs=True, top_logprobs=4, max_tokens=120)),
        pieces_of("large body of a tokenization", TOKENIZE, {"prompt": "count from 1 to 3 " * 40_000}, 200_000),
        pieces_of("large body that is refused", CHAT, chat("count from 1 to 3 " * 110_000), 500_000),
    ]


# ---- what is answered

class Undisturbed:
    """What each exchange says, and how many bytes and seconds that takes."""

    def __init__(self, server, exchanges):
        self.of = {}
        for exchange in [VERSION, *exchanges]:
            with Wire(server.port) as wire:
                began = time.monotonic()
                answers = run(wire, exchange)
                took = time.monotonic() - began
                self.of[exchange.name] = [normal(answer, exchange) for answer in answers], wire.received, took

    def answers(self, exchange):
        return self.of[exchange.name][0]

    def bytes(self, exchange):
        return self.of[exchange.name][1]

    def seconds(self, exchange):
        return self.of[exchange.name][2]


class Tally:
    """How exchanges came out."""

    def __init__(self):
        self.count, self.wrong = collections.Counter(), []

    def note(self, kind, words=""):
        self.count[kind] += 1
        if kind != "equal":
            self.wrong.append(f"{kind}: {words}")

    def __str__(self):
        return ", ".join(f"{self.count[kind]} {kind}" for kind in ("equal", "cut", "malformed", "different"))


def shown(wrong):
    """Some of them, the worst kinds first."""
    kinds = ("different", "malformed", "cut")
    return "\n".join(sorted(wrong, key=lambda words: kinds.index(words.split(":")[0]))[:20])


def nothing(*_):
    pass


def attempt(wire, exchange, undisturbed, tally, what, moments=(), after_piece=nothing, begun=nothing):
    """Runs it and notes how it came out. Returns whether the connection can take another one. begun() is called when the count of
    its bytes has begun."""
    try:
        wire.begin(moments)
        begun()
        answers = run(wire, exchange, after_piece)
        wrong = difference(undisturbed.answers(exchange), [normal(answer, exchange) for answer in answers])
        tally.note(*(("different", f"{exchange.name}, {what}: {wrong}") if wrong else ("equal",)))
        if all(stays_open(answer) for answer in answers):
            return not wrong
        wire.finish()
        return False
    except (Cut, Malformed) as error:
        tally.note("cut" if isinstance(error, Cut) else "malformed", f"{exchange.name}, {what}: {error}")
        return False

# SPDX-License-Identifier: Apache-2.0
"""Requests as no client should send them, made of valid ones; and the exchange of such a request with a server."""
import io
import json
import socket
import struct
import time
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple

CHAT, TEXT, TOKENIZE, DETOKENIZE = "/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"
MODEL = '"phalanx-tiny"'

# Values as they stand in the JSON text, so that what JSON itself refuses is among them.
NUMBERS = ["0", "-0", "-0.0", "1", "-1", "0.5", "2", "2.0000001", "100", "101", "128", "129", "1e-7", "1e-10", "1e-20", "1.2e-38",
           "1.17e-38", "1e-39", "1e-40", "1e-45", "1e-46", "1e-50", "-1e-40", "1e-300", "2.2250738585072014e-308", "5e-324",
           "3.4e38", "3.5e38", "1e300", "1e400", "-1e400", "1e999999999", "1e-999999999", "2147483647", "2147483648", "-2147483649",
           "4294967295", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
           "18446744073709551616", "9" * 400, "0." + "0" * 400 + "1", "NaN", "nan", "Infinity", "-Infinity", "inf", "00", "01", "+1",
           ".5", "1.", "1e", "0x10", "--1", "1_000", "1,5", "\u221e"]
WRONG = ["null", "true", "false", '""', '"1"', '"NaN"', '"1e-40"', "[]", "[1]", "[[1]]", "{}", '{"1":1}', "[null]", '"\\u0000"',
         '"\\ud800"', "tru", "'a'", "undefined", ""]
NUMBER_FIELDS = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed",
                 "min_tokens", "top_logprobs", "logprobs", "best_of", "priority", "length_penalty"]
LENGTH_FIELDS = ["max_tokens", "max_completion_tokens"]
OTHER_FIELDS = ["model", "messages", "prompt", "stop", "stop_token_ids", "logit_bias", "stream", "stream_options", "n", "echo", "user", "cache_salt",
                "ignore_eos", "tools", "tool_choice", "documents", "chat_template", "chat_template_kwargs", "add_generation_prompt",
                "continue_final_message", "add_special_tokens", "skip_special_tokens", "include_stop_str_in_output",
                "response_format", "functions", "suffix", "modalities", "metadata", "tokens", "return_token_strs", "bad_words"]
MISSPELT = ["presence_penality", "max_new_tokens", "grammar", "Temperature", "temperature ", "", "__proto__", "\u0000", "\u202e", "a" * 5000]
TEXTS = ["", " ", "\u0000", "<|im_end|>", "<|endoftext|><|im_start|>system\n", "\u202e\u200b\ufeff", "\U0001f600" * 50, "e\u0301" * 200,
         "a" * 3000, " " * 3000, "\n" * 3000, "{{ 7 * 7 }}{% for i in range(10**9) %}", "%s%n%x", "\x7f\x1b[2J", "\ufffd\uffff", "1" * 2000]


class Case(NamedTuple):
    """What is sent and what may come of it."""
    kind: str
    pieces: list  # of bytes, one sent after the other
    pause: float = 0.0  # between the pieces
    leave: str = ""  # "close", "reset": goes after the last piece; "midway": at the first byte of an answer; else it waits
    broken: bool = False  # as HTTP, so that the server may close instead of answering, or wait for the rest


class Outcome(NamedTuple):
    statuses: list  # of the complete answers
    faults: list  # what must not be, in words
    seconds: float


def quoted(text):
    return json.dumps(text)


def message(text, role="user"):
    return f'{{"role":{quoted(role)},"content":{quoted(text)}}}'


def body_of(members):
    return "{" + ",".join(f"{quoted(name)}:{value}" for name, value in members) + "}"


def put(members, name, value):
    return [member for member in members if member[0] != name] + [(name, value)]


def many(count, of="{}"):
    return "[" + ",".join(of.format(i) for i in range(count)) + "]"


def http(path, body=b"", method="POST", fields=(), content_type="application/json", close=True, host="localhost", version="HTTP/1.1"):
    body = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    lines = [f"{method} {path} {version}"]
    lines += [f"Host: {host}"] if host is not None else []
    lines += [f"Content-Type: {content_type}"] if content_type is not None else []
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    lines += ["Connection: close"] if close else []
    return "\r\n".join([*lines, *fields, "", ""]).encode("utf-8", "surrogatepass") + body


def head_of(*fields, path=CHAT, host="localhost"):
    return "\r\n".join([f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", "Connection: close", *fields, "",
                        ""]).encode()


def chunk(data, size=None, extension=""):
    return f"{size or format(len(data), 'x')}{extension}\r\n".encode() + data + b"\r\n"


def valid(rng):
    """(path, members of the body) of a request that is served."""
    path = rng.choice([CHAT, CHAT, CHAT, TEXT, TEXT, TOKENIZE, DETOKENIZE])
    first = rng.randrange(100)
    text = f"count from {first} to {first + 9}" if rng.random() < 0.8 else "count from 1 to 3 " * rng.randrange(1, 60)
    if path == TOKENIZE:
        return path, [("model", MODEL), ("prompt", quoted(text))]
    if path == DETOKENIZE:
        return path, [("model", MODEL), ("tokens", json.dumps([rng.randrange(384) for _ in range(rng.randrange(1, 50))]))]
    members = [("model", MODEL), ("messages", f"[{message(text)}]") if path == CHAT else ("prompt", quoted(text)), ("max_tokens", "8")]
    usual = [("temperature", "0.8"), ("top_p", "0.9"), ("top_k", "20"), ("min_p", "0.05"), ("repetition_penalty", "1.1"),
             ("presence_penalty", "0.3"), ("frequency_penalty", "0.2"), ("seed", str(rng.randrange(1 << 40))), ("stop", '"9"'),
             ("n", str(rng.randrange(1, 5))), ("logit_bias", '{"7":2}'), ("stream", "true"), ("stop_token_ids", "[300]"),
             ("logprobs", "true" if path == CHAT else "3")]
    return path, members + rng.sample(usual, rng.randrange(4))


def generating(rng):
    while True:
        path, members = valid(rng)
        if path in (CHAT, TEXT):
            return path, members


def sent(kind, path, body, **how):
    return Case(kind, [http(path, body, **how)])


# --- each makes a case of one kind

def number(rng):
    path, members = generating(rng)
    return sent("number", path, body_of(put(members, rng.choice(NUMBER_FIELDS), rng.choice(NUMBERS))))


def length(rng):
    path, members = generating(rng)
    members = [m for m in members if m[0] not in ("n", "max_tokens")]
    return sent("length", path, body_of(put(members, rng.choice(LENGTH_FIELDS), rng.choice(NUMBERS + WRONG))))


def wrong_type(rng):
    path, members = valid(rng)
    name = rng.choice(NUMBER_FIELDS + OTHER_FIELDS + [m[0] for m in members if m[0] != "max_tokens"])
    return sent("wrong type", path, body_of(put(members, name, rng.choice(WRONG + NUMBERS[:12]))))


def several(rng):
    path, members = generating(rng)
    for _ in range(rng.randrange(2, 6)):
        members = put(members, rng.choice(NUMBER_FIELDS), rng.choice(NUMBERS[:35]))
    return sent("several", path, body_of(members))


def legal_extremes(rng):
    path, members = generating(rng)
    for name, value in rng.sample([("temperature", "1e-5"), ("temperature", "2"), ("top_p", "1e-10"), ("min_p", "1"), ("top_k", "1"),
                                   ("repetition_penalty", "0.01"), ("repetition_penalty", "100"), ("presence_penalty", "-2"),
                                   ("frequency_penalty", "-2"), ("min_tokens", "8"), ("ignore_eos", "true"),
                                   ("stop_token_ids", many(128)), ("seed", "-9223372036854775808"),
                                   ("logit_bias", body_of([(str(i), rng.choice(["100", "-100"])) for i in range(384)]))], 4):
        members = put(members, name, value)
    return sent("legal extremes", path, body_of(members))


def duplicate(rng):
    path, members = valid(rng)
    name, value = rng.choice(members)
    return sent("duplicate key", path, body_of([*members, (name, rng.choice([value, *WRONG[:8]]))]))


def unknown(rng):
    path, members = valid(rng)
    extra = [(rng.choice(MISSPELT), rng.choice(NUMBERS[:10] + WRONG[:9])) for _ in range(rng.randrange(1, 3))]
    return sent("unknown field", path, body_of([*members, *dict(extra).items()]))


def deep(rng):
    path, members = valid(rng)
    depth = rng.choice([31, 32, 63, 64, 65, 100, 1000, 100_000])
    value = rng.choice(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth])
    return sent("deep", path, body_of(put(members, rng.choice(["x", "metadata", "messages", "tools", "chat_template_kwargs", "stop"]), value)))


def wide(rng):
    path, members = valid(rng)
    count = rng.choice([33, 1000, 20_000])
    if rng.random() < 0.5:
        return sent("wide", path, body_of([*members, *((f"x{i}", "1") for i in range(count))]))
    name = rng.choice(["logit_bias", "metadata", "chat_template_kwargs", "stream_options"])
    return sent("wide", path, body_of(put(members, name, body_of([(str(i), "1") for i in range(count)]))))


def huge_array(rng):
    path, members = generating(rng)
    name, of = rng.choice([("stop_token_ids", "{}"), ("stop", '"{}x"'), ("prompt", '"{}"'), ("prompt", "7"), ("prompt", "[{}]"),
                           ("messages", message("a").replace("{", "{{").replace("}", "}}")), ("tools", "{{}}"), ("documents", "{{}}")])
    return sent("huge array", TEXT if name == "prompt" else path, body_of(put(members, name, many(rng.choice([129, 5000, 100_000]), of))))


def huge_text(rng):
    path = rng.choice([CHAT, TEXT, TOKENIZE])
    text = rng.choice(["count from 1 to 3 ", "a", " ", "\u00e9", "1", "<|im_end|>", "\n"]) * rng.choice([5000, 50_000, 200_000])
    member = ("messages", f"[{message(text)}]") if path == CHAT else ("prompt", quoted(text))
    return sent("huge text", path, body_of([("model", MODEL), member] + ([("max_tokens", "4")] if path != TOKENIZE else [])))


def choices(rng):
    path, members = generating(rng)
    members = put(members, "n", rng.choice(["0", "16", "128", "129", "-1", "1e-40", "1e300", "4294967296", "2.5", '"2"']))
    if path == TEXT and rng.random() < 0.5:
        members = put(members, "prompt", many(rng.choice([2, 8, 128, 129]), '"{}"'))
    if rng.random() < 0.3:
        members = put(members, "logprobs", "true" if path == CHAT else "5")
    if rng.random() < 0.2:
        members = put(members, "echo", "true")
    return sent("choices", path, body_of(put(members, "max_tokens", "3")))


def odd_text(rng):
    path, members = generating(rng)
    text = "".join(rng.choice(TEXTS) for _ in range(rng.randrange(1, 3)))
    member = ("messages", f"[{message(text, rng.choice(['user', 'system', 'tool', 'assistant', 'root', '']))}]")
    return sent("odd text", path, body_of(put(members, *(member if path == CHAT else ("prompt", quoted(text))))))


def odd_messages(rng):
    one = rng.choice(['{"role":"user"}', '{"content":"a"}', '{"role":"user","content":[{"type":"image_url","image_url":"x"}]}',
                      '{"role":"user","content":[]}', '{"role":"user","content":[{"type":"text"}]}', '{"role":1,"content":1}', "{}", "1",
                      '{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}',
                      '{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"' + "[" * 90 + '"}}]}',
                      '{"role":"tool","content":"x","tool_call_id":5}', '{"role":"user","content":null}'])
    members = [("model", MODEL), ("messages", "[" + ",".join([one] * rng.choice([1, 2, 200])) + "]"), ("max_tokens", "4")]
    if rng.random() < 0.3:
        members.append(("tools", rng.choice(['[{"type":"function","function":{"name":"f","parameters":' + "[" * 40 + "]" * 40 + "}}]",
                                             '[{"type":"function"}]', '[{"type":"function","function":{"name":""}}]'])))
    return sent("odd messages", CHAT, body_of(members))


def broken_json(rng):
    path, members = valid(rng)
    body = body_of(members).encode()
    at = rng.randrange(len(body))
    odd = bytes([rng.randrange(256)])
    body = rng.choice([body[:at], body[:at] + odd + body[at + 1:], body[:at] + odd + body[at:], body + body, b"\xef\xbb\xbf" + body,
                       body.decode().encode("utf-16"), b"", b" ", b"null", b"[]", b"\x00", b'"' + b"\\" * 1001, body[:at] + b"\xff\xfe" + body[at:]])
    return sent("broken JSON", path, body)


def odd_place(rng):
    method = rng.choice(["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "BREW", "post"])
    path = rng.choice([CHAT, TEXT, "/", "/v1/models", "/v1/models/" + "x" * 500, "/v1/models/..%2f..%2fetc", "/%00", "/%zz", "/v1/%63hat/completions",
                       "/metrics", "/health", "//", "/v1/chat/completions/", "/tokenize?" + "a=b&" * 500, "*", "nowhere", "http://localhost/live"])
    return sent("odd place", path, b"", method=method)


def odd_kind(rng):
    path, members = valid(rng)
    kind = rng.choice([None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16",
                       "APPLICATION/JSON", "application/json;" + "a" * 3000, "application/problem+json", "*/*", "\u00e9"])
    return sent("odd content type", path, body_of(members), content_type=kind)


def odd_fields(rng):
    path, members = valid(rng)
    body = body_of(members)
    fields = rng.choice([[f"X-{i}: 1" for i in range(300)], ["X: " + "a" * 70_000], ["X: 1", " folded"], ["Host: localhost"], ["Content-Length: 5"],
                         ["Transfer-Encoding: chunked"], ["Transfer-Encoding: gzip"], ["Origin: https://evil.example"], ["Origin: null"],
                         ["Accept-Encoding: br", "Cookie: " + "a=b;" * 500], ["No colon"], [": no name"], ["X\x00: 1"], ["X: \x01"],
                         ["Expect: 100-continue"], ["Expect: a miracle"], ["Upgrade: h2c", "Connection: upgrade"], ["Content-Encoding: gzip"]])
    host = rng.choice(["localhost"] * 6 + ["evil.example", None, "", "a b", "localhost:99999999", "[::1]", "127.0.0.1:1"])
    version = rng.choice(["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "HTTP/1.", "ICY"])
    return Case("odd header", [http(path, body, fields=fields, host=host, version=version)], broken=True)


def odd_length(rng):
    path, members = valid(rng)
    body = body_of(members).encode()
    length = rng.choice(["-1", "0", "1", str(len(body) - 1), str(len(body) + 1), "8388609", "99999999999999999999", "0x10", "1e3", "", " 5", "+5"])
    return Case("odd length", [head_of(f"Content-Length: {length}", path=path) + body], broken=True)


def chunked(rng):
    path, members = valid(rng)
    body = body_of(members).encode()
    size = rng.choice([1, 7, 64, len(body)])
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    extension = rng.choice(["", "", ";a=b", ";" + "x" * 50])
    trailer = rng.choice([b"", b"", b"X: 1\r\n", b"Content-Length: 5\r\nHost: evil\r\n"])
    stream = b"".join(chunk(part, extension=extension if i < 20 else "") for i, part in enumerate(parts)) + b"0\r\n" + trailer + b"\r\n"
    pieces = [head_of("Transfer-Encoding: chunked", path=path), stream]
    if rng.random() < 0.3:
        pieces = [pieces[0], *(stream[i:i + len(stream) // 8 + 1] for i in range(0, len(stream), len(stream) // 8 + 1))]
    return Case("chunked", pieces, pause=0.01)


def broken_chunks(rng):
    path, members = valid(rng)
    body = body_of(members).encode()
    stream = rng.choice([chunk(body, "FFFFFFFFFFFFFFFF"), chunk(body, "-1"), chunk(body, "0x5"), chunk(body, "0" * 30 + "5"), chunk(body, "1"),
                         chunk(body).replace(b"\r\n", b"\n"), chunk(body)[:-2] + b"0\r\n\r\n", b"0\r\n\r\n" + chunk(body), b"\r\n\r\n", b"zz\r\n",
                         chunk(body, extension=";" + "x" * 100_000), chunk(body) + b"0\r\n" + b"X: 1\r\n" * 20_000 + b"\r\n", chunk(body),
                         chunk(body, extension=";\x01"), chunk(body) + b"0\r\n\x00: 1\r\n\r\n", chunk(b" " * 65536) * 140 + b"0\r\n\r\n"])
    return Case("broken chunks", [head_of("Transfer-Encoding: chunked", path=path) + stream], broken=True)


def garbage(rng):
    return Case("garbage", [rng.choice([rng.randbytes(500), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200), b"\r\n" * 1000,
                                        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET", b"\n\n\n", b"GET / HTTP/1.1\r\n\r\n", b"A" * 100_000,
                                        b"GET  /  HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x00" * 1000, b"GET /live\r\n\r\n"])], broken=True)


def disconnect(rng):
    path, members = generating(rng)
    members = put(members, "n", str(rng.choice([1, 4, 16]))) if rng.random() < 0.3 else members
    if rng.random() < 0.5:
        members = put(put(members, "stream", "true"), "max_tokens", "200")
    data = http(path, body_of(members))
    moment = rng.choice(["in the header", "in the body", "at once", "midway"])
    cut = {"in the header": rng.randrange(1, 60), "in the body": len(data) - rng.randrange(1, 20)}.get(moment, len(data))
    return Case(f"gone {moment}", [data[:cut]], leave="midway" if moment == "midway" else rng.choice(["close", "reset"]))


def pipelined(rng):
    parts = []
    count = rng.randrange(2, 9)
    for i in range(count):
        path, members = valid(rng)
        if rng.random() < 0.3:
            members = put(members, rng.choice(NUMBER_FIELDS), rng.choice(NUMBERS))
        parts.append(http(path, body_of(members), close=i == count - 1))
    if rng.random() < 0.25:
        return Case("pipelined, then gone", [b"".join(parts)], leave=rng.choice(["close", "reset", "midway"]))
    return Case("pipelined", [b"".join(parts)] if rng.random() < 0.5 else parts, pause=0.01)


def slowly(rng):
    path, members = valid(rng)
    data = http(path, body_of(members))
    size = len(data) // 12 + 1
    return Case("slowly", [data[i:i + size] for i in range(0, len(data), size)], pause=0.03)


def too_large(_rng):
    return Case("too large", [http(CHAT, b" " * (8388608 + 1))], broken=True)


def as_it_should_be(rng):
    path, members = valid(rng)
    return sent("valid", path, body_of(members))


# One round; a kind stands there as often as it weighs.
ROUND = [number] * 7 + [wrong_type] * 6 + [length, several, several, legal_extremes, legal_extremes, duplicate, duplicate, unknown, deep, wide,
                                           huge_array, huge_text, choices, choices, odd_text, odd_text, odd_messages, broken_json, broken_json, odd_place,
                                           odd_kind, odd_fields, odd_fields, odd_length, chunked, broken_chunks, broken_chunks, garbage, disconnect,
                                           disconnect, disconnect, pipelined, slowly, too_large, as_it_should_be]


def cases(rng, count):
    """`count` of them; every round has every kind, so that the first tenth of a long run has met all that costs memory."""
    made = []
    while len(made) < count:
        kinds = ROUND[:]
        rng.shuffle(kinds)
        made += [kind(rng) for kind in kinds]
    return made[:count]


class _Kept(io.BytesIO):
    """Survives the close() that a response does at its end, as further ones may follow."""

    def makefile(self, _mode):
        return self

    def close(self):
        pass


def answers_in(received, method):
    """[(status, content type, body)] of the complete answers; the last is None if it is cut off."""
    source, found = _Kept(received), []
    while source.tell() < len(received):
        response = HTTPResponse(source, method=method)
        try:
            response.begin()
            found.append((response.status, response.getheader("content-type", ""), response.read()))
        except (HTTPException, ValueError):
            return [*found, None]
    return found


def faults_of(answer):
    """What is wrong with an answer, whatever was asked."""
    if answer is None:
        return ["an answer is cut off"]
    status, kind, body = answer
    if status in (500, 502, 504):
        return [f"{status}: {body[:300]!r}"]
    if status == 200 and kind.startswith("text/event-stream"):
        if b'data: {"error"' in body:
            return [f"an error in a stream: {body[-300:]!r}"]
        return [] if body.endswith(b"data: [DONE]\n\n") else [f"a stream without its end: {body[-100:]!r}"]
    if status >= 400 and body:
        try:
            return [] if json.loads(body)["error"]["message"] else [f"{status} with an empty message"]
        except (ValueError, KeyError, TypeError):
            return [f"{status} whose body is no error object: {body[:100]!r}"]
    return []


def exchange(port, case, seconds):
    """Sends the case and reads until the server closes. An answer later than `seconds` is a fault, as is none."""
    began = time.monotonic()
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            for piece in case.pieces:
                connection.sendall(piece)
                time.sleep(case.pause)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it refused before all was sent, and its answer is there
        if case.leave == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if case.leave in ("close", "reset"):
            return Outcome([], [], time.monotonic() - began)
        if not _read(connection, case, began + seconds, received):
            return Outcome([], [f"no end of the answer within {seconds} s; so far {bytes(received[-200:])!r}"], seconds)
    took = time.monotonic() - began
    if case.leave == "midway":
        return Outcome([], [], took)
    answers = answers_in(bytes(received), "HEAD" if case.pieces[0].startswith(b"HEAD ") else "POST")
    if case.broken:
        answers = [answer for answer in answers if answer is not None]
    elif not answers:
        return Outcome([], ["closed without an answer"], took)
    return Outcome([a[0] for a in answers if a], [fault for answer in answers for fault in faults_of(answer)], took)


def _read(connection, case, deadline, received):
    """False when the deadline passed. A broken request that the server waits for more of is ended after two seconds of silence."""
    patience = case.broken
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(min(left, 2.0) if patience and not received else left)
        try:
            data = connection.recv(1 << 16)
        except TimeoutError:
            if not patience or received:
                continue
            patience = False
            connection.shutdown(socket.SHUT_WR)
            continue
        except ConnectionResetError:
            return True
        received += data
        if not data or case.leave == "midway":
            return True
    return False

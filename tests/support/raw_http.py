# SPDX-License-Identifier: Apache-2.0
"""A client that sees every byte: sends requests in pieces, reads answers strictly, and acts at chosen bytes of them."""
import array
import fcntl
import json
import re
import socket
import termios
import time
from typing import NamedTuple

CONTINUE = object()  # among the pieces of a request: wait for "100 Continue" here


class Cut(Exception):
    """The connection ended, was reset or said nothing where more had to come."""


class Malformed(Exception):
    """Bytes that no answer may have at their place."""


class Response(NamedTuple):
    status_line: bytes
    fields: list  # of (name, value), in order
    framing: str  # "chunked", "length", "close" or "none"
    body: bytes  # without the framing

    @property
    def status(self):
        return int(self.status_line.split()[1])

    def field(self, name):
        return dict(self.fields).get(name)


class Wire:
    """One connection. What was received is counted over its life; begin() starts the count of an exchange anew."""

    def __init__(self, port, receive_buffer=None, seconds=30):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)  # before connect, so that the window is as small
        self.socket.settimeout(seconds)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self.socket.getsockname()[1]
        self.at_most, self.pause = 65536, 0.0  # of a read, and before each
        self.buffer, self.taken = bytearray(), 0
        self.sent, self.answers, self.moments = 0, [], []

    def begin(self, moments=()):
        """moments: (bytes, act): act() is called when exactly so many bytes of the answers were received, or at once if none is left
        to be received before that."""
        if self.taken != len(self.buffer):
            raise Malformed(f"bytes behind an answer: {bytes(self.buffer[self.taken:self.taken + 200])!r}")
        self.buffer, self.taken = bytearray(), 0
        self.sent, self.answers = 0, []  # of this exchange; the answers as (offset of the first byte, offset behind the last or None)
        self.moments = sorted(moments, key=lambda moment: moment[0])

    @property
    def received(self):
        return len(self.buffer)

    def arrived(self):
        """Bytes of the answers that this machine has, read or not."""
        queued = array.array("i", [0])
        try:
            fcntl.ioctl(self.socket.fileno(), termios.FIONREAD, queued)
        except (OSError, ValueError):
            pass  # closed
        return self.received + queued[0]

    def send(self, data):
        view = memoryview(data)
        try:
            while view:
                count = self.socket.send(view)
                self.sent += count
                view = view[count:]
        except OSError as error:
            raise Cut(f"{error!r} when {self.sent} bytes were sent and {self.received} received") from error

    def held_for_it(self):
        """Bytes of the answers that the kernel still holds on the server's side, by its account."""
        mine, theirs = (f":{port:04X}" for port in (self.port, self.socket.getpeername()[1]))
        with open("/proc/net/tcp") as file:
            for fields in map(str.split, file):
                if fields[1].endswith(theirs) and fields[2].endswith(mine):
                    return int(fields[4].split(":")[0], 16)
        return 0

    def _act(self):
        while self.moments and self.moments[0][0] <= self.received:
            self.moments.pop(0)[1]()

    def _receive(self):
        self._act()
        if self.pause:
            time.sleep(self.pause)
        most = min(self.at_most, self.moments[0][0] - self.received if self.moments else self.at_most)
        try:
            data = self.socket.recv(most)
        except OSError as error:
            raise Cut(f"{error!r} after {self.received} bytes") from error
        if not data:
            raise Cut(f"the connection was closed after {self.received} bytes, the last of them {bytes(self.buffer[-120:])!r}")
        self.buffer += data
        self._act()

    def _line(self):
        while (end := self.buffer.find(b"\n", self.taken)) < 0:
            if self.received - self.taken > 65536:
                raise Malformed(f"no end of line in {bytes(self.buffer[self.taken:self.taken + 200])!r}")
            self._receive()
        line, self.taken = bytes(self.buffer[self.taken:end + 1]), end + 1
        if not line.endswith(b"\r\n"):
            raise Malformed(f"a line without CR: {line!r}")
        return line[:-2]

    def _exactly(self, count):
        while self.received - self.taken < count:
            self._receive()
        data, self.taken = bytes(self.buffer[self.taken:self.taken + count]), self.taken + count
        return data

    def _chunked(self):
        parts = []
        while True:
            line = self._line()
            if not re.fullmatch(rb"0|[1-9a-f][0-9a-f]{0,7}", line):
                raise Malformed(f"a size of a chunk: {line!r} at {self.taken}, behind {bytes(self.buffer[max(0, self.taken - 200):self.taken])!r}")
            size = int(line, 16)
            if size:
                parts.append(self._exactly(size))
            if self._line():
                raise Malformed(f"a chunk longer than it says, at {self.taken}: {bytes(self.buffer[self.taken - 200:self.taken])!r}")
            if not size:
                return b"".join(parts)

    def _rest(self):
        try:
            while True:
                self._receive()
        except Cut as error:
            if "was closed" not in str(error):
                raise
        data, self.taken = bytes(self.buffer[self.taken:]), len(self.buffer)
        return data

    def response(self, head=False):
        begin = self.taken
        self.answers.append((begin, None))
        status_line, fields = self._line(), []
        if not re.fullmatch(rb"HTTP/1\.[01] [1-5][0-9][0-9] [ -~]+", status_line):
            raise Malformed(f"a status line: {status_line!r}")
        while line := self._line():
            name, colon, value = line.partition(b": ")
            if not colon or not re.fullmatch(rb"[a-z0-9-]+", name):
                raise Malformed(f"a field: {line!r}")
            fields.append((name.decode(), value))
        named = dict(fields)
        if len(named) != len(fields):
            raise Malformed(f"fields that come twice: {fields}")
        if head or status_line.split()[1] in (b"100", b"204", b"304"):
            framing, body = "none", b""
        elif named.get("transfer-encoding") == b"chunked":
            framing, body = "chunked", self._chunked()
        elif "content-length" in named:
            framing, body = "length", self._exactly(int(named["content-length"]))
        else:
            framing, body = "close", self._rest()
            if named.get("content-type", b"").startswith(b"text/event-stream") and not body.endswith(b"data: [DONE]\n\n"):
                raise Cut(f"the stream ended with its connection after {self.received} bytes")
        self.answers[-1] = (begin, self.taken)
        return Response(status_line, fields, framing, body)

    def finish(self):
        """Reads to the end of the connection, which must come with no further byte."""
        if self._rest():
            raise Malformed(f"bytes behind the last answer: {bytes(self.buffer[-200:])!r}")

    def in_an_answer(self, offset):
        """Whether at this offset an answer had begun and was not complete."""
        return any(begin < offset and (end is None or offset < end) for begin, end in self.answers)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Exchange(NamedTuple):
    """What is sent on a connection, in pieces, and what is read: one answer for each of `heads`, which says whether it has no body."""
    name: str
    pieces: list  # of bytes or CONTINUE
    heads: tuple = (False,)
    body_from: int = 0  # where the body of the first request begins, for who counts bytes sent
    same_body: bool = True  # False: the body tells how the server is, and so is not the same twice

    @property
    def bytes(self):
        return sum(len(piece) for piece in self.pieces if piece is not CONTINUE)


def run(wire, exchange, after_piece=lambda index: None):
    """The answers. after_piece(i) is called behind each piece (and behind the 100 that a CONTINUE waits for)."""
    for index, piece in enumerate(exchange.pieces):
        if piece is CONTINUE:
            interim = wire.response()
            if interim.status != 100 or interim.fields:
                raise Malformed(f"instead of 100 Continue: {interim}")
        else:
            wire.send(piece)
        after_piece(index)
    return [wire.response(head) for head in exchange.heads]


def stays_open(response):
    return response.status_line.startswith(b"HTTP/1.1") and response.field("connection") != b"close"


# ---- what two answers to the same request have in common

ID = re.compile(rb'"id":"((?:chatcmpl|cmpl)-[0-9a-f]+)"')
CREATED = re.compile(rb'"created":(\d+)')
METRIC = re.compile(rb'# (HELP|TYPE) [a-z0-9_:]+ .+|[a-z0-9_:]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+.0-9a-zA-Z]+')
CHOICE = re.compile(rb'"choices":\[\{"index":(\d+),')


def without_names(body, where):
    """The body without its id and its date, of which it has one each however often they stand there."""
    for what in (ID, CREATED):
        if len(set(what.findall(body))) > 1:
            raise Malformed(f"several in one answer ({where}): {sorted(set(what.findall(body)))}")
    return CREATED.sub(b'"created":0', ID.sub(b'"id":""', body))


def events_by_choice(body):
    """{choice: its events as bytes, in order}; what belongs to no choice comes behind all that do and stands under -1."""
    events = body.split(b"\n\n")
    if events.pop():
        raise Malformed(f"a stream that ends in the middle of an event: {body[-300:]!r}")
    found, ended = {}, False
    for event in events:
        if event.startswith(b":"):
            if b"\n" in event:
                raise Malformed(f"a comment with more behind it: {event!r}")
            continue
        if not event.startswith(b"data: ") or b"\n" in event:
            raise Malformed(f"an event: {event!r}")
        if event != b"data: [DONE]":
            try:
                json.loads(event[6:])
            except ValueError as error:
                raise Malformed(f"an event that is no JSON: {event!r}") from error
        choice = CHOICE.search(event)
        if choice and ended:
            raise Malformed(f"an event of a choice behind the last ones: {event!r}")
        ended = not choice
        found.setdefault(int(choice[1]) if choice else -1, []).append(event)
    return found


def normal(response, exchange):
    """What has to be the same of two answers, whatever happened beside them."""
    fields = []
    for name, value in response.fields:
        if name == "date":
            if not re.fullmatch(rb"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", value):
                raise Malformed(f"a date: {value!r}")
            value = b""
        if name == "x-request-id" and re.fullmatch(rb"req-[0-9a-f]{1,16}", value):
            value = b"drawn"
        if name == "content-length" and not exchange.same_body:
            value = b""
        fields.append((name, value))
    body = without_names(response.body, exchange.name)
    if (response.field("content-type") or b"").startswith(b"text/event-stream"):
        body = events_by_choice(body)
    elif not exchange.same_body:
        body = sorted(json.loads(body)) if body.startswith(b"{") else [line for line in body.split(b"\n")[:-1] if not METRIC.fullmatch(line)]
    return response.status_line, fields, response.framing, body


def difference(expected, answers):
    """The first place where they differ, in words; None if they are the same."""
    if len(expected) != len(answers):
        return f"{len(answers)} answers instead of {len(expected)}"
    for i, (one, other) in enumerate(zip(expected, answers)):
        for what, a, b in zip(("status line", "fields", "framing", "body"), one, other):
            if a == b:
                continue
            if isinstance(a, dict) and isinstance(b, dict):
                for choice in sorted({*a, *b}):
                    was, came = a.get(choice, []), b.get(choice, [])
                    for at, (x, y) in enumerate(zip([*was, None], [*came, None])):
                        if x != y:
                            return f"answer {i}, choice {choice}, event {at} of {len(was)} (came {len(came)}): {x!r} became {y!r}"
            if isinstance(a, bytes) and isinstance(b, bytes):
                at = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                return (f"answer {i}, {what}, {len(a)} bytes (came {len(b)}), at {at}: {a[max(0, at - 60):at + 120]!r} became "
                        f"{b[max(0, at - 60):at + 120]!r}")
            return f"answer {i}, {what}: {str(a)[:500]} became {str(b)[:500]}"
    return None

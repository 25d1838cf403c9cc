"""Serves the hosts of a synthetic web, or a share of them, until standard input closes.

    python -m crawler.tools.bench.synthetic_server SHARE SHARES

The shape of the web is read from the first line of standard input, as JSON. The port is printed once all hosts are
reachable, and the counts of requests, as JSON, at the end. Port 0 stands for any free port.

The server implements the part of HTTP/1.1 that crawlers use: GET over persistent connections.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
import sys
from functools import partial
from http import HTTPStatus
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawler.tools.bench.synthetic_web import (
    ROW,
    Answer,
    Habit,
    Kind,
    Serving,
    Shape,
    SyntheticWeb,
    address_of,
    habit_of,
)

SLOW = 0.1  # seconds per response of a slow host
STORM = 1.0  # seconds that a storm lasts
STORMS = (5, 1_000)  # responses of a host before its first storm, and between two storms
_BACKLOG = 1024
_END = b"\r\n\r\n"
_CLOSING = "Connection: close\r\n"
_MOST_HEAD = 65_536  # maximum bytes of a request's head


class Requested(Struct):
    """The counts of the requests that a server has received."""

    answers: int = 0
    sent: int = 0  # bytes of response bodies
    robots: int = 0  # requests for robots.txt
    private: int = 0  # requests that robots.txt disallows
    unknown: int = 0  # requests for URLs outside the web: a mistake, or a probe for missing pages
    refused: int = 0  # responses with 429 or 503
    connections: int = 0
    resumed: int = 0  # connections that resumed the TLS session of an earlier one

    @property
    def requests(self) -> int:
        return self.answers + self.refused

    def __add__(self, other: Requested) -> Requested:
        return Requested(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class Weather:
    """The storms of one host: periods in which it refuses all requests. ``now`` is in seconds, from any clock."""

    def __init__(self) -> None:
        self._left, self._between = STORMS
        self._until = 0.0
        self._storms = 0

    def refuses(self, now: float) -> int | None:
        """Return the status for refusing a request, or None to answer it."""
        if now >= self._until:
            if self._left:
                self._left -= 1
                return None
            self._left = self._between
            self._storms += 1
            self._until = now + STORM
        return 429 if self._storms % 2 else 503


class Hosts:
    """Answers requests for the hosts of one process."""

    def __init__(self, web: SyntheticWeb, hosts: range) -> None:
        self._web = web
        self.requested = Requested()
        self.each = web.shape.serving.each
        self._weather = {host: Weather() for host in hosts if habit_of(host) is Habit.STORMY}

    def answer(self, host: int, path: str, now: float, more: str = "") -> bytes:
        """Return the response to a GET, with ``more`` header lines."""
        counts = self.requested
        weather = None if path == "/robots.txt" else self._weather.get(host)
        refused = None if weather is None else weather.refuses(now)
        if refused is not None:
            counts.refused += 1
            return response(Answer(refused, b"Later.\n", content_type="text/plain"), f"Retry-After: 1\r\n{more}")
        answer = self._web.answer(host, path)
        counts.answers += 1
        counts.sent += len(answer.body)
        counts.robots += path == "/robots.txt"
        counts.private += answer.kind is Kind.PRIVATE
        counts.unknown += answer.kind is None and path != "/robots.txt"
        return response(answer, more)


class Connection(asyncio.Protocol):
    """One connection of a client to one host."""

    def __init__(self, hosts: Hosts, host: int) -> None:
        self._hosts = hosts
        self._host = host
        self._slow = habit_of(host) is Habit.SLOW
        self._waiting = b""
        self._left = hosts.each  # number of further requests after which the server closes the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        counts = self._hosts.requested
        counts.connections += 1
        encrypted = transport.get_extra_info("ssl_object")
        counts.resumed += encrypted is not None and bool(encrypted.session_reused)

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while _END in self._waiting:
            head, _, self._waiting = self._waiting.partition(_END)
            method, _, rest = head.partition(b" ")
            if method != b"GET":
                self._transport.write(response(Answer(405, b"")))
                continue
            path = rest.partition(b" ")[0].decode("latin-1")
            loop = asyncio.get_running_loop()
            self._left -= 1
            sent = self._hosts.answer(self._host, path, loop.time(), _CLOSING if self._left == 0 else "")
            if self._slow:
                loop.call_later(SLOW, self._write, sent)
            else:
                self._write(sent)
        if len(self._waiting) > _MOST_HEAD:
            self._transport.abort()

    def _write(self, sent: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(sent)
            if self._left == 0:
                self._transport.close()


def response(answer: Answer, more: str = "") -> bytes:
    """Return an ``Answer`` as an HTTP/1.1 response, with ``more`` header lines."""
    location = "" if answer.location is None else f"Location: {answer.location}\r\n"
    return (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\nServer: synthetic\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n{location}{more}\r\n"
    ).encode("ascii") + answer.body


def _context(serving: Serving, host: int) -> ssl.SSLContext:
    """Return the TLS context of a host, with the certificate of the host's row."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    home, row = Path(serving.certificates), host // ROW
    context.load_cert_chain(home / f"{row}.pem", home / f"{row}.key")
    if not serving.resumes:
        context.num_tickets = 0
    return context


async def serve(shape: Shape, share: int, shares: int) -> Requested:
    """Serve every ``shares``-th host, starting with ``share``, until standard input closes. Raises OSError."""
    numbers = range(share, shape.hosts, shares)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listening, port = {}, shape.port
    for number in numbers:
        listening[number] = socket.create_server((address_of(number), port), backlog=_BACKLOG)
        port = listening[number].getsockname()[1]
    hosts = Hosts(SyntheticWeb(replace(shape, port=port)), numbers)
    loop = asyncio.get_running_loop()
    serving = shape.serving
    for number, each in listening.items():
        encrypted = _context(serving, number) if serving.https else None
        await loop.create_server(partial(Connection, hosts, number), sock=each, ssl=encrypted, backlog=_BACKLOG)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    return hosts.requested


def main() -> None:
    share, shares = map(int, sys.argv[1:])
    shape = msgspec.json.decode(sys.stdin.readline(), type=Shape)
    requested = asyncio.run(serve(shape, share, shares))
    try:
        sys.stdout.write(msgspec.json.encode(requested).decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # the parent is gone; a normal exit would try once more to flush the output


if __name__ == "__main__":
    main()

"""Servers that misbehave, on addresses of loopback: a test says what is sent for a path, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from tests.program import PATIENCE

_HEAD_MOST = 2**17  # bytes of a request
_PORT = re.compile(r":\d+\Z")


@dataclass(frozen=True)
class Talk:
    """A connection on which a request has come."""

    host: str  # the name in the Host header, without port
    path: str  # with its query
    head: bytes  # the request as it was sent
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def header(self, name: str) -> str | None:
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def drip(self, data: bytes, *, step: int = 1, every: float) -> None:
        """Send ``step`` bytes, then wait, and so on."""
        for start in range(0, len(data), step):
            await self.send(data[start : start + step])
            await asyncio.sleep(every)

    async def hold(self) -> None:
        """Say no more, and keep the connection until the other side has closed it."""
        while await self.reader.read(_HEAD_MOST):
            pass


Answer = bytes | Callable[[Talk], Awaitable[None]]
Pages = Mapping[str, Answer] | Callable[[str], Answer | None]
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Asked:
    """One request: for what, and from when to when (monotonic seconds)."""

    host: str
    path: str
    start: float
    end: float | None = None


@dataclass
class Server:
    """Hosts at one port, each at an address of its own; what it does not know is not found.

    ``pages`` are looked up at every request, so they can be set after the start, when the port is known.
    """

    pages: dict[str, Pages]  # by the name of the host
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    connections: int = 0

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the server did not come up"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def count(self, path: str, host: str | None = None) -> int:
        """How often a path was asked for, of one host or of all."""
        return sum(asked.path == path and host in (None, asked.host) for asked in self.asked)

    def by_host(self) -> Counter[str]:
        """Requests for each host, those for robots.txt included."""
        return Counter(asked.host for asked in self.asked)

    def listen(self, address: str) -> None:
        """Answer on one more address."""
        asyncio.run_coroutine_threadsafe(self._listen(address), self._loop).result(PATIENCE)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._talks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._ready.set()
        await self._stop.wait()
        for server in self._servers:
            server.close()
        for task in tuple(self._talks):
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _listen(self, address: str) -> None:
        server = await asyncio.start_server(
            self._accept, address, self.port, ssl=self.tls, limit=_HEAD_MOST, backlog=1024
        )
        self.port = server.sockets[0].getsockname()[1]
        self._servers.append(server)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._talk(reader, writer))
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # The client leaves early, which most tests make it do.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            talk = self._read(head, reader, writer)
            asked = Asked(talk.host, talk.path, time.monotonic())
            self.asked.append(asked)
            try:
                answer = self._answer(talk)
                if isinstance(answer, bytes):
                    await talk.send(answer)
                else:
                    await answer(talk)
            finally:
                asked.end = time.monotonic()
        writer.close()

    def _read(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Talk:
        path = head.split(b" ", 2)[1].decode("latin-1")
        talk = Talk("", path, head, reader, writer)
        return replace(talk, host=_PORT.sub("", talk.header("Host") or ""))

    def _answer(self, talk: Talk) -> Answer:
        pages = self.pages.get(talk.host)
        for wild in _wildcards(talk.host):
            pages = pages or self.pages.get(wild)
        if pages is None:
            return NOT_FOUND
        found = pages(talk.path) if callable(pages) else pages.get(talk.path)
        return NOT_FOUND if found is None else found


def _wildcards(host: str) -> list[str]:
    labels = host.split(".")
    return [f"*.{'.'.join(labels[start:])}" for start in range(1, len(labels))]


# What servers send.


def page(
    body: bytes | str = b"", *headers: str, status: str = "200 OK", kind: str = "text/html; charset=utf-8"
) -> bytes:
    """A whole answer, after which the connection is closed."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(data)}", "Connection: close"]
    return "\r\n".join([*lines, *headers]).encode() + b"\r\n\r\n" + data


def redirect(to: str, status: str = "302 Found") -> bytes:
    return page(b"", f"Location: {to}", status=status)


def head(*headers: str, status: str = "200 OK", kind: str = "text/html") -> bytes:
    """The begin of an answer whose body, if any, ends with the connection."""
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}", *headers]).encode() + b"\r\n\r\n"


async def silence(talk: Talk) -> None:
    """Answer nothing, ever."""
    await talk.hold()


def endless(start: bytes, piece: bytes, most: int) -> Callable[[Talk], Awaitable[None]]:
    """``start``, then ``piece`` again and again until ``most`` bytes are sent or the client has left."""

    async def answer(talk: Talk) -> None:
        await talk.send(start)
        for _ in range(most // len(piece)):
            await talk.send(piece)

    return answer

"""Small real servers on loopback: one that says exactly the bytes it is given, and the counts that tests look at."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from crawler.base.settings.parts import FetchSettings

# Limits that let a test of slowness end soon, and yet a busy machine tell the slow server from its own pauses.
HASTY = FetchSettings(
    allow_private=True,
    connect_timeout=0.6,
    headers_timeout=0.6,
    body_timeout=0.6,
    max_body=100_000,
)
LOCAL = FetchSettings(allow_private=True, max_body=1_000_000)

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """``answers`` are given in turn, the last one for ever after."""

    url: str
    answers: list[Answer]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def site(
    *answers: Answer, keep_alive: bool = False, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[Site]:
    """A server of raw answers; it closes each connection after one, unless ``keep_alive``."""
    served = Site("", list(answers))
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        try:
            while True:
                served.requests.append(await reader.readuntil(b"\r\n\r\n"))
                answer = served.answers[min(len(served.requests), len(served.answers)) - 1]
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    await answer(writer)
                await writer.drain()
                if not keep_alive:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has left, which some tests make it do
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(talk(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=tls)
    scheme = "http" if tls is None else "https"
    served.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        yield served
    finally:
        server.close()
        for task in tuple(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


def page(body: bytes, *headers: str, status: str = "200 OK", kind: str = "text/html; charset=utf-8") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

"""Small real proxies on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Relay:
    """A proxy: ``asked`` are the destinations, ``heads`` what HTTP clients sent. ``login`` is what it wants."""

    login: str | None = None
    refuse: bytes | None = None  # the answer to every request
    destination: tuple[str, int] | None = None  # where every connection really goes
    address: str = ""
    asked: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*(self.destination or (host, port)))
        self.writers.append(writer)
        return reader, writer


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _both(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter], server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    await asyncio.gather(_pump(client[0], server[1]), _pump(server[0], client[1]))


async def _http(relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    relay.heads.append(head)
    method, target = head.split(b" ", 2)[:2]
    relay.asked.append(target.decode())
    if relay.refuse is not None:
        writer.write(relay.refuse)
        writer.close()
        return
    authority = target.decode() if method == b"CONNECT" else target.decode().split("/")[2]
    host, _, port = authority.partition(":")
    server = await relay.connect(host, int(port or 80))
    if method == b"CONNECT":
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    else:
        server[1].write(head.replace(target, b"/" + target.split(b"/", 3)[3], 1))
    await _both((reader, writer), server)


async def _socks5(relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, count = await reader.readexactly(2)
    methods = await reader.readexactly(count)
    if relay.login is not None:
        if 2 not in methods:
            writer.write(b"\x05\xff")
            writer.close()
            return
        writer.write(b"\x05\x02")
        await reader.readexactly(1)
        user = await reader.readexactly((await reader.readexactly(1))[0])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        right = f"{user.decode()}:{password.decode()}" == relay.login
        writer.write(b"\x01\x00" if right else b"\x01\x01")
        if not right:
            writer.close()
            return
    else:
        writer.write(b"\x05\x00")
    *_, kind = await reader.readexactly(4)
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    else:
        host = ".".join(map(str, await reader.readexactly(4)))
    port = int.from_bytes(await reader.readexactly(2))
    relay.asked.append(f"{host}:{port}")
    if relay.refuse is not None:
        writer.write(b"\x05" + relay.refuse + b"\x00\x01" + bytes(6))
        writer.close()
        return
    server = await relay.connect(host, port)
    writer.write(b"\x05\x00\x00\x01" + bytes(6))
    await _both((reader, writer), server)


@asynccontextmanager
async def proxy(
    kind: str = "http", *, login: str | None = None, refuse: bytes | None = None, to: str | None = None
) -> AsyncIterator[Relay]:
    """A proxy of HTTP or SOCKS 5. ``to``: the URL of the server that stands for every name."""
    relay = Relay(login, refuse)
    if to is not None:
        host, _, port = to.rstrip("/").rpartition("//")[2].rpartition(":")
        relay.destination = (host, int(port))
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await (_http if kind == "http" else _socks5)(relay, reader, writer)
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(talk(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    relay.address = f"{kind}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        for task in tuple(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for writer in relay.writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

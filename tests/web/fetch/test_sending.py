"""Requests other than GET, as a server sees them."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from crawler.web.fetch import Fetcher, Response
from crawler.web.fetch.fence import Sending, sending
from tests.web.fetch.sites import LOCAL


@pytest.mark.parametrize("body", [None, b"", b"a=b", b"x" * 400_000])
async def test_method_and_body_are_sent_once(body: bytes | None) -> None:
    seen, method = list[bytes](), "HEAD" if body is None else "POST"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).split()[0] + await reader.readexactly(len(body or b"")))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + b"x" * (body is not None))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sending.set(Sending(method, body))
    async with server, Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        answer = await fetcher.fetch(url, accept=lambda _: body is not None)
    assert isinstance(answer, Response)
    assert (seen, answer.body) == ([method.encode() + (body or b"")], None if body is None else b"x")


async def test_the_cookies_of_a_page_go_before_ours_and_instead_of_those_of_the_same_name() -> None:
    seen = list[list[bytes]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        seen.append([line for line in lines if line.lower().startswith(b"cookie:")])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for kept in (False, True):
            async with Fetcher(replace(LOCAL, cookies=kept), concurrency=1, per_host=1) as fetcher:
                for cookies in ("", "b=9; c=3"):
                    sending.set(Sending(cookies=cookies))
                    await fetcher.fetch(url)
    assert seen == [[], [b"Cookie: b=9; c=3"], [], [b"Cookie: b=9; c=3; a=1"]]

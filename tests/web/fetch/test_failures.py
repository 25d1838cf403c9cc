"""Whatever a server does ends as a value with a kind and one short line."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import zlib

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.base.settings.parts import FetchSettings
from crawler.web.fetch import Failure, FailureKind, Fetcher
from tests.asked import free_port
from tests.web.fetch.sites import HASTY, LOCAL, Answer, page, site

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


async def fail(url: str, settings: FetchSettings = LOCAL, resolver: AbstractResolver | None = None) -> Failure:
    async with Fetcher(settings, concurrency=4, per_host=1, resolver=resolver) as fetcher:
        answer = await fetcher.fetch(url)
    assert isinstance(answer, Failure), answer
    assert answer.message
    assert "\n" not in answer.message
    assert len(answer.message) <= 200
    assert "object at" not in answer.message
    return answer


CUT_OFF = {
    "before a byte": b"",
    "in the status line": b"HTTP/1.1 2",
    "before the body": page(b"x" * 100)[:-100],
    "in the body": page(b"x" * 100)[:-1],
    "in a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "between chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
}


@pytest.mark.parametrize("raw", CUT_OFF.values(), ids=CUT_OFF.keys())
async def test_cut_off(raw: bytes) -> None:
    async with site(raw) as served:
        failure = await fail(served.url)
    assert failure.kind is FailureKind.CUT_OFF
    assert failure.kind.transient


@pytest.mark.parametrize("sent", [b"", page(b"x" * 1000)[:-100]], ids=["before the response", "in the body"])
async def test_reset(sent: bytes) -> None:
    async def reset(writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with site(reset) as served:
        assert (await fail(served.url)).kind is FailureKind.CUT_OFF


MALFORMED = {
    "status of no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "bad chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100_000 + b"\r\n",
    "a header too long": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 1_000_000 + b"\r\n\r\n",
    "a status line too long": b"HTTP/1.1 200 " + b"b" * 1_000_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed(raw: bytes) -> None:
    async with site(raw) as served:
        failure = await fail(served.url)
    assert failure.kind is FailureKind.MALFORMED
    assert not failure.kind.transient


OTHER_PROTOCOLS = {
    "bytes": b"\x00\x01\x02 garbage\r\n\r\n",
    "HTTP/0.9": b"<html>hello</html>\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.0\r\n\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x46\x00",
}


@pytest.mark.parametrize("raw", OTHER_PROTOCOLS.values(), ids=OTHER_PROTOCOLS.keys())
async def test_other_protocols(raw: bytes) -> None:
    async with site(raw) as served:
        failure = await fail(served.url)
    assert (failure.kind, failure.message) == (FailureKind.PROTOCOL, "not HTTP")
    assert not failure.kind.transient


async def test_a_bomb_is_not_unpacked() -> None:
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(100)) + packer.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with site(page(bomb, "Content-Encoding: gzip")) as served:
        failure = await fail(served.url)
    assert failure.kind is FailureKind.TOO_LARGE
    assert failure.kind.excluded
    assert not failure.kind.transient
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KB


async def test_an_endless_body() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with site(endless) as served:
        assert (await fail(served.url)).kind is FailureKind.TOO_LARGE


async def test_a_stated_length_above_the_limit_is_not_waited_for() -> None:
    async def promise(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 99999999\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    async with site(promise) as served:
        assert (await fail(served.url)).kind is FailureKind.TOO_LARGE


def drip(start: bytes, drop: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.02)

    return answer


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def half_a_page(writer: asyncio.StreamWriter) -> None:
    writer.write(page(b"x" * 100)[:-50])
    await asyncio.Event().wait()


LATE_HEADERS = (FailureKind.HEADERS_TIMEOUT, "headers not complete within 0.6 s")
LATE_BODY = (FailureKind.BODY_TIMEOUT, "body not complete within 0.6 s")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (silence, (FailureKind.HEADERS_TIMEOUT, "no byte for 0.4 s")),
        (half_a_page, (FailureKind.BODY_TIMEOUT, "no byte for 0.4 s")),
        (drip(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), LATE_HEADERS),
        (drip(b"HTTP/1.1 200 OK\r\nA: ", b"b"), LATE_HEADERS),
        (drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), LATE_HEADERS),
        (drip(HEAD + b"\r\n", b"b"), LATE_BODY),
        (drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nb\r\n"), LATE_BODY),
    ],
)
async def test_slow_servers(answer: Answer, outcome: tuple[FailureKind, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("connector", "failures"):
        monkeypatch.setattr(f"crawler.web.fetch.{place}.IDLE_MOST", 0.4)
    async with site(answer) as served:
        failure = await fail(served.url, HASTY)
    assert (failure.kind, failure.message) == outcome


async def test_refused() -> None:
    failure = await fail(f"http://127.0.0.1:{free_port()}/")
    assert failure.kind is FailureKind.REFUSED
    assert failure.kind.transient


async def test_connect_timeout() -> None:
    # A listener whose queue is full lets further connections wait.
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for client in (first, second):
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        failure = await fail(f"http://127.0.0.1:{full.getsockname()[1]}/", HASTY)
    assert failure.kind == FailureKind.CONNECT_TIMEOUT


async def test_a_tls_handshake_that_never_ends_counts_as_connecting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        failure = await fail(f"https://127.0.0.1:{mute.getsockname()[1]}/", HASTY)
    assert failure.kind is FailureKind.CONNECT_TIMEOUT


class Names(AbstractResolver):
    """A name service of one table."""

    def __init__(self, **addresses: list[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host not in self._addresses:
            raise OSError(None, "no such name")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self._addresses[host]
        ]

    async def close(self) -> None:
        pass


async def test_unknown_name() -> None:
    failure = await fail("http://name.invalid/", resolver=Names())
    assert failure.kind == FailureKind.DNS
    assert failure.kind.transient


@pytest.mark.parametrize("name", ["name.invalid", "a" * 70 + ".invalid", "a..invalid"])
async def test_unknown_name_by_the_real_resolver(name: str) -> None:
    # Without a network the look-up may also run into its time limit.
    assert (await fail(f"http://{name}/", HASTY)).kind in (FailureKind.DNS, FailureKind.CONNECT_TIMEOUT)


@pytest.mark.parametrize(
    "href",
    [
        "http://127.0.0.1:99999/",
        "http:///x",
        "ftp://127.0.0.1/",
        "http://1.2.3/",
        "nonsense",
        "",
        "//127.0.0.1/",
        "http://\N{LATIN SMALL LETTER SHARP S}/",
        "http://\ud800/",
        "http://127.0.0.1/ HTTP/1.1\r\nA: b",
        "http://[::1/",
    ],
)
async def test_bad_urls(href: str) -> None:
    failure = await fail(href)
    assert failure.kind is FailureKind.BAD_URL
    assert not failure.kind.transient


async def test_plain_server_where_tls_is_expected() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        failure = await fail(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert failure.kind is FailureKind.TLS
    assert failure.message.startswith("TLS: ")

"""Broken TLS of every kind is an outcome."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import FetchSettings
from crawler.web.fetch import Failure, FailureKind, Fetcher, Response
from tests.web.fetch.certificates import Authority, date
from tests.web.fetch.sites import HASTY, page, site

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HERE = "IP:127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


async def fetch(url: str, authority: Authority, settings: FetchSettings = HASTY) -> Response | Failure:
    trusting = replace(settings, ca_file=str(authority.file))
    async with Fetcher(trusting, concurrency=1, per_host=1, environ={}) as fetcher:
        return await fetcher.fetch(url)


async def fail(url: str, authority: Authority, settings: FetchSettings = HASTY) -> Failure:
    answer = await fetch(url, authority, settings)
    assert isinstance(answer, Failure), answer
    assert "\n" not in answer.message
    return answer


PAST = ("20200101000000Z", "20200102000000Z")
FUTURE = (date(100), date(200))


@pytest.mark.parametrize(
    ("names", "dates", "words"),
    [
        (HERE, PAST, "certificate has expired"),
        (HERE, FUTURE, "certificate is not yet valid"),
        ("DNS:other.example", (), "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
async def test_certificates(names: str, dates: tuple[str, ...], words: str, authority: Authority) -> None:
    async with site(page(b"x"), tls=authority.server(names, *dates)) as served:
        failure = await fail(served.url, authority)
    assert failure.kind is FailureKind.TLS
    assert failure.message.startswith(f"TLS: {words}")
    assert served.requests == [], "nothing is sent to a server that nobody vouches for"


async def test_an_unknown_authority(authority: Authority, stranger: Authority) -> None:
    async with site(page(b"x"), tls=stranger.server(HERE)) as served:
        failure = await fail(served.url, authority)
    assert failure.kind is FailureKind.TLS


async def test_an_old_version(authority: Authority) -> None:
    context = authority.server(HERE)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with site(page(b"x"), tls=context) as served:
        failure = await fail(served.url, authority)
    assert failure.kind in (FailureKind.TLS, FailureKind.CUT_OFF), "some servers only hang up"


@asynccontextmanager
async def raw(talk: Talk) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass  # the client has left
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def saying(data: bytes, *, then_wait: bool = False) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(data)
        await writer.drain()
        if then_wait:
            await reader.read()

    return talk


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A handshake message of 16 KB, byte by byte."""
    writer.write(b"\x16\x03\x03\x40\x00")
    while True:
        writer.write(b"\x02")
        await writer.drain()
        await asyncio.sleep(0.01)


ALERT = b"\x15\x03\x03\x00\x02\x02"
BROKEN = {
    "garbage": (saying(b"\x00\x01\x02\x03" * 100), {FailureKind.TLS}),
    "plain HTTP": (saying(page(b"x")), {FailureKind.TLS}),
    "a handshake that breaks off": (saying(b"\x16\x03\x03\x40\x00\x02"), {FailureKind.CUT_OFF}),
    "nothing": (saying(b""), {FailureKind.CUT_OFF}),
    "handshake failure": (saying(ALERT + b"\x28"), {FailureKind.TLS}),
    "unrecognized name": (saying(ALERT + b"\x70"), {FailureKind.TLS}),
    "internal error": (saying(ALERT + b"\x50"), {FailureKind.TLS}),
    "a record too long": (saying(b"\x16\x03\x03\xff\xff" + b"\x02" * 70_000), {FailureKind.TLS}),
    "silence": (saying(b"", then_wait=True), {FailureKind.CONNECT_TIMEOUT}),
    "a drip": (drip, {FailureKind.CONNECT_TIMEOUT}),
}


@pytest.mark.parametrize(("talk", "kinds"), BROKEN.values(), ids=BROKEN.keys())
async def test_handshakes(talk: Talk, kinds: set[FailureKind], authority: Authority) -> None:
    # Only a server that goes on without an end is to meet the limit: a busy machine may take longer than a hasty one.
    settings = HASTY if FailureKind.CONNECT_TIMEOUT in kinds else replace(HASTY, connect_timeout=20.0)
    async with raw(talk) as url:
        failure = await fail(url, authority, settings)
    assert failure.kind in kinds, failure
    assert (talk is BROKEN["plain HTTP"][0]) <= ("http://" in failure.message)
    assert failure.seconds < 15


async def test_a_body_cut_off_without_farewell(authority: Authority) -> None:
    """TLS has a farewell, so that nobody can cut a body short. Without a length, only it says where the body ends; as
    in browsers its absence is forgiven, and a stated length is not."""

    async def abort(writer: asyncio.StreamWriter) -> None:
        writer.write(page(b"x" * 100)[:-50])
        await writer.drain()
        writer.transport.abort()

    async with site(abort, tls=authority.server(HERE)) as served:
        failure = await fail(served.url, authority)
    assert failure.kind is FailureKind.CUT_OFF

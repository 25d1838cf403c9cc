"""TLS sessions are resumed where that is sound, by the server's own word."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.web.fetch import Failure, FailureKind, Fetcher, Response, late_authorities
from crawler.web.fetch.tls_sessions import (
    DECLINED,
    LIFETIME,
    Opening,
    ResumingContext,
    Session,
    Sessions,
    current_opening,
)
from tests.web.fetch.certificates import Authority, date
from tests.web.fetch.nginx import nginx
from tests.web.fetch.proxies import proxy
from tests.web.fetch.sites import LOCAL, Site, page, site

HERE = "IP:127.0.0.1"
NAMES = "DNS:a.localhost,DNS:b.localhost"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def fetcher_of(authority: Authority, **settings: str) -> Fetcher:
    trusting = replace(LOCAL, ca_file=str(authority.file), **settings)
    return Fetcher(trusting, concurrency=1, per_host=1, environ={})


SERVERS = {
    "1.2 with tickets": ("TLSv1.2", "ssl_session_tickets on"),
    "1.2 with a cache": ("TLSv1.2", "ssl_session_tickets off", "ssl_session_cache builtin"),
    "1.3 with tickets": ("TLSv1.3", "ssl_session_tickets on"),
    "1.3 with a cache": ("TLSv1.3", "ssl_session_tickets off", "ssl_session_cache builtin"),
}


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS.keys())
async def test_from_the_third_connection_on_sessions_are_resumed(
    server: tuple[str, ...], authority: Authority, tmp_path: Path
) -> None:
    version, *directives = server
    with nginx(tmp_path / "n", authority.files(HERE), f"ssl_protocols {version}", *directives) as served:
        async with fetcher_of(authority) as fetcher:
            for number in range(6):
                answer = await fetcher.fetch(f"https://127.0.0.1:{served.port}/{number}")
                assert isinstance(answer, Response), answer
                assert answer.body == b"<p>hello</p>"
        log = served.log(6)
        async with fetcher_of(authority) as another:
            await another.fetch(f"https://127.0.0.1:{served.port}/other")
        assert served.log(7)[6].endswith("."), "no two fetchers share sessions"
    assert [line.split()[-1] for line in log] == [".", ".", "r", "r", "r", "r"]


async def test_a_server_that_resumes_nothing(authority: Authority, tmp_path: Path) -> None:
    off = ("ssl_session_cache off", "ssl_session_tickets off")
    count = 2 + DECLINED + 2
    with nginx(tmp_path / "n", authority.files(HERE), *off) as served:
        async with fetcher_of(authority) as fetcher:
            for number in range(count):
                answer = await fetcher.fetch(f"https://127.0.0.1:{served.port}/{number}")
                assert isinstance(answer, Response), answer
        log = served.log(count)
    assert [line.split()[-1] for line in log] == ["."] * count


@pytest.mark.parametrize("kind", ["http", "socks5"])
async def test_through_a_proxy(kind: str, authority: Authority, tmp_path: Path) -> None:
    with nginx(tmp_path / "n", authority.files(HERE)) as served:
        async with proxy(kind) as relay, fetcher_of(authority, proxy=relay.address) as fetcher:
            for number in range(3):
                answer = await fetcher.fetch(f"https://127.0.0.1:{served.port}/{number}")
                assert isinstance(answer, Response), answer
        assert [line.split()[-1] for line in served.log(3)] == [".", ".", "r"]
    assert len(relay.asked) == 3


@asynccontextmanager
async def watched(tls: ssl.SSLContext, port: int = 0) -> AsyncIterator[tuple[Site, list[bool]]]:
    """A server that closes each connection after one answer, and which of them it resumed."""
    resumed: list[bool] = []

    async def answer(writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        writer.write(page(b"x"))
        await writer.drain()

    async with site(answer, tls=tls, port=port) as served:
        yield served, resumed


PAST = ("20200101000000Z", "20200102000000Z")


@pytest.mark.parametrize(("names", "dates"), [(HERE, PAST), ("DNS:other.example", ())])
async def test_a_certificate_that_is_not_valid_any_more_is_refused(
    names: str, dates: tuple[str, ...], authority: Authority
) -> None:
    async with fetcher_of(authority) as fetcher:
        async with watched(authority.server(HERE)) as (served, resumed):
            for _ in range(3):
                assert isinstance(await fetcher.fetch(served.url), Response)
            assert resumed == [False, False, True]
            port = int(served.url.split(":")[2].strip("/"))
        async with watched(authority.server(names, *dates), port) as (served, _):
            failure = await fetcher.fetch(served.url)
        assert isinstance(failure, Failure)
        assert failure.kind is FailureKind.TLS
        assert "certificate" in failure.message
        assert served.requests == []
        assert served.connections <= 1, "a bad certificate is not asked for twice"


async def test_a_session_is_offered_under_its_own_name_only(authority: Authority) -> None:
    async with fetcher_of(authority) as fetcher, watched(authority.server(NAMES)) as (served, resumed):
        for name in "aaabaabb":
            url = served.url.replace("127.0.0.1", f"{name}.localhost")
            assert isinstance(await fetcher.fetch(url), Response)
    assert resumed == [False, False, True, False, True, True, False, True]


async def test_a_name_that_the_certificate_lacks_is_refused_beside_sessions_of_others(authority: Authority) -> None:
    async with fetcher_of(authority) as fetcher, watched(authority.server("DNS:a.localhost")) as (served, _):
        for name in "aaa":
            assert isinstance(await fetcher.fetch(served.url.replace("127.0.0.1", f"{name}.localhost")), Response)
        failure = await fetcher.fetch(served.url.replace("127.0.0.1", "b.localhost"))
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.TLS
    assert "'b.localhost'" in failure.message


ALERT = b"\x15\x03\x03\x00\x02\x02\x28"  # handshake_failure


@asynccontextmanager
async def fearful(behind: str, *, reset: bool) -> AsyncIterator[tuple[str, list[str]]]:
    """A relay to a TLS server that turns away whoever offers a session, and what it did. The first message of the
    client is longer then."""
    host, port = behind.split("/")[2].split(":")
    log: list[str] = []
    usual = 0

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal usual
        head = await reader.readexactly(5)
        hello = await reader.readexactly(int.from_bytes(head[3:5], "big"))
        usual = usual or len(hello)
        if len(hello) > usual + 32:
            log.append("refused")
            if reset:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            else:
                writer.write(ALERT)
                writer.close()
            return
        log.append("served")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        far_writer.write(head + hello)
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", log


@pytest.mark.parametrize("reset", [False, True])
async def test_a_server_that_fears_sessions_is_asked_without(reset: bool, authority: Authority) -> None:
    async with (
        fetcher_of(authority) as fetcher,
        watched(authority.server(HERE)) as (served, resumed),
        fearful(served.url, reset=reset) as (url, log),
    ):
        for _ in range(6):
            answer = await fetcher.fetch(url)
            assert isinstance(answer, Response), answer
    assert log == ["served", "served", "refused", "served", "served", "served", "served"], "and never offered again"
    assert resumed == [False] * 6
    assert len(served.requests) == 6


async def connect(context: ResumingContext, url: str) -> bool:
    """Whether a connection with one request resumes a session."""
    current_opening.set(Opening("place"))
    port = int(url.split(":")[2].strip("/"))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    resumed = bool(writer.get_extra_info("ssl_object").session_reused)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await reader.read()
    writer.close()
    return resumed


@pytest.mark.parametrize(("days", "after"), [(1, LIFETIME + 1), (0.02, 0.02 * 86400 + 1)])
async def test_no_session_outlives_its_certificate_nor_an_hour(days: float, after: float, authority: Authority) -> None:
    """However often it is resumed: tickets that follow prolong nothing."""
    ahead = 0.0
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT, clock=lambda: time.time() + ahead)
    context.load_verify_locations(cafile=str(authority.file))
    async with watched(authority.server(HERE, date(-1), date(days))) as (served, _):
        assert [await connect(context, served.url) for _ in range(4)] == [False, False, True, True]
        ahead = after - 60
        assert await connect(context, served.url)
        ahead = after
        assert not await connect(context, served.url)


async def test_a_large_certificate_counts(authority: Authority) -> None:
    names = ",".join(f"DNS:name-{number}.example" for number in range(500))
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=str(authority.file))
    async with watched(authority.server(f"{HERE},{names}")) as (served, _):
        assert [await connect(context, served.url) for _ in range(3)] == [False, False, True]
    assert len(context.sessions) == 1
    assert context.sessions.size > 4 * len(names)


def taken(handle: str, size: int = 0, *, begins: float = 0, ends: float = 100) -> Session:
    return Session(handle, begins, ends, size)


def test_the_store_is_bounded_in_bytes() -> None:
    sessions = Sessions(most_bytes=1_000_000)
    for place in range(50):
        sessions.put(place, taken("small"), 100)
    filled = sessions.size
    assert 50 * 10_000 < filled < 1_000_000
    for place in range(100, 110):
        sessions.put(place, taken("large", 60_000), 100)
        assert sessions.size <= 1_000_000
    assert sessions.of(0, 1) is None
    assert sessions.of(109, 1) == "large"
    sessions.put("huge", taken("huge", 10_000_000), 100)
    assert sessions.size == len(sessions) == 0
    assert sessions.of("huge", 1) is None


def test_the_library_reads_the_authorities_of_the_system_at_its_first_connection() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    late_authorities.leave_out(context)
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.com")
    assert type(context) is ssl.SSLContext
    assert context.get_ca_certs() == ssl.create_default_context().get_ca_certs()
    assert "set_default_verify_paths" not in vars(ssl.SSLContext)

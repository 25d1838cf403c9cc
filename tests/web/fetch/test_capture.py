"""Exchanges that are kept as they were on the wire: their bytes are those of a real server."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import FetchSettings, Settings, SitesSettings, SiteTable
from crawler.base.settings.sites import Sites
from crawler.web.fetch import Failure, FailureKind, Fetcher, RawExchange, Response, Truncation, is_html, with_own
from tests.web.fetch.sites import LOCAL, page, site


@dataclass(frozen=True)
class Keep:
    """Keeps what has these types, or everything."""

    types: tuple[str, ...] = ()
    max_size: int = 10_000_000

    def wants(self, href: str, status: int, content_type: str | None) -> bool:
        assert href.startswith("http")
        return not self.types or content_type in self.types


ALL = Keep()


async def fetch(
    url: str, keep: Keep | None = ALL, settings: FetchSettings | Sites = LOCAL, **options: object
) -> Response | Failure:
    async with Fetcher(settings, concurrency=4, per_host=1) as fetcher:
        return await fetcher.fetch(url, keep=keep, **options)  # type: ignore[arg-type]


async def raw_of(answer: bytes, keep: Keep = ALL, **options: object) -> tuple[RawExchange, Response | Failure]:
    async with site(answer) as served:
        result = await fetch(served.url + "a%2Fb?c", keep, **options)  # type: ignore[arg-type]
    assert result.raw is not None
    assert result.raw.request == served.requests[0]
    assert result.raw.address == "127.0.0.1"
    return result.raw, result


def split(answer: bytes) -> tuple[bytes, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", body


GZIPPED = gzip.compress(b"<a href=x>" * 10_000, mtime=0)
WHOLE = {
    "page": page(b"<p>hello", "X-Odd:  a ;b\t", "x-odd: c"),
    "coded": page(GZIPPED, "Content-Encoding: gzip"),
    "coding unknown": page(b"<p>x", "Content-Encoding: x"),
    "empty": page(b""),
    "large": page(b"x" * 900_000),
    "image": page(b"\x89PNG" * 50_000, kind="image/png"),
    "redirect": page(b"moved", "Location: /x", status="302 Found"),
    "not found": page(b"none", status="404 Not \xe9".encode("latin-1").decode("latin-1")),
    "no content": b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
    "until the end": b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nall of it",
    "folded": b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n  b\r\nContent-Length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
async def test_what_is_kept_is_what_was_on_the_wire(answer: bytes) -> None:
    raw, result = await raw_of(answer)
    assert isinstance(result, Response)
    assert (raw.head, raw.body) == split(answer)
    assert (raw.truncated, raw.chunked) == (None, False)


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("html", [True, False])
async def test_the_transfer_coding_is_removed_and_said(end: bytes, html: bool) -> None:
    kind = b"text/html" if html else b"image/png"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw, _ = await raw_of(head + end.join([b"3", b"abc", b"2", b"de", b"0", b"", b""]))
    assert raw == RawExchange(raw.request, head, b"abcde", None, chunked=True, address="127.0.0.1")


async def test_a_head_that_only_browsers_read_is_kept_as_it_was_sent() -> None:
    head = b"HTTP/1.1 200 OK\nContent-Type : text/html\nBad Header: x\nContent-Length: 2\n\n"
    raw, result = await raw_of(b"\r\n" + head + b"ab")
    assert isinstance(result, Response)
    assert (raw.head, raw.body, result.body) == (head, b"ab", b"ab")


async def test_each_exchange_of_a_connection_has_its_own() -> None:
    answers = [page(b"one"), page(b"two", "X: y"), page(b"three"), page(b"four")]
    async with (
        site(*answers, keep_alive=True) as served,
        Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher,
    ):
        keeps = (ALL, None, ALL, Keep(("image/png",)))
        found = [await fetcher.fetch(f"{served.url}{number}", keep=keep) for number, keep in enumerate(keeps)]
    assert served.connections == 1
    assert found[1].raw is None
    assert found[3].raw is None, "its type is not wanted"
    for number in (0, 2):
        raw = found[number].raw
        assert raw is not None
        assert raw.request == served.requests[number]
        assert (raw.head, raw.body) == split(answers[number])


# -- not the whole body ----------------------------------------------------------------------------------------


async def test_a_body_that_is_longer_than_what_is_kept_is_cut() -> None:
    raw, result = await raw_of(page(b"0123456789"), Keep(max_size=4))
    assert isinstance(result, Response)
    assert (result.body, raw.body, raw.truncated) == (b"0123456789", b"0123", Truncation.LENGTH)
    raw, _ = await raw_of(page(b"0123"), Keep(max_size=4))
    assert (raw.body, raw.truncated) == (b"0123", None)


@pytest.mark.parametrize("coded", [True, False])
async def test_a_body_that_is_too_large_to_be_read(coded: bool) -> None:
    body = b"x" * 200_000
    answer = page(gzip.compress(body), "Content-Encoding: gzip") if coded else page(body)
    raw, result = await raw_of(answer, max_body=1_000)
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.TOO_LARGE
    assert raw.head == split(answer)[0]
    assert split(answer)[1].startswith(raw.body)
    assert raw.truncated is (None if raw.body == split(answer)[1] else Truncation.LENGTH)


@pytest.mark.parametrize("kind", ["text/html", "image/png"])
async def test_a_body_that_takes_too_long(kind: str) -> None:
    async def halting(writer: asyncio.StreamWriter) -> None:
        # In one packet: the time of the body begins when its head is there.
        writer.write(page(b"x" * 1_000, kind=kind)[:-400])
        await asyncio.Event().wait()

    async with site(halting) as served:
        result = await fetch(served.url, settings=replace(LOCAL, body_timeout=0.2))
    assert result.raw is not None
    assert (result.raw.body, result.raw.truncated) == (b"x" * 600, Truncation.TIME)
    assert isinstance(result, Failure) is is_html(kind)


BROKEN = GZIPPED[:10] + b"\xff" * 200_000


@pytest.mark.parametrize("coding", ["gzip", "gzip, klingon", "klingon, gzip", "gzip," * 6])
async def test_a_body_that_cannot_be_decoded_is_kept_whole(coding: str) -> None:
    for most, kept, truncated in ((300_000, BROKEN, None), (50, BROKEN[:50], Truncation.LENGTH)):
        raw, result = await raw_of(page(BROKEN, f"Content-Encoding: {coding}"), Keep(max_size=most))
        assert isinstance(result, Failure)
        assert result.kind is FailureKind.ENCODING
        assert (raw.body, raw.truncated) == (kept, truncated)


async def test_an_answer_without_a_head_is_nothing_to_keep() -> None:
    async with site(b"HTTP/1.1 2") as served:
        result = await fetch(served.url)
    assert isinstance(result, Failure)
    assert result.raw is None


# -- secrets and proxies ---------------------------------------------------------------------------------------


async def test_secrets_are_sent_and_not_kept(tmp_path: Path) -> None:
    secret = tmp_path / "login"
    secret.write_text("me:secret")
    async with site(page(b"x", "Set-Cookie: a=b"), keep_alive=True) as served:
        table = SiteTable(served.url.rstrip("/"), headers=("X-Key: hidden",), login=f"file:{secret}")
        settings = Settings(fetch=replace(LOCAL, cookies=True), site=SitesSettings((table,)))
        async with Fetcher(Sites(settings), concurrency=1, per_host=1) as fetcher:
            await fetcher.fetch(served.url)
            own = with_own({"If-None-Match": '"x"'}, {"x-key": "of code", "X-Own": "of code"})
            result = await fetcher.fetch(served.url, keep=ALL, headers=own)
    sent = served.requests[1]
    assert result.raw is not None
    names = (b"x-key: of code", b"X-Own", b"Authorization", b"Cookie")
    secrets = [line for line in sent.split(b"\r\n") if line.startswith(names)]
    assert len(secrets) == 4
    assert b"X-Key" not in sent, "what code says of one request goes before what holds for its site"
    for line in secrets:
        sent = sent.replace(line + b"\r\n", b"")
    assert result.raw.request == sent
    assert b'If-None-Match: "x"\r\n' in sent

"""Complete responses: what is read, what is dropped, what is told about them."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import brotli  # type: ignore[import-untyped]
import pytest
from msgspec.structs import replace

from crawler.web.fetch import Failure, FailureKind, Fetcher, Response, is_html
from tests.web.fetch.sites import LOCAL, page, site


async def get(url: str, **options: object) -> Response:
    async with Fetcher(LOCAL, concurrency=4, per_host=1) as fetcher:
        answer = await fetcher.fetch(url, **options)  # type: ignore[arg-type]
    assert isinstance(answer, Response), answer
    return answer


async def test_a_page() -> None:
    async with site(page(b"<p>hello", "X-Other: 1", "Retry-After: 7")) as served:
        answer = await get(served.url + "a%2Fb?c=%2f&d")
    assert (answer.status, answer.body, answer.received) == (200, b"<p>hello", 8)
    assert (answer.content_type, answer.charset) == ("text/html", "utf-8")
    assert (answer.location, answer.retry_after) == (None, "7")
    assert answer.headers["x-OTHER"] == "1"
    assert answer.seconds > 0
    assert answer.address == "127.0.0.1"
    assert served.requests[0].startswith(b"GET /a%2Fb?c=%2f&d HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("contact", "sent"),
    [(None, b"User-Agent: crawler/0.1\r\n"), ("me@a.org", b"User-Agent: crawler/0.1 (+me@a.org)\r\n")],
)
async def test_user_agent(contact: str | None, sent: bytes) -> None:
    async with (
        site(page(b"")) as served,
        Fetcher(replace(LOCAL, contact=contact), concurrency=1, per_host=1) as fetcher,
    ):
        await fetcher.fetch(served.url)
    assert sent in served.requests[0]
    assert b"Cookie" not in served.requests[0]


async def test_cookies_are_forgotten() -> None:
    async with (
        site(page(b"", "Set-Cookie: a=b"), keep_alive=True) as served,
        Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher,
    ):
        await fetcher.fetch(served.url)
        again = await fetcher.fetch(served.url)
    assert again.address == "127.0.0.1", "known on a kept connection too"
    assert len(served.requests) == 2
    assert b"Cookie" not in served.requests[1]


@pytest.mark.parametrize(
    ("name", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress)]
)
async def test_content_encodings_are_undone(name: str, encode: object) -> None:
    body = b"<a href=x>" * 20_000
    async with site(page(encode(body), f"Content-Encoding: {name}")) as served:  # type: ignore[operator]
        answer = await get(served.url)
    assert answer.body == body
    assert name.encode() in served.requests[0].partition(b"Accept-Encoding:")[2].partition(b"\r\n")[0]


async def test_what_follows_the_end_of_brotli_is_left_out_of_the_body() -> None:
    body = b"<a href=x>" * 20_000
    async with site(page(brotli.compress(body) + bytes(100), "Content-Encoding: br")) as served:
        answer = await get(served.url)
    assert (answer.body, answer.truncated) == (body, None)
    assert answer.note is not None


@pytest.mark.parametrize(
    ("location", "read"),
    [
        (b"/next", "/next"),
        (b"//other.example/a b", "//other.example/a b"),
        ("/\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), "/\N{LATIN SMALL LETTER E WITH ACUTE}"),
        (b"/\xe9", "/%E9"),
        (b"\r\nLocation: /second", "/second"),
        (b"", None),
        (b"http://[bad", "http://[bad"),
    ],
)
async def test_locations_come_as_browsers_read_them(location: bytes, read: str | None) -> None:
    raw = b"HTTP/1.1 301 X\r\nLocation: " + location + b"\r\nContent-Length: 4\r\n\r\nbody"
    async with site(raw) as served:
        answer = await get(served.url)
    assert (answer.status, answer.location, answer.body) == (301, read, None if read else b"body")
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    ("header", "kind", "charset"),
    [
        ("text/html", "text/html", None),
        ("TEXT/HTML;Charset=UTF-8", "text/html", "UTF-8"),
        ('text/html; x=y; charset="koi8-r"', "text/html", "koi8-r"),
        ("text/html, text/html; charset=utf-8", "text/html", "utf-8"),
        ("application/xhtml+xml ; charset = latin1", "application/xhtml+xml", None),
        ("image/png", "image/png", None),
        ("nonsense", None, None),
        ("; charset=utf-8", None, None),
        ("text/plain\r\nContent-Type: text/html", "text/html", None),
        ("text/html; charset=koi8-r\r\nContent-Type: text/html", "text/html", "koi8-r"),
        ("text/html; charset=koi8-r\r\nContent-Type: text/html; charset=utf-8", "text/html", "utf-8"),
        ("text/html; charset=koi8-r, text/plain, text/html", "text/html", None),
        ("text/html\r\nContent-Type: nonsense, */*", "text/html", None),
        ('image/png; x="a,text/html"; charset=utf-8, text/', "image/png", "utf-8"),
        ('text/html; x="\\", text/plain', "text/html", None),
        ('text/html; x=";charset=no"; "y; z ;CHARSET="\\utf-8" z', "text/html", "utf-8"),
        ("text/html; charset=; charset=utf-8", "text/html", "utf-8"),
        ("text/html; xcharset=no;charset=utf-8", "text/html", "utf-8"),
        ("*/*", None, None),
        ("*/*; charset=utf-8", None, "utf-8"),
        ("Unknown/Unknown; charset=utf-8", None, "utf-8"),
        ("text/plain, application/unknown", None, None),
        ("text/html; charset=", "text/html", None),
    ],
)
async def test_content_types(header: str, kind: str | None, charset: str | None) -> None:
    async with site(page(b"x", kind=header)) as served:
        answer = await get(served.url)
    assert (answer.content_type, answer.charset) == (kind, charset)
    assert (answer.body is not None) == is_html(kind)


async def test_accept_is_asked_before_the_body_is_read() -> None:
    asked: list[str | None] = []

    def refuse(kind: str | None) -> bool:
        asked.append(kind)
        return False

    async def head_only(writer: asyncio.StreamWriter) -> None:
        writer.write(page(b"x" * 500_000)[:200])
        await writer.drain()
        await asyncio.Event().wait()

    async with site(head_only) as served:
        answer = await get(served.url, accept=refuse)
    assert asked == ["text/html"]
    assert (answer.status, answer.body, answer.received) == (200, None, 0)


async def test_a_large_dropped_body_costs_the_connection() -> None:
    film = page(b"\0" * 900_000, kind="video/mp4")
    async with (
        site(film, page(b"next"), keep_alive=True) as served,
        Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher,
    ):
        first = await fetcher.fetch(served.url)
        second = await fetcher.fetch(served.url)
    assert isinstance(first, Response)
    assert isinstance(second, Response)
    assert (first.body, second.body) == (None, b"next")
    assert served.connections == 2


@pytest.mark.parametrize(("size", "fits"), [(1000, True), (1001, False)])
@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("sized", [False, True])
async def test_size_limit(size: int, fits: bool, encoded: bool, sized: bool) -> None:
    body = b"a" * size
    sent = gzip.compress(body) if encoded else body
    raw = page(sent, "Content-Encoding: gzip") if encoded else page(sent)
    if not sized:
        raw = raw.replace(b"Content-Length", b"X-Length")
    async with site(raw) as served, Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher:
        answer = await fetcher.fetch(served.url, max_body=1000)
        cut = await fetcher.fetch(served.url, max_body=1000, truncate=True)
    assert isinstance(cut, Response)
    assert cut.body == body[:1000]
    if fits:
        assert isinstance(answer, Response)
        assert answer.body == body
    else:
        assert isinstance(answer, Failure)
        assert answer.kind == FailureKind.TOO_LARGE

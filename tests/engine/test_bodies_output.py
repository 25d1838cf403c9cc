"""The bodies that a crawl keeps: after content decoding, as far as they came and as they were chosen."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from crawler.engine.stored_body import body_of_answer
from crawler.fetch import RawExchange, Response, Truncation
from crawler.fetch.simulated import page
from tests.outputs import bodies_of, records
from tests.program import crawler
from tests.site import Site

TEXT = b"what a user wants to open " * 40
ZIPPED = gzip.compress(TEXT, mtime=0)


def raw(body: bytes, coding: str = "", truncated: Truncation | None = None) -> RawExchange:
    head = b"HTTP/1.1 200 OK\r\nX: y\r\n" + (f"Content-encoding:  {coding}\r\n".encode() if coding else b"")
    return RawExchange(b"", head + b"\r\n", body, truncated)


ANSWERS: dict[str, tuple[RawExchange, int, bytes, str | None]] = {
    "as it came": (raw(TEXT), 2_000, TEXT, None),
    "too long": (raw(TEXT), 100, TEXT[:100], "length"),
    "cut when it was received": (raw(TEXT, truncated=Truncation.DISCONNECT), 2_000, TEXT, "disconnect"),
    "gzip": (raw(ZIPPED, "gzip"), 2_000, TEXT, None),
    "gzip, twice": (raw(gzip.compress(ZIPPED), "gzip, gzip"), 2_000, TEXT, None),
    "gzip of too much": (raw(ZIPPED, "gzip"), 100, TEXT[:100], "length"),
    "half of gzip": (raw(ZIPPED[:40], "gzip", Truncation.TIME), 2_000, TEXT, "time"),
    "the first bytes of gzip, all that was sent": (raw(ZIPPED[:40], "gzip"), 2_000, TEXT, "unspecified"),
    "half of deflate": (raw(zlib.compress(TEXT)[:40], "deflate"), 2_000, TEXT, "unspecified"),
    "a coding that nobody knows": (raw(TEXT, "rot13"), 2_000, TEXT, None),
    "a coding that it is not in": (raw(b"\0" * 50, "br, gzip"), 2_000, b"", "unspecified"),
    "nothing": (raw(b""), 2_000, b"", None),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_a_body_is_stored_as_far_as_it_came(what: str) -> None:
    exchange, most, wanted, cut = ANSWERS[what]
    data, said = await body_of_answer(None, exchange, most)
    assert said == cut
    assert data == wanted if len(exchange.body) != 40 else wanted.startswith(data)


async def test_what_the_crawl_has_decoded_is_not_decoded_again() -> None:
    answer: Response = page("<p>read")
    assert await body_of_answer(answer, raw(b"?", "gzip"), 2_000) == (b"<p>read", None)
    assert await body_of_answer(answer, raw(b"?", "gzip"), 4) == (b"<p>r", "length")
    cut = replace(answer, whole=False)
    assert await body_of_answer(cut, raw(b"?", "gzip"), 2_000) == (b"<p>read", "unspecified")
    assert await body_of_answer(answer, None, 2_000) == (b"", None), "it was not chosen"


def test_a_crawl_keeps_the_bodies_that_are_chosen(tmp_path: Path) -> None:
    """Of pages and of others, large and small, by the real program."""
    large = bytes(range(256)) * 1_100

    async def image(request: web.Request) -> web.Response:
        answer = web.Response(body=large, content_type="image/png")
        answer.enable_chunked_encoding()  # of a stated length it would not be fetched
        return answer

    async def zipped(request: web.Request) -> web.Response:
        return web.Response(body=ZIPPED, content_type="application/x", headers={"Content-Encoding": "gzip"})

    async def moved(request: web.Request) -> web.Response:
        return web.Response(status=302, body=b"over there", headers={"Location": "/"}, content_type="text/html")

    async def text(request: web.Request) -> web.Response:
        return web.Response(text="no type that is stored")

    html = "".join(f'<a href="{path}">x</a>' for path in ("/image", "/zipped", "/moved", "/copy", "/none", "/text"))
    pages = {
        "/": html,
        "/image": image,
        "/zipped": zipped,
        "/moved": moved,
        "/copy": html,
        "/text": text,
    }
    with Site(pages) as site:
        (tmp_path / "c.toml").write_text(
            '[output]\nkeep = ["bodies"]\nstore_types = ["text/html", "image/*", "application/*"]\n'
            f'store_statuses = ["2xx", "3xx"]\nstore_max_size = {len(large) - 1}\n'
            "[politeness]\ndelay = 0\n[traps]\nsoft404 = false\n"
        )
        job = tmp_path / "job"
        (tmp_path / "seeds.txt").write_text(site.url("/"))
        ran = crawler(
            tmp_path / "seeds.txt", "--job", job, "--config", tmp_path / "c.toml", "--allow-private", "--quiet"
        )
        assert ran.code == 0, ran.err
        found = bodies_of(job)
        assert found == {
            site.url("/"): html.encode(),
            site.url("/copy"): html.encode(),
            site.url("/image"): large[:-1],
            site.url("/zipped"): TEXT,
            site.url("/moved"): b"over there",
        }
    said = {record["url"]: record for record in records(job)}
    assert {url: record["body_cut"] for url, record in said.items() if "body_cut" in record} == {
        site.url("/image"): "length"
    }
    assert said[site.url("/")]["body"] == said[site.url("/copy")]["body"]
    kept = json.loads(crawler("stats", job, "--json").out)["outputs"]["bodies"]
    assert kept == {"files": 4, "bytes": sum(map(len, set(found.values())))}

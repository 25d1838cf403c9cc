"""The bodies that a crawl keeps: after content decoding, as far as they came and as they were chosen."""

from __future__ import annotations

import gzip
import json
import random
import sys
import zlib
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
from aiohttp import web
from msgspec.structs import replace

from crawler.engine.stored_body import body_of_answer
from crawler.web.fetch import RawExchange, Response, Truncation
from crawler.web.fetch.simulated import page
from tests.outputs import bodies_of, records
from tests.program import crawler
from tests.site import Site

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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
    "a coding that it is not in": (raw(b"\0" * 50, "br, gzip"), 2_000, b"\0" * 50, "unspecified"),
    "one that nobody knows within another": (raw(ZIPPED, "rot13, gzip"), 2_000, ZIPPED, None),
    "one that nobody knows around another": (raw(ZIPPED, "gzip, rot13"), 2_000, ZIPPED, None),
    "too many codings": (raw(ZIPPED, "gzip," * 6), 2_000, ZIPPED, None),
    "a wrong checksum": (raw(ZIPPED[:-8] + bytes(8), "gzip"), 2_000, TEXT, "unspecified"),
    "a wrong checksum within": (raw(gzip.compress(ZIPPED[:-8] + bytes(8)), "gzip, gzip"), 2_000, TEXT, "unspecified"),
    "one byte of gzip": (raw(b"\x1f", "gzip"), 2_000, b"\x1f", "unspecified"),
    "one byte of deflate": (raw(b"\x78", "deflate"), 2_000, b"\x78", "unspecified"),
    "only the header of gzip": (raw(ZIPPED[:10], "gzip", Truncation.TIME), 2_000, ZIPPED[:10], "time"),
    "gzip of nothing": (raw(gzip.compress(b""), "gzip"), 2_000, b"", None),
    "a frame and the first bytes of the next": (
        raw(zstd.compress(TEXT) + zstd.compress(TEXT)[:3], "zstd"),
        2_000,
        TEXT,
        "unspecified",
    ),
    "a frame and something else": (raw(zstd.compress(TEXT) + b"(_", "zstd"), 2_000, TEXT, None),
    "nothing": (raw(b""), 2_000, b"", None),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_a_body_is_stored_as_far_as_it_came(what: str) -> None:
    exchange, most, wanted, cut = ANSWERS[what]
    data, said = await body_of_answer(None, exchange, most)
    assert said == cut
    assert data == wanted if len(exchange.body) != 40 else wanted.startswith(data)


NOISE = random.Random(1).randbytes(12_000) + bytes(400_000)
FAULTY: dict[str, bytes] = {
    "gzip": gzip.compress(NOISE)[:-8] + bytes(8),
    "deflate": zlib.compress(NOISE)[:-4] + bytes(4),
    "zstd": zstd.compress(NOISE, options={zstd.CompressionParameter.checksum_flag: 1})[:-4] + bytes(4),
}
AROUND = {"": bytes, "gzip": gzip.compress, "br": brotli.compress}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("coding", FAULTY)
async def test_what_comes_before_a_fault_is_stored(coding: str, around: str) -> None:
    """The coding shows its fault when much has come out of the same piece."""
    answer = raw(AROUND[around](FAULTY[coding]), f"{coding}, {around}")
    assert await body_of_answer(None, answer, 10**6) == (NOISE, "unspecified")


async def test_garbage_behind_much_brotli_is_no_cut() -> None:
    noise = random.Random(2).randbytes(300_000)
    answer = raw(brotli.compress(noise, quality=1) + b"garbage", "br")
    assert await body_of_answer(None, answer, 10**6) == (noise, None)


async def test_what_the_crawl_has_decoded_is_not_decoded_again() -> None:
    answer: Response = page("<p>read")
    assert await body_of_answer(answer, raw(b"?", "gzip"), 2_000) == (b"<p>read", None)
    assert await body_of_answer(answer, raw(b"?", "gzip"), 4) == (b"<p>r", "length")
    cut = replace(answer, whole=False)
    assert await body_of_answer(cut, raw(b"?", "gzip"), 2_000) == (b"<p>read", "unspecified")
    nothing = replace(cut, body=b"")
    assert await body_of_answer(nothing, raw(b"\x1f", "gzip"), 2_000) == (b"\x1f", "unspecified")
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

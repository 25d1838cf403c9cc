"""The bodies that a crawl keeps: after content decoding, as far as they came and as they were chosen."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from aiohttp import web

from tests.outputs import bodies_of, records
from tests.program import crawler
from tests.site import Site

TEXT = b"what a user wants to open " * 40
ZIPPED = gzip.compress(TEXT, mtime=0)


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

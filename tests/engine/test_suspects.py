"""The real program killed while it reads a page: the page is visited later, and an end to it is found."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.base.disk import CRASH_AT
from crawler.job.parsing_notes import PARSING, read_notes
from tests.jobs import verify
from tests.program import crawler
from tests.site import Site, linked

PATHS = ["/", *(f"/{number}" for number in range(6))]
PAGES = {"/": linked(PATHS), **dict.fromkeys(PATHS[1:], "<p>x")}


def crawl(directory: Path, *sites: Site, at: str = "") -> int:
    (directory / "seeds.txt").write_text("".join(site.url("/") + "\n" for site in sites))
    words = (directory / "seeds.txt", "--job", directory / "job", "--delay", "0", "--concurrency", "1")
    ran = crawler(*words, "--allow-private", "--quiet", env={CRASH_AT: at})
    assert "Traceback" not in ran.err
    return ran.code


def rows(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "job" / "pages.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
def test_a_crash_while_a_page_is_read_costs_the_page_its_place_and_nothing_else(
    tmp_path: Path, number: signal.Signals
) -> None:
    with Site(PAGES) as site:
        assert crawl(tmp_path, site, at=f"parsing:5:{number.name}") == -number
        assert len(read_notes(tmp_path / "job")) == 1
        before = [row["url"] for row in rows(tmp_path)]
        told = crawler("explain", tmp_path / "job", site.url(site.asked[-1].path)).out
        assert "crashes" not in told, "nothing is known before the next run"
        asked = [one.path for one in site.asked]
        assert crawl(tmp_path, site) == 0
    found = rows(tmp_path)
    assert Counter(row["url"] for row in found) == Counter(site.url(path) for path in PATHS)
    assert {row["outcome"] for row in found} == {"fetched"}
    assert found[-1]["url"] == site.url(asked[-1]), "visited last"
    assert found[-1]["url"] not in before
    assert not (tmp_path / "job" / PARSING).exists(), "a run that ends in order leaves no notes"
    assert verify(tmp_path / "job").code == 0


def test_a_sitemap_that_was_read_at_a_crash_is_read_in_another_process(tmp_path: Path) -> None:
    async def listing(_: web.Request) -> web.Response:
        urls = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in PATHS[1:])
        return web.Response(text=f"<urlset>{urls}</urlset>", content_type="application/xml")

    with Site({**PAGES, "/": listing}) as site:
        assert crawl(tmp_path, site, at="parsing:1") == -signal.SIGKILL
        assert crawl(tmp_path, site) == 0
    found = {row["url"]: row for row in rows(tmp_path)}
    assert found[site.url("/")]["links"] == len(PATHS) - 1
    assert {url: row["outcome"] for url, row in found.items()} == {site.url(path): "fetched" for path in PATHS}


def test_a_page_that_kills_the_program_does_it_once(tmp_path: Path) -> None:
    """From then on the program itself does not even look at it."""
    with Site({"/": "<p>deadly"}) as deadly:
        assert crawl(tmp_path, deadly, at="parsing:1") == -signal.SIGKILL
        assert crawl(tmp_path, deadly, at="parsing:1") == 0
    assert [row["outcome"] for row in rows(tmp_path)] == ["fetched"]
    assert verify(tmp_path / "job").code == 0

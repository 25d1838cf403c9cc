"""A visit that only waits lends its slot, so that hosts whose bodies must wait keep no other host from being asked."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.engine.lifecycle import Stop
from crawler.engine.slots import LEND_AFTER
from crawler.web.fetch import Response
from tests.laboratory import SETTINGS, START, Laboratory, links
from tests.simulated_web import page

SLOTS = SETTINGS.crawl.concurrency
PAGES = 40
WAIT = 30.0  # seconds
LARGE = [f"large{number}.test" for number in range(2 * SLOTS - 1)]


def beside_large_bodies(directory: Path, hosts: list[str], pages: int = PAGES) -> Laboratory:
    """A site of so many pages, and hosts whose every body waits for memory."""
    web = {f"http://innocent.test/{number}": page(f"<p>number {number}") for number in range(1, pages)}
    web["http://innocent.test/0"] = page(links([f"/{number}" for number in range(1, pages)]))
    web |= {f"http://{name}/": page(f"<p>{name}" + links(["/more"])) for name in hosts}
    web |= {f"http://{name}/more": page(f"<p>more of {name}") for name in hosts}
    laboratory = Laboratory(directory, web, waits=dict.fromkeys(hosts, WAIT))
    return laboratory.with_politeness(delay=1.0)


def sitemap(listed: list[str]) -> Response:
    return replace(
        page(f"<urlset>{''.join(f'<url><loc>{href}</loc></url>' for href in listed)}</urlset>"), content_type="text/xml"
    )


def seeds_of(hosts: list[str]) -> list[str]:
    return [*(f"http://{name}/" for name in hosts), "http://innocent.test/0"]


def test_hosts_whose_bodies_wait_keep_no_other_from_being_asked(tmp_path: Path) -> None:
    laboratory = beside_large_bodies(tmp_path, LARGE)
    assert laboratory.run(*seeds_of(LARGE)) is Stop.FINISHED
    asked = [each.begin - START for each in laboratory.requests_to("innocent.test")]
    assert len(asked) == PAGES
    assert asked[0] < LEND_AFTER + 0.5
    assert max(later - earlier for earlier, later in pairwise(asked)) < LEND_AFTER + 1.5, "its gap, and a wait"
    assert len(laboratory.requests_to(*LARGE)) == 2 * len(LARGE)
    for name in LARGE:
        first, second = laboratory.requests_to(name)
        assert second.begin >= first.end + 1.0, "the gap follows the body"


@pytest.mark.parametrize("kind", ["sitemap", "page"])
def test_hosts_with_long_lists_of_links_keep_no_other_from_being_asked(tmp_path: Path, kind: str) -> None:
    """They are read piece by piece, and each piece waits for its turn."""
    hosts, listed = ["long0.test", "long1.test"], [f"http://elsewhere.test/{number}" for number in range(8_000)]
    laboratory = beside_large_bodies(tmp_path, hosts, pages=5)
    for name in hosts:
        laboratory.pages[f"http://{name}/"] = sitemap(listed) if kind == "sitemap" else page(links(listed))
    limits = replace(SETTINGS.links, max_links=len(listed))
    crawl = replace(SETTINGS.crawl, concurrency=len(hosts), scope="host")
    laboratory.settings = replace(laboratory.settings, crawl=crawl, links=limits)
    laboratory.waits, laboratory.busy = {}, 0.05
    assert laboratory.run(*seeds_of(hosts)) is Stop.FINISHED
    begins = [each.begin - START for each in laboratory.requests_to("innocent.test")]
    assert len(begins) == 5
    assert begins[0] < LEND_AFTER + 1.5
    assert laboratory.now - START > 3.0

"""Crawls that visit pages again hear what sitemaps and feeds say of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import RecrawlSettings
from crawler.engine.lifecycle import Stop
from crawler.frontier.page import unpack_page
from crawler.frontier.sitemap_dates import LEAST, Trust, trust_key, unpack_trust
from crawler.job.records import decode_counters
from crawler.web.fetch import Response
from tests.faulty_disk import PowerCutError
from tests.jobs import findings
from tests.laboratory import SETTINGS, START, Laboratory, links
from tests.simulated_web import Answer, page

HOST = "http://h.test"
PAGES = 8
EVERY = 40.0  # seconds between two changes of a page
RECRAWL = RecrawlSettings(enabled=True, mean_interval=20.0, min_interval=1.0, max_interval=200.0)


def xml(text: str, kind: str = "application/xml") -> Response:
    body = text.encode()
    return Response(200, {}, kind, "utf-8", body, None, None, 0.0, len(body))


def dated_site(lab: Laboratory, *, truth: bool) -> None:
    """Pages that change one after the other, and a sitemap that says when, or that all did just now."""

    def changed_at(number: int) -> float:
        shift = START + EVERY * number / PAGES
        return shift + (lab.asked[-1].begin - shift) // EVERY * EVERY

    def sitemap(_: Mapping[str, str]) -> Response:
        at = [changed_at(number) if truth else lab.asked[-1].begin for number in range(PAGES)]
        dates = [datetime.fromtimestamp(each, UTC).isoformat() for each in at]
        entries = [f"<url><loc>{HOST}/{n}</loc><lastmod>{date}</lastmod></url>" for n, date in enumerate(dates)]
        return xml(f"<urlset>{''.join(entries)}<!-- {lab.asked[-1].begin} --></urlset>")

    def numbered(number: int) -> Any:
        return lambda _: page(f"page {number} of {changed_at(number)}")

    served: dict[str, Any] = {f"{HOST}/{number}": numbered(number) for number in range(PAGES)}
    lab.pages.update(cast("dict[str, Answer]", served | {f"{HOST}/sitemap.xml": sitemap}))


def believed(lab: Laboratory) -> Trust:
    return unpack_trust(lab.store.get(Family.META, trust_key("h.test:80"))) or Trust()


def whole(lab: Laboratory) -> None:
    value = lab.store.get(Family.META, b"counters")
    assert value is not None
    assert findings(lab.directory, lab.store, decode_counters(value)) == []


@pytest.mark.parametrize("truth", [True, False])
def test_a_site_is_believed_as_far_as_it_was_right(tmp_path: Path, truth: bool) -> None:
    lab = Laboratory(tmp_path / "job", {}, replace(SETTINGS, recrawl=RECRAWL)).with_politeness(delay=0.0)
    dated_site(lab, truth=truth)
    assert lab.run(f"{HOST}/sitemap.xml", max_time=300.0) is Stop.MAX_TIME
    trust = believed(lab)
    assert trust.signals > 5
    assert (trust.excess > 0.3) if truth else (trust.excess < LEAST), trust
    whole(lab)

    async def die(*_: object) -> None:
        await asyncio.sleep(40.0)
        raise PowerCutError

    with pytest.raises(PowerCutError):
        lab.run(f"{HOST}/sitemap.xml", max_time=600.0, during=die)
    assert lab.run(f"{HOST}/sitemap.xml", max_time=10.0) is Stop.MAX_TIME
    assert (believed(lab).excess > 0.3) if truth else (believed(lab).excess < LEAST), "it was stored with each visit"
    whole(lab)


@pytest.mark.parametrize(
    ("recrawl", "read"),
    [(RecrawlSettings(), False), (RECRAWL, True)],
    ids=["once", "again"],
)
def test_feeds_that_pages_link_to_are_read_only_if_pages_are_visited_again(
    tmp_path: Path, recrawl: RecrawlSettings, read: bool
) -> None:
    lab = Laboratory(tmp_path / "job", {}, replace(SETTINGS, recrawl=recrawl)).with_politeness(delay=0.0)
    feed = (
        "<rss><channel><item><link>/new</link><pubDate>Mon, 01 Jan 2024 00:00:00 GMT</pubDate></item></channel></rss>"
    )
    lab.pages = {
        f"{HOST}/": page('<link rel=alternate type="application/rss+xml" href=/feed>' + links(["/a"])),
        f"{HOST}/a": page("a"),
        f"{HOST}/feed": xml(feed, "application/rss+xml"),
        f"{HOST}/new": page("new"),
    }
    lab.run(f"{HOST}/", max_time=5.0)
    asked = {each.href for each in lab.asked}
    assert asked == {f"{HOST}/", f"{HOST}/a", *((f"{HOST}/feed", f"{HOST}/new") if read else ())}
    if read:
        stored = lab.store.get(Family.PAGES, f"{HOST}/feed".encode())
        assert stored is not None
        assert unpack_page(stored).entry.sitemap, "it is a page with a change rate of its own"

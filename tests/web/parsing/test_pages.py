"""The parser's process: what a page may cost, and what is left of it after a page that cost more."""

from __future__ import annotations

import asyncio
import gzip
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.processes.lane import Failed
from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import PageLinks, extract_links
from crawler.web.links.sitemap import Sitemap, SitemapForm
from crawler.web.parsing.pages import PageParser
from crawler.web.parsing.wire import ParseLimits, SitemapRead, decode_listed

SETTINGS = LinkSettings()
LINK = b"<a href=x>"
ORDINARY = b"<li><a href=/page/%d>some words</a>\n" * 3_000
FORMATTING = (b"b", b"i", b"s", b"u", b"em", b"tt", b"big", b"code")


def copies(elements: int, paragraphs: int) -> bytes:
    """Each paragraph gets a copy of all elements that are open."""
    opened = b"".join(b"<%b a=%d>" % (FORMATTING[n % 8], n) for n in range(elements))
    return b"<p>" + opened + b"<p>x" * paragraphs + LINK


def run(use: Callable[[PageParser], Awaitable[None]], limits: ParseLimits | None = None) -> None:
    async def main() -> None:
        with closing(PageParser(limits)) as parser:
            await use(parser)

    asyncio.run(main())


def links(body: bytes, limits: ParseLimits | None = None) -> PageLinks | Failed:
    found: list[PageLinks | Failed] = []

    async def use(parser: PageParser) -> None:
        found.append(await parser.parse_isolated("a.test", body, "utf-8", SETTINGS))

    run(use, limits)
    return found[0]


def sitemap(body: bytes, limits: ParseLimits | None = None) -> SitemapRead | Failed:
    found: list[SitemapRead | Failed] = []

    async def use(parser: PageParser) -> None:
        found.append(await parser.read_sitemap_isolated("a.test", body, None, SETTINGS))
        assert isinstance(await parser.parse_isolated("a.test", LINK, None, SETTINGS), PageLinks), "it goes on"

    run(use, limits)
    return found[0]


def test_a_sitemap_is_read_in_parts() -> None:
    listed = b"".join(b"<url><loc>http://a.test/%d</loc><priority>0.5</priority></url>" % n for n in range(3_000))
    body = gzip.compress(b"<urlset>%b</urlset>" % listed)
    found = sitemap(body)
    assert isinstance(found, SitemapRead)
    assert (found.form, found.is_index, found.fault) == (SitemapForm.LISTING, False, None)
    parts = [decode_listed(part) for part in found.parts]
    assert [one for part in parts for one in part] == [one for part in Sitemap(body, SETTINGS) for one in part]
    assert max(map(len, parts)) <= 250
    assert sitemap(LINK) == SitemapRead(SitemapForm.NONE)
    broken = sitemap(b"<sitemapindex><sitemap><loc>http://a.test/x</loc></sitemap>")
    assert isinstance(broken, SitemapRead)
    assert broken.is_index
    assert broken.fault is not None
    assert broken.limit is None


def test_a_sitemap_that_needs_too_much_has_failed() -> None:
    body = b"<urlset>" + b"<url><loc>http://a.test/</loc></url>" * 40_000
    found = sitemap(body, ParseLimits(seconds=0.01, seconds_per_megabyte=0.0))
    assert isinstance(found, Failed)


def descendants(pid: int) -> Iterator[int]:
    for each in Path(f"/proc/{pid}/task").iterdir():
        for child in (each / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def test_a_page_of_more_tags_than_there_is_time_for_keeps_those_that_were_read() -> None:
    body = b"".join([b"<a href=%d>" % number for number in range(400_000)])
    found = links(body, ParseLimits(seconds=0.3, seconds_per_megabyte=0))
    assert isinstance(found, PageLinks)
    assert found.hrefs == [str(number) for number in range(len(found.hrefs))]
    assert 1_000 < len(found.hrefs) < 200_000, "the most that a page may have"
    assert found.cut is not None


def test_the_links_are_those_that_are_found_here() -> None:
    page = "<base href=/b><meta name=robots content='noindex'><a href='/\u00e9'><a href=''><a href=y>".encode()
    assert links(page) == extract_links(page, "utf-8", SETTINGS)
    assert links(b"") == extract_links(b"", "utf-8", SETTINGS)
    large = b"".join(b"<a href=/%d>n</a> " % n for n in range(50_000))
    assert links(large) == extract_links(large, "utf-8", SETTINGS)


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        (copies(800, 10_000), ("s of CPU time", "MiB of memory")),  # it grows as fast as the machine is
        (b"<div>" * 100_000 + LINK, "s of CPU time"),
        (b"<a " + b" ".join(b"%x" % n for n in range(100_000)) + b">" + LINK, "s of CPU time"),
        (b"<p>x" * 700_000 + b"<svg><p>" + LINK, "MiB of memory"),  # its tokens do not tell
    ],
    ids=["copies", "nested", "attributes", "elements"],
)
def test_a_tree_that_costs_too_much_is_not_built(body: bytes, needed: str | tuple[str, ...]) -> None:
    started = time.process_time()
    found = links(body, ParseLimits(memory=128 * 2**20))
    assert isinstance(found, PageLinks)
    assert found.cut is not None
    assert found.cut.endswith(needed)
    assert found.hrefs[-1:] == ["x"], "what can be read is read"
    assert time.process_time() - started < 5


def test_copies_of_elements_cannot_take_the_memory() -> None:
    """64 KB that took gigabytes."""
    limits = ParseLimits(memory=96 * 2**20, seconds=60.0)
    found = links(copies(800, 14_000), limits)
    assert isinstance(found, PageLinks)
    assert "96" in found.cut


def test_pages_in_line_with_one_that_kills_the_process_lose_nothing() -> None:
    bodies = [(b"<div>" * 20_000 if n % 10 == 3 else ORDINARY) + b"<a href=%d>" % n for n in range(40)]

    async def use(parser: PageParser) -> None:
        found = await asyncio.gather(*(parser.parse_isolated("a.test", body, None, SETTINGS) for body in bodies))
        for number, one in enumerate(found):
            assert isinstance(one, PageLinks)
            assert one.hrefs[-1] == str(number)
            assert (one.cut is not None) == (number % 10 == 3)

    run(use)


def test_the_processes_end_with_the_parser() -> None:
    async def use(parser: PageParser) -> None:
        before = set(descendants(os.getpid()))  # of other tests
        await parser.parse_isolated("a.test", LINK, None, SETTINGS)
        assert len(set(descendants(os.getpid())) - before) == 2, "a parent and a child"
        parser.close()
        assert not set(descendants(os.getpid())) - before
        assert isinstance(await parser.parse_isolated("a.test", LINK, None, SETTINGS), PageLinks), (
            "it may be used again"
        )

    run(use)


def test_the_loop_goes_on_while_a_large_page_is_parsed() -> None:
    page = b"<p>" + b"word " * 1_000_000 + LINK
    longest, laps = 0.0, 0  # of the loop's own time: a busy machine takes away any amount of the other

    async def watch() -> None:
        nonlocal longest, laps
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest, laps = max(longest, time.thread_time() - before), laps + 1

    async def use(parser: PageParser) -> None:
        await parser.parse_isolated("a.test", LINK, None, SETTINGS)  # started
        beside = asyncio.create_task(watch())
        found = await parser.parse_isolated("a.test", page, "utf-8", SETTINGS)
        beside.cancel()
        assert isinstance(found, PageLinks)
        assert found.hrefs == ["x"]

    run(use)
    assert longest < 0.25
    assert laps > 100, "it did not wait for the child instead"


def test_dear_pages_of_many_hosts_do_not_keep_an_innocent_one_waiting() -> None:
    dear = b"<div>" * 20_000

    async def use(parser: PageParser) -> None:
        async def parse(host: str, body: bytes) -> None:
            await parser.parse_isolated(host, body, None, SETTINGS)
            done.append(host)

        done: list[str] = []
        evil = [f"evil{n}.test" for n in range(8)]
        await asyncio.gather(*(parse(host, dear) for host in evil))
        done.clear()
        await asyncio.gather(*(parse(host, dear) for host in evil), parse("good.test", ORDINARY))
        assert done.index("good.test") <= 3, "behind those that were sent already"

    run(use)

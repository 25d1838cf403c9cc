"""Where a page is parsed: here if its bytes prove that it is cheap, elsewhere if it may have killed this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.base.settings import DescribedLinks, LinkSettings
from crawler.engine.page_reader import PageReader
from crawler.engine.reading import Reading, Unreadable
from crawler.frontier import Entry, Host, Lease
from crawler.frontier.entry import fresh_slot
from crawler.job.parsing_notes import ParsingNotes, read_notes
from crawler.web.links import PageLinks, SitemapForm, extract_links, form_of
from crawler.web.parsing import PageParser, ParserDied, SitemapRead
from tests.needs import need_native

SETTINGS = LinkSettings()
PAGE = b"<a href=/x>x</a>"


class Recorded(PageParser):
    """A parser that starts no process. ``died``: what it says of every page."""

    def __init__(self, directory: Path, died: ParserDied | None = None) -> None:
        super().__init__()
        self.directory = directory
        self.died = died
        self.isolated: list[bytes] = []
        self.noted: list[int] = []

    async def read_sitemap_isolated(
        self, host: str, body: bytes, charset: str | None, settings: LinkSettings
    ) -> SitemapRead | ParserDied:
        self.isolated.append(body)
        self.noted.append(len(read_notes(self.directory)))
        return self.died or SitemapRead(form_of(body))

    async def parse_isolated(
        self, host: str, body: bytes, charset: str | None, settings: LinkSettings
    ) -> PageLinks | ParserDied:
        self.isolated.append(body)
        self.noted.append(len(read_notes(self.directory)))
        return self.died or extract_links(body, charset, settings)


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[ParsingNotes]:
    notes = ParsingNotes(tmp_path)
    yield notes
    notes.close()


def lease(crashes: int = 0) -> Lease:
    return Lease(Host("h.test:80"), fresh_slot(1), Entry("http://h.test/", 0, crashes=crashes), 0.0)


async def links_of(reader: PageReader, lease: Lease, body: bytes) -> PageLinks | Unreadable:
    links = reader.links_here(lease, body, None)
    return await reader.links_elsewhere(lease, body, None) if links is None else links


async def test_a_cheap_page_is_parsed_here_and_noted_meanwhile(tmp_path: Path, notes: ParsingNotes) -> None:
    parser = Recorded(tmp_path)
    reader = PageReader(notes, parser, SETTINGS, Reading())
    links = await links_of(reader, lease(), PAGE)
    assert isinstance(links, PageLinks)
    assert links.hrefs == ["/x"]
    assert parser.isolated == []
    assert reader.read(lease(), lambda: len(read_notes(tmp_path))) == 1
    assert list(reader.pieces(lease(), (len(read_notes(tmp_path)) for _ in range(2)))) == [1, 1]
    assert read_notes(tmp_path) == []


async def test_a_page_is_read_by_its_tokens_and_by_a_tree_only_if_they_do_not_tell(
    tmp_path: Path, notes: ParsingNotes
) -> None:
    need_native()
    parser = Recorded(tmp_path)
    reader = PageReader(notes, parser, SETTINGS, Reading())
    padding = b"<p>" * 20_000  # a tree of it may be dear
    needs_tree, large = b"<svg><p>" + PAGE, padding * 20 + PAGE
    for page in (PAGE, padding + PAGE, needs_tree, padding + needs_tree, large):
        links = await links_of(reader, lease(), page)
        assert isinstance(links, PageLinks)
        assert links.hrefs == ["/x"]
    assert parser.isolated == [padding + needs_tree, large]
    assert {way: count for way, count in reader.parsed.items() if count} == {"tokens": 2, "foreign": 2, "large": 1}


async def test_a_page_with_links_to_be_described_seldom_needs_a_tree(tmp_path: Path, notes: ParsingNotes) -> None:
    need_native()
    reader = PageReader(notes, Recorded(tmp_path), DescribedLinks(), Reading())
    needs_tree = b"<a href=/x><p>x</p><ul><li>y</li></ul></a>"
    for page, text in ((PAGE, "x"), (needs_tree, "xy")):
        links = await links_of(reader, lease(), page)
        assert isinstance(links, PageLinks)
        assert links.described is not None
        assert links.described.texts == {"/x": text}
    assert {way: count for way, count in reader.parsed.items() if count} == {"tokens": 1, "text": 1}


@pytest.mark.parametrize("crashes", [1, 2])
async def test_a_page_that_may_have_killed_the_program_is_parsed_in_another_process(
    tmp_path: Path, notes: ParsingNotes, crashes: int
) -> None:
    parser = Recorded(tmp_path)
    links = await links_of(PageReader(notes, parser, SETTINGS, Reading()), lease(crashes), PAGE)
    assert isinstance(links, PageLinks)
    assert links.hrefs == ["/x"]
    assert parser.isolated == [PAGE]
    assert parser.noted == [0], "to be killed meanwhile is not held against it"


async def test_a_page_that_kills_that_process_too_has_failed(tmp_path: Path, notes: ParsingNotes) -> None:
    parser = Recorded(tmp_path, ParserDied("parsing needed more than 192 MiB of memory"))
    links = await links_of(PageReader(notes, parser, SETTINGS, Reading()), lease(1), PAGE)
    assert links == Unreadable("parsing needed more than 192 MiB of memory")
    assert links.error == "internal: parsing needed more than 192 MiB of memory"


async def test_a_body_that_may_have_killed_the_program_is_not_even_looked_at_here(
    tmp_path: Path, notes: ParsingNotes
) -> None:
    parser, body = Recorded(tmp_path), b"<urlset><url><loc>http://h.test/x</loc></url></urlset>"
    reader = PageReader(notes, parser, SETTINGS, Reading())
    assert await reader.form(lease(), body, None) is SitemapForm.LISTING
    assert parser.isolated == []
    assert await reader.form(lease(1), body, None) == SitemapRead(SitemapForm.LISTING)
    assert (parser.isolated, parser.noted) == ([body], [0])
    parser.died = ParserDied("parsing needed more than 192 MiB of memory")
    assert await reader.form(lease(1), body, None) == Unreadable("parsing needed more than 192 MiB of memory")

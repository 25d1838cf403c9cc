"""Parses the bodies of pages. Before this process parses a body, it notes the URL, so that the page that caused a crash
is known afterwards. Such a page is then parsed in another process, and so is a page that needs a tree and may be
expensive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar, TypeVarTuple

from crawler.base.processes.lane import Failed
from crawler.base.settings.parts import LinkSettings
from crawler.engine.reading import Reading, Unreadable
from crawler.frontier.lease import Lease
from crawler.job.parsing_notes import ParsingNotes
from crawler.web.links.extract import PageLinks, extract_links, is_cheap
from crawler.web.links.sitemap import SitemapForm, form_of
from crawler.web.links.tokens import TOKENS_BYTES, Undecided, token_links
from crawler.web.parsing.pages import PageParser
from crawler.web.parsing.wire import Kind, SitemapRead

TOKENS = "tokens"

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PageReader:
    """Parses the pages of one run."""

    def __init__(self, notes: ParsingNotes, parser: PageParser, settings: LinkSettings, reading: Reading) -> None:
        self._notes = notes
        self._parser = parser
        self._settings = settings
        self._reading = reading
        self._parsed: Counter[str] = Counter()

    @property
    def parsed(self) -> dict[str, int]:
        """The number of pages that were parsed from their tokens, and, for each reason, the number that were not."""
        return {way: self._parsed[way] for way in (TOKENS, *Undecided)}

    def links_here(self, lease: Lease, body: bytes, charset: str | None) -> PageLinks | Unreadable | None:
        """Return the links of a page; None if it must be parsed in another process."""
        if _is_suspect(lease):
            return None
        told = self.read(lease, _links_by_tokens, body, charset, self._settings)
        if not isinstance(told, Undecided):
            self._parsed[TOKENS] += 1
            return told
        self._parsed[told.value] += 1
        return self.read(lease, _links_if_cheap, body, charset, self._settings)

    async def links_elsewhere(
        self, lease: Lease, body: bytes, charset: str | None, kind: Kind
    ) -> PageLinks | Unreadable:
        """Return the links of a page that is parsed in another process. The page cannot kill this process, so it is not
        noted."""
        found = await self._parser.parse_isolated(lease.host.name, body, charset, self._settings, kind)
        return self._reading.died(found) if isinstance(found, Failed) else found

    async def form(self, lease: Lease, body: bytes, charset: str | None) -> SitemapForm | SitemapRead | Unreadable:
        """Return the form of the body. A body that may kill this process is parsed in another process, which reads all
        of it if it looks like a sitemap."""
        if not _is_suspect(lease):
            return self.read(lease, form_of, body)
        found = await self._parser.read_sitemap_isolated(lease.host.name, body, charset, self._settings)
        return self._reading.died(found) if isinstance(found, Failed) else found

    def read(self, lease: Lease, parse: Callable[[*Ts], T], *arguments: *Ts) -> T | Unreadable:
        """Return the result of ``parse`` for the body of a page."""
        noted = self._notes.begin(lease)
        try:
            return self._reading.read(parse, *arguments)
        finally:
            self._notes.end(noted)

    def pieces(self, lease: Lease, parts: Iterator[T]) -> Iterator[T | Unreadable]:
        """Yield the results of ``parts`` for the body of a page, piece by piece."""
        guarded = self._reading.pieces(parts)
        while True:
            with self._notes.reading(lease):
                part = next(guarded, None)
            if part is None:
                return
            yield part

    def close(self) -> None:
        """Close the notes at the end of the run."""
        self._notes.close()


def _is_suspect(lease: Lease) -> bool:
    """Return whether the page may have crashed this process."""
    return lease.entry is not None and lease.entry.crashes > 0


def _links_by_tokens(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks | Undecided:
    """Return the links of a page, or the reason why its tokens are not enough."""
    return token_links(body, charset, settings) if len(body) <= TOKENS_BYTES else Undecided.LARGE


def _links_if_cheap(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks | None:
    """Return the links of a page; None if its bytes do not prove that it is cheap to parse."""
    return extract_links(body, charset, settings) if is_cheap(body) else None

"""Reads the bodies of pages. Before a parser sees a body its URL is noted, so that a page that kills the process is
known after the crash. Such a page is read in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar, TypeVarTuple

from crawler.engine.reading import Reading, Unreadable
from crawler.frontier import Lease
from crawler.job.parsing_notes import ParsingNotes
from crawler.links import PageLinks, extract_links
from crawler.settings import LinkSettings

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Died(Protocol):
    """The process of a parser died, or was ended because the page needed too much."""

    @property
    def reason(self) -> str:
        """Words for the page's record."""


class Parser(Protocol):
    """Finds the links of HTML pages."""

    async def links(self, body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks | Died:
        """Return the links. What is cheap is parsed in this process."""

    async def parse_isolated(self, body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks | Died:
        """Return the links. The page is parsed in another process."""


class InProcess:
    """A parser without a process of its own."""

    async def links(self, body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks:
        """See ``Parser``."""
        return extract_links(body, charset, settings)

    parse_isolated = links


class PageReader:
    """Reads the pages of one run."""

    def __init__(self, notes: ParsingNotes, parser: Parser, settings: LinkSettings, reading: Reading) -> None:
        self._notes = notes
        self._parser = parser
        self._settings = settings
        self._reading = reading

    async def links(self, lease: Lease, body: bytes, charset: str | None) -> PageLinks | Unreadable:
        """Return the links of a page."""
        suspect = lease.entry is not None and lease.entry.crashes > 0
        parse = self._parser.parse_isolated if suspect else self._parser.links
        with self._notes.reading(lease):
            try:
                found = await parse(body, charset, self._settings)
            except Exception as error:  # noqa: BLE001, see `reading`
                return self._reading.raised(error)
        return found if isinstance(found, PageLinks) else Unreadable(found.reason)

    def read(self, lease: Lease, parse: Callable[[*Ts], T], *arguments: *Ts) -> T | Unreadable:
        """Return what ``parse`` makes of the body of a page."""
        with self._notes.reading(lease):
            return self._reading.read(parse, *arguments)

    def pieces(self, lease: Lease, parts: Iterator[T]) -> Iterator[T | Unreadable]:
        """Give out what ``parts`` makes of the body of a page, piece by piece."""
        guarded = self._reading.pieces(parts)
        while True:
            with self._notes.reading(lease):
                part = next(guarded, None)
            if part is None:
                return
            yield part

    def close(self) -> None:
        """Nothing is being read any more."""
        self._notes.close()

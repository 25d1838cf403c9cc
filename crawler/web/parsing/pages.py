"""Parses the pages of a run in processes, and handles their failures.

Large pages have a separate process: a page that takes seconds must not delay others. A page that exceeds its limits is
read again, by its tags alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from msgspec.structs import replace

from crawler.base.processes.forker import Forker
from crawler.base.processes.lane import Failed, Lane, Request, Why
from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import PageLinks, scan_links
from crawler.web.links.sitemap import SITEMAP_BYTES_MOST
from crawler.web.parsing.wire import (
    Kind,
    ParseLimits,
    SitemapRead,
    decode_links,
    decode_sitemap,
    encode_asked,
)

log = logging.getLogger("crawler")

T = TypeVar("T")
PROGRAM = "crawler.web.parsing.parser_child:program"
AHEAD_PAGES = 31
LARGE_BYTES = 512 * 1024  # bytes of a page; a smaller page takes 0.15 s at most
USUAL_SECONDS_PER_MEGABYTE = 0.02  # the usual cost of parsing

Waits = Callable[[], AbstractContextManager[None]]


class PageParser:
    """Parses the pages of a run. Each of its processes starts with the first page that needs it."""

    def __init__(self, limits: ParseLimits | None = None, waits: Waits = nullcontext) -> None:
        """``waits`` returns the context in which a page waits for the parser."""
        self._waits = waits
        self._limits = limits = limits or ParseLimits()
        forker = Forker(PROGRAM)
        self._small, self._large = (Lane(forker, 1, limits.memory, ahead=AHEAD_PAGES) for _ in range(2))
        self._warned = False

    async def parse_isolated(
        self, host: str, body: bytes, charset: str | None, settings: LinkSettings, kind: Kind = Kind.TREE
    ) -> PageLinks | Failed:
        """Return the links of a page of this host, which a process parses."""
        found = await self._ask(decode_links, kind, host, body, charset, settings)
        if isinstance(found, PageLinks) or found.why is Why.RAISED:
            return found
        if kind is Kind.MARKDOWN:
            why = found.text("its Markdown needs more than")
            return PageLinks(None, [], "utf-8", False, cut=f"no links were read: {why}")
        cut = f"read by its tags alone: {found.text('its tree needs more than')}"
        if found.why is not Why.NOT_STARTED:
            found = await self._ask(decode_links, Kind.TAGS, host, body, charset, settings)
        if isinstance(found, Failed) and found.why is Why.NOT_STARTED:
            if not self._warned:
                self._warned = True
                log.warning("each large page is %s", cut)
            found = scan_links(body, charset, settings)
        return found if isinstance(found, Failed) or found.cut is not None else replace(found, cut=cut)

    async def read_sitemap_isolated(
        self, host: str, body: bytes, charset: str | None, settings: LinkSettings
    ) -> SitemapRead | Failed:
        """Return what a process read in a body from this host: the contents of a sitemap, if it is one."""
        return await self._ask(decode_sitemap, Kind.SITEMAP, host, body, charset, settings)

    def close(self) -> None:
        """End the processes, and cancel the requests of waiting pages. The next page starts new processes."""
        self._small.close()
        self._large.close()

    async def _ask(
        self,
        decode: Callable[[list[bytes]], T],
        kind: Kind,
        host: str,
        body: bytes,
        charset: str | None,
        settings: LinkSettings,
    ) -> T | Failed:
        # A sitemap may be compressed, and Markdown may take as long as a large page.
        lane = self._large if kind in (Kind.SITEMAP, Kind.MARKDOWN) or len(body) > LARGE_BYTES else self._small
        size = SITEMAP_BYTES_MOST if kind is Kind.SITEMAP else len(body)
        seconds = self._limits.for_page(size, markdown=kind is Kind.MARKDOWN)
        usual = USUAL_SECONDS_PER_MEGABYTE * len(body) / 1_000_000
        asked = encode_asked(kind, seconds, charset, settings)
        with self._waits():
            return await lane.ask(Request(host, asked, body, seconds, usual), decode)

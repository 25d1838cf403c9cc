"""The pages that the process parses, and what its death means for a page.

Large pages have a line and a process of their own: seconds of one are no reason for others to wait. In each line the
host that has cost least is next, so that dear pages of many hosts do not keep an innocent one waiting. A few pages are
sent ahead, so that the process does not wait for the event loop between two. When it dies, it is the first of these
that it was parsing: that page is read again, by its tags alone, and the others are sent to the next process as if
nothing had been.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import PageLinks, scan_links
from crawler.web.parsing.fair_line import FairLine
from crawler.web.parsing.process import KILLED, ParserProcess, Starts
from crawler.web.parsing.wire import (
    Kind,
    ParseLimits,
    ParserDied,
    SitemapRead,
    Told,
    WireError,
    decode_links,
    decode_sitemap,
    request,
)

log = logging.getLogger("crawler")

AHEAD_BYTES = 256 * 1024  # sent before the process has answered
AHEAD_PAGES = 32
LARGE_BYTES = 512 * 1024  # of a page; 0.15 s at most for one of less
USUAL_SECONDS_PER_MEGABYTE = 0.02  # what a page costs as a rule
PATIENCE = 60.0  # seconds; a process that needs so long for a page does not run at all
KILLS_MOST = 2  # times that a page is parsed again because somebody killed the process


Found = PageLinks | SitemapRead | ParserDied
Waits = Callable[[], AbstractContextManager[None]]


class _Page(Struct, eq=False):
    """A page in line."""

    host: str
    body: bytes
    charset: str | None
    settings: LinkSettings
    found: asyncio.Future[Found]
    kind: Kind = Kind.TREE
    parts: list[bytes] = field(default_factory=list)  # of the answer
    cut: str | None = None  # why it is no longer read as a tree
    kills: int = 0

    def tell(self, found: Found) -> None:
        if not self.found.done():
            self.found.set_result(found)


class PageParser:
    """Parses the pages of a run. Its processes are started by the first page that needs each."""

    def __init__(
        self,
        limits: ParseLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        waits: Waits = nullcontext,
    ) -> None:
        """``clock()`` returns seconds. Whoever waits for the parser does so in a context of ``waits``."""
        self._waits = waits
        limits = limits or ParseLimits()
        self._small, self._large = _Line(limits, clock), _Line(limits, clock)

    @property
    def deaths(self) -> int:
        """How often a page has ended a process."""
        return self._small.deaths + self._large.deaths

    async def parse_isolated(
        self, host: str, body: bytes, charset: str | None, settings: LinkSettings, kind: Kind = Kind.TREE
    ) -> PageLinks | ParserDied:
        """The links of a page of a host, parsed in a process. Markdown may take as long as a large page."""
        line = self._large if len(body) > LARGE_BYTES or kind is Kind.MARKDOWN else self._small
        page = _Page(host, body, charset, settings, asyncio.get_running_loop().create_future(), kind)
        with self._waits():
            found = await line.parse(page)
        assert not isinstance(found, SitemapRead)
        return found

    async def read_sitemap_isolated(
        self, host: str, body: bytes, charset: str | None, settings: LinkSettings
    ) -> SitemapRead | ParserDied:
        """What a body of a host holds if it is a sitemap, read in a process."""
        page = _Page(host, body, charset, settings, asyncio.get_running_loop().create_future(), Kind.SITEMAP)
        with self._waits():
            found = await self._large.parse(page)
        assert not isinstance(found, PageLinks)
        return found

    def close(self) -> None:
        """End the processes, and cancel what waits for a page. The next page starts another."""
        self._small.close()
        self._large.close()


class _Line:
    """Pages that wait for one process."""

    def __init__(self, limits: ParseLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._process = ParserProcess(limits.memory, self._take, self._ended)
        self._waiting: FairLine[_Page] = FairLine()
        self._sent: deque[_Page] = deque()
        self._again: deque[_Page] = deque()  # were sent to a process that has ended
        self._ahead = 0  # bytes in `_sent`
        self._answered = 0
        self._begun = 0.0  # when the first of `_sent` was
        self._starts = Starts()
        self._watch: asyncio.TimerHandle | None = None
        self.deaths = 0  # of the process, by a page

    async def parse(self, page: _Page) -> Found:
        """What the process finds in a page."""
        self._wait(page)
        self._send()
        return await page.found

    def close(self) -> None:
        """End the process, and cancel what waits for a page. The next page starts another."""
        self._unwatch()
        self._process.kill()
        for page in (*self._sent, *self._again, *self._waiting):
            page.found.cancel()
        self._sent.clear()
        self._again.clear()
        self._waiting.clear()
        self._ahead = 0

    # -- the line ----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        while self._again or self._waiting:
            if not self._process.running:
                if not self._starts.may_begin(self._clock()):
                    self._read_here(self._next())
                    continue
                if not self._start():
                    continue
            page = self._again[0] if self._again else self._waiting.first()
            if page is None:
                return
            if self._sent and (len(self._sent) >= AHEAD_PAGES or self._ahead + len(page.body) > AHEAD_BYTES):
                return
            self._next()
            if page.found.done():  # cancelled
                self._waiting.charge(page.host, 0.0)
                continue
            if not self._sent:
                self._begun = self._clock()
            self._sent.append(page)
            self._ahead += len(page.body)
            page.parts.clear()
            seconds = self._seconds(page)
            self._process.send(request(page.kind, seconds, page.settings, page.charset, len(page.body)), page.body)
            if self._watch is None:
                self._look_again()

    def _wait(self, page: _Page) -> None:
        self._waiting.put(page.host, page, _usual(page))

    def _next(self) -> _Page:
        return self._again.popleft() if self._again else self._waiting.take()

    def _seconds(self, page: _Page) -> float:
        """The CPU time that a page may take. A sitemap may be compressed."""
        size = page.settings.max_sitemap_bytes if page.kind is Kind.SITEMAP else len(page.body)
        return self._limits.for_page(size, markdown=page.kind is Kind.MARKDOWN)

    def _charge(self, page: _Page) -> None:
        """Let the host of a page that is done with answer for its time."""
        now = self._clock()
        self._waiting.charge(page.host, max(0.0, now - self._begun - _usual(page)))
        self._begun = now

    def _start(self) -> bool:
        self._starts.begin(self._clock())
        try:
            self._process.start()
        except OSError as error:
            self._starts.why = str(error)
            return False
        return True

    def _read_here(self, page: _Page) -> None:
        self._waiting.charge(page.host, 0.0)
        if page.kind in (Kind.SITEMAP, Kind.MARKDOWN):
            page.tell(_unread(page, f"the parser's process does not start ({self._starts.reason})"))
            return
        if not self._starts.warned:
            self._starts.warned = True
            why = self._starts.reason
            log.warning("the parser's process does not start (%s): large pages are read by their tags", why)
        links = scan_links(page.body, page.charset, page.settings)
        page.tell(_cut(links, "read by its tags alone: the parser's process does not start"))

    # -- what the process does ---------------------------------------------------------------------------------

    def _take(self, told: Told, ends: bool, payload: bytes) -> None:
        if told is Told.READY:
            self._starts = Starts()
            return
        if not self._sent:
            raise WireError("an answer to nothing")
        if told is Told.PART:
            self._sent[0].parts.append(payload)
            return
        page = self._sent.popleft()
        self._charge(page)
        self._ahead -= len(page.body)
        self._answered += 1
        match told:
            case Told.LINKS | Told.SITEMAP:
                page.tell(_decoded(page, told, payload))
            case Told.MEMORY:
                self._fail(page, f"{self._limits.memory // 2**20} MiB of memory")
            case _:
                reason, _, traceback = payload.decode("utf-8", "replace").partition("\n")
                page.tell(ParserDied(reason, traceback))
        if not ends:
            self._send()

    def _ended(self, code: int) -> None:
        """The process has ended: by its own will, by a limit, or by a fault."""
        self._unwatch()
        if code != 0 and self._sent and not self._starts.in_vain:
            page = self._sent.popleft()
            self._charge(page)
            if code == KILLED and page.kills < KILLS_MOST:
                page.kills += 1
                self._again.append(page)
            elif code == -signal.SIGPROF:
                self._fail(page, f"{self._seconds(page):.2f} s of CPU time")
            else:
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                self._fail(page, f"{self._limits.memory // 2**20} MiB of memory, or met a fault ({how})")
        self._again.extendleft(reversed(self._sent))
        self._sent.clear()
        self._ahead = 0
        self._send()

    def _fail(self, page: _Page, needed: str) -> None:
        """The page needs more than it may: read it by its tags, or not at all."""
        self.deaths += 1
        if page.kind is not Kind.TREE:
            page.tell(_unread(page, f"parsing needed more than {needed}"))
            return
        page.kind, page.cut = Kind.TAGS, f"read by its tags alone: its tree needs more than {needed}"
        self._wait(page)

    # -- patience ----------------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        self._watch = asyncio.get_running_loop().call_later(PATIENCE, self._look, self._answered)

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self, answered: int) -> None:
        self._watch = None
        if not self._sent:
            return
        if self._answered > answered:
            self._look_again()
            return
        self._process.kill()
        self._ended(KILLED)


def _usual(page: _Page) -> float:
    return USUAL_SECONDS_PER_MEGABYTE * len(page.body) / 1_000_000


def _decoded(page: _Page, told: Told, payload: bytes) -> Found:
    try:
        if (told is Told.SITEMAP) != (page.kind is Kind.SITEMAP):
            raise WireError("an answer to another question")
        if told is Told.SITEMAP:
            return decode_sitemap(payload, tuple(page.parts))
        links = decode_links(payload)
    except WireError as error:
        return ParserDied(str(error))
    return links if page.cut is None else _cut(links, page.cut)


def _unread(page: _Page, why: str) -> Found:
    """What is told of what cannot be read. Markdown is a page without its links, too: its text is kept as it is."""
    markdown = page.kind is Kind.MARKDOWN
    return PageLinks(None, [], "utf-8", False, cut=f"no links: {why}") if markdown else ParserDied(why)


def _cut(links: PageLinks, why: str) -> PageLinks:
    return links if links.cut is not None else replace(links, cut=why)

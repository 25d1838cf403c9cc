"""The processes that extract the main text of pages.

A page on which the extractor raises, takes too much time or memory, or ends its process has no text, and says why.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from crawler.base.printable import printable
from crawler.base.processes.forker import Bytes, Forker
from crawler.base.processes.lane import PATIENCE, Failed, Lane, Request, Why
from crawler.web.extract.page_text import Extracted, Forms, NoText, decode_text, encode_asked

log = logging.getLogger("crawler")

EXTRACTORS = {
    "turbohtml": "crawler.web.extract.main_text:extract",
    "trafilatura": "crawler.web.extract.by_trafilatura:extract",
}
LIBRARIES = ("trafilatura", "lxml_html_clean")
PROGRAM = "crawler.web.extract.text_child:program"
LARGE_BYTES = 512 * 1024  # of a page
SHARED_MEMORY = 48 * 2**20  # bytes of the parent, and of libraries, which all processes share
SMALL_MEMORY = 48 * 2**20  # bytes that a process for small pages has at least; 17 MiB or more are those of the parent
NICE = 5  # below the crawler: whoever waits for text does not wait for a server
_USUAL_SECONDS_PER_MEGABYTE = 0.1  # what a page costs as a rule
_PROCESSES_MOST = 4
_SHOWN = 200  # characters of the text of an exception, which may be foreign


def missing_library(libraries: Sequence[str] = LIBRARIES) -> str | None:
    """One line that says how to install what extracts text; None if all of it is installed."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return f"text.extractor trafilatura needs {' and '.join(missing)}: pip install {' '.join(missing)}"


def default_processes() -> int:
    """How many processes extract text of small pages: one a core. The crawl goes before them (``NICE``)."""
    return min(_PROCESSES_MOST, len(os.sched_getaffinity(0)))


class TextLimits(Struct, frozen=True):
    """``memory``: bytes that all processes together may take. Half of them are for the one that has large pages, and
    the others for the ``processes`` that have small ones; a small page that needs more is tried again as a large one.
    Each page may take ``seconds`` of CPU time and ``patience``, seconds of anything. ``extractor``: as
    ``module:function``."""

    processes: int = field(default_factory=default_processes)
    seconds: float = 10.0
    memory: int = 512 * 2**20
    patience: float = PATIENCE
    extractor: str = EXTRACTORS["turbohtml"]


class Texts(Protocol):
    """Extracts the main text of pages."""

    failed: int  # pages without text because it could not be extracted

    async def extract(self, host: str, body: Bytes, charset: str | None, url: str, forms: Forms) -> Extracted | NoText:
        """Return what is taken out of a page of a host, which has that URL."""

    def close(self) -> None:
        """End what runs beside, and cancel what waits for a page."""


class TextPool:
    """Extracts the main text of the pages of a worker. Its processes are started by the first pages that need them."""

    def __init__(self, limits: TextLimits) -> None:
        self.failed = 0
        self._limits = limits
        forker = Forker(PROGRAM, limits.extractor, nice=NICE)
        half = (limits.memory - SHARED_MEMORY) // 2
        processes = max(1, min(limits.processes, half // SMALL_MEMORY))
        self._small = Lane(forker, processes, half // processes, patience=limits.patience)
        self._large = Lane(forker, 1, half, patience=limits.patience)
        self._told = set[str]()  # reasons that were logged

    async def extract(self, host: str, body: Bytes, charset: str | None, url: str, forms: Forms) -> Extracted | NoText:
        """See ``Texts``."""
        asked, seconds = encode_asked(forms, url, charset), self._limits.seconds
        usual = _USUAL_SECONDS_PER_MEGABYTE * len(body) / 1_000_000
        small = len(body) <= LARGE_BYTES
        lane = self._small if small else self._large
        found = await lane.ask(Request(host, asked, body, seconds, usual), decode_text)
        if small and isinstance(found, Failed) and found.why is Why.NEEDS_MEMORY:
            found = await self._large.ask(Request(host, asked, body, seconds, usual), decode_text)
        if isinstance(found, Extracted):
            return found
        reason = _reason(found)
        self._count(found, reason)
        return NoText(reason)

    def close(self) -> None:
        """See ``Texts``. The next page starts processes again."""
        self._small.close()
        self._large.close()

    def _count(self, failed: Failed, reason: str) -> None:
        self.failed += 1
        kind = failed.place or reason
        if kind not in self._told:
            self._told.add(kind)
            details = "" if failed.traceback is None else f":\n{printable(failed.traceback).rstrip()}"
            log.warning("the text of a page could not be extracted (%s); its row says so%s", reason, details)


def _reason(failed: Failed) -> str:
    if failed.why is Why.RAISED:
        return f"the extractor raised {printable(failed.reason)[:_SHOWN]}"
    if failed.why is Why.NOT_STARTED:
        return f"{failed.reason}: `crawler text` extracts it when there is room"
    return failed.text("it takes more than")

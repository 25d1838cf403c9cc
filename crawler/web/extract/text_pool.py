"""The processes that extract the main text of pages.

If the extractor raises an exception, exceeds its limit of time or memory, or ends its process, the page's row has an
error instead of text.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from crawler.base.printable import printable
from crawler.base.processes import cores
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
LARGE_BYTES = 512 * 1024  # bytes of a page that is processed as a large one
SHARED_MEMORY = 48 * 2**20  # bytes of memory shared by all processes: that of the parent and of the libraries
SMALL_MEMORY = 48 * 2**20  # minimum memory of a process for small pages; at least 17 MiB of it are the parent's
NICE = 5  # lower priority than the crawler, so that extraction does not delay requests
_USUAL_SECONDS_PER_MEGABYTE = 0.1  # the usual cost of a page
_PROCESSES_MOST = 4
_SHOWN = 200  # characters shown of an exception's message, which is untrusted


def missing_library(libraries: Sequence[str] = LIBRARIES) -> str | None:
    """Return one line on how to install missing libraries, or None if all are installed."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return f"text.extractor trafilatura needs {' and '.join(missing)}: pip install {' '.join(missing)}"


def default_processes() -> int:
    """Return the number of processes for small pages: one per core. The crawl has priority over them (``NICE``)."""
    return min(_PROCESSES_MOST, cores())


class TextLimits(Struct, frozen=True):
    """Limits of text extraction. ``memory`` is the total number of bytes of all processes. Half of it is for the
    process for large pages, the rest for the ``processes`` for small ones; a small page that needs more is retried as a
    large one. Each page may take ``seconds`` of CPU time and ``patience`` seconds of elapsed time. ``extractor`` has
    the form ``module:function``."""

    processes: int = field(default_factory=default_processes)
    seconds: float = 10.0
    memory: int = 512 * 2**20
    patience: float = PATIENCE
    extractor: str = EXTRACTORS["turbohtml"]


class Texts(Protocol):
    """Extracts the main text of pages."""

    failed: int  # pages whose text could not be extracted

    async def extract(self, host: str, body: Bytes, charset: str | None, url: str, forms: Forms) -> Extracted | NoText:
        """Return the data extracted from the page with this URL, which belongs to this host."""

    def close(self) -> None:
        """Stop the processes, and cancel pending requests."""


class TextPool:
    """Extracts the main text of a worker's pages. Its processes are started when pages first need them."""

    def __init__(self, limits: TextLimits) -> None:
        self.failed = 0
        self._limits = limits
        forker = Forker(PROGRAM, limits.extractor, nice=NICE)
        half = (limits.memory - SHARED_MEMORY) // 2
        processes = max(1, min(limits.processes, half // SMALL_MEMORY))
        self._small = Lane(forker, processes, half // processes, patience=limits.patience)
        self._large = Lane(forker, 1, half, patience=limits.patience)
        self._told = set[str]()  # reasons already logged

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
            log.warning("the text of a page could not be extracted (%s); its row has the error%s", reason, details)


def _reason(failed: Failed) -> str:
    if failed.why is Why.RAISED:
        return f"the extractor raised {printable(failed.reason)[:_SHOWN]}"
    if failed.why is Why.NOT_STARTED:
        return f"{failed.reason}: run `crawler text` to extract it when there is enough memory"
    return failed.text("it takes more than")

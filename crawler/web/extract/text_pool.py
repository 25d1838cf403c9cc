"""The processes that extract the main text of pages: as many as cores allow, each with one page at a time.

The host that has cost least is next, so that dear pages of one host keep no other waiting. A page on which the
extractor raises, takes too much time or memory, or ends its process has no text, and says why; the next page gets
another process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from mmap import mmap
from typing import Protocol

from msgspec import Struct

from crawler.base.printable import printable
from crawler.web.extract.page_text import Extracted, Forms, NoText, decode_text, text_request
from crawler.web.parsing.fair_line import FairLine
from crawler.web.parsing.process import KILLED, ParserProcess, Starts
from crawler.web.parsing.wire import Told, WireError

log = logging.getLogger("crawler")

EXTRACTORS = {
    "turbohtml": "crawler.web.extract.main_text:extract",
    "trafilatura": "crawler.web.extract.by_trafilatura:extract",
}
LIBRARIES = ("trafilatura", "lxml_html_clean")
PROGRAM = "crawler.web.extract.text_child"
Bytes = bytes | mmap  # a page, in memory or in a file
KILLS_MOST = 1  # times that a page is tried again because somebody killed the process, or it gave no answer
_USUAL_SECONDS_PER_MEGABYTE = 2.0  # what a page costs as a rule
_PROCESSES_MOST = 8  # by default: each may take half a gigabyte
_SHOWN = 200  # characters of the text of an exception, which may be foreign


def missing_library(libraries: Sequence[str] = LIBRARIES) -> str | None:
    """One line that says how to install what extracts text; None if all of it is installed."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return f"text.extractor trafilatura needs {' and '.join(missing)}: pip install {' '.join(missing)}"


def default_processes() -> int:
    """How many processes extract text if no setting says so: one a core. The crawl goes before them (``nice``)."""
    return min(_PROCESSES_MOST, len(os.sched_getaffinity(0)))


class TextLimits(Struct, frozen=True):
    """How many ``processes`` there are, what each page may take: ``seconds`` of CPU time, bytes of ``memory`` of the
    whole process, and ``patience``, seconds of anything; and the ``extractor``, as ``module:function``."""

    processes: int = 1
    seconds: float = 10.0
    memory: int = 512 * 2**20
    patience: float = 60.0
    extractor: str = EXTRACTORS["turbohtml"]


class Texts(Protocol):
    """Extracts the main text of pages."""

    failed: int  # pages without text because it could not be extracted

    async def extract(self, host: str, body: Bytes, charset: str | None, url: str, forms: Forms) -> Extracted | NoText:
        """Return what is taken out of a page of a host, which has that URL."""

    def close(self) -> None:
        """End what runs beside, and cancel what waits for a page."""


class _Page(Struct, eq=False):
    """A page in line."""

    host: str
    body: Bytes
    charset: str | None
    url: str
    forms: Forms
    found: asyncio.Future[Extracted | NoText]
    kills: int = 0

    def tell(self, found: Extracted | NoText) -> None:
        if not self.found.done():
            self.found.set_result(found)


class TextPool:
    """Extracts the main text of the pages of a worker. Its processes are started by the first pages that need them."""

    def __init__(self, limits: TextLimits, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock()`` returns seconds."""
        self.failed = 0
        self._limits = limits
        self._clock = clock
        self._line = FairLine[_Page](max(3, limits.processes))
        self._again = deque[_Page]()  # were in a process that was killed
        self._workers = [_Worker(limits, self._done, self._died) for _ in range(limits.processes)]
        self._starts = Starts()
        self._told = set[str]()  # reasons that were logged

    async def extract(self, host: str, body: Bytes, charset: str | None, url: str, forms: Forms) -> Extracted | NoText:
        """See ``Texts``."""
        page = _Page(host, body, charset, url, forms, asyncio.get_running_loop().create_future())
        self._line.put(host, page, _usual(page))
        self._hand_out()
        found = await page.found
        if isinstance(found, NoText):
            self._count(found)
        return found

    def close(self) -> None:
        """See ``Texts``. The next page starts processes again."""
        for worker in self._workers:
            if worker.page is not None:
                worker.page.found.cancel()
            worker.kill()
        for page in (*self._again, *self._line):
            page.found.cancel()
        self._again.clear()
        self._line.clear()

    # -- the line ----------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Give pages to the processes that have none."""
        while self._again or self._line:
            worker = next((each for each in self._workers if each.state is _State.IDLE), None) or self._start()
            page = None if worker is None else self._next()
            if worker is None or page is None:
                return
            if page.found.done():  # cancelled
                self._line.charge(page.host, 0.0)
            else:
                worker.send(page, self._clock())

    def _next(self) -> _Page | None:
        if self._again:
            return self._again.popleft()
        return None if self._line.first() is None else self._line.take()

    def _start(self) -> _Worker | None:
        """Start a process, one at a time. If that has been in vain for long, the pages that wait have no text."""
        stopped = [worker for worker in self._workers if worker.state is _State.STOPPED]
        if not stopped or any(worker.state is _State.STARTING for worker in self._workers):
            return None
        while self._starts.may_begin(self._clock()):
            self._starts.begin(self._clock())
            try:
                stopped[0].start()
            except OSError as error:
                self._starts.why = str(error)
            else:
                return stopped[0]
        if len(stopped) == len(self._workers):
            while (page := self._next()) is not None:
                self._line.charge(page.host, 0.0)
                page.tell(NoText(f"the process that extracts text does not start ({self._starts.reason})"))
        return None

    # -- what the processes do ---------------------------------------------------------------------------------

    def _done(self, worker: _Worker, page: _Page | None, found: Extracted | NoText) -> None:
        """A process has answered; ``page`` is None: that it is ready."""
        self._starts = Starts()
        if page is not None:
            self._end(worker, page, found)
        self._hand_out()

    def _died(self, worker: _Worker, page: _Page | None, code: int, *, ready: bool) -> None:
        """A process has ended: by its own will, by a limit, or by a fault. ``ready``: it had started."""
        if page is not None and not ready:
            self._again.append(page)  # it was no fault of the page
        elif page is not None and code in (0, KILLED) and page.kills < KILLS_MOST:
            page.kills += 1
            self._again.append(page)
        elif page is not None:
            self._end(worker, page, NoText(_why(code, self._limits)))
        self._hand_out()

    def _end(self, worker: _Worker, page: _Page, found: Extracted | NoText) -> None:
        self._line.charge(page.host, max(0.0, self._clock() - worker.begun - _usual(page)))
        page.tell(found)

    def _count(self, found: NoText) -> None:
        self.failed += 1
        kind = found.reason if found.traceback is None else _place(found.traceback)
        if kind not in self._told:
            self._told.add(kind)
            details = "" if found.traceback is None else f":\n{printable(found.traceback).rstrip()}"
            log.warning("the text of a page could not be extracted (%s); its row says so%s", found.reason, details)


class _State(Enum):
    """What a process does."""

    STOPPED = auto()
    STARTING = auto()  # it has a page already
    IDLE = auto()
    BUSY = auto()
    ENDING = auto()


class _Died(Protocol):
    def __call__(self, worker: _Worker, page: _Page | None, code: int, *, ready: bool) -> None: ...


class _Worker:
    """One process, and the page that it has."""

    def __init__(
        self,
        limits: TextLimits,
        done: Callable[[_Worker, _Page | None, Extracted | NoText], None],
        died: _Died,
    ) -> None:
        """``done`` is called with each answer, ``died`` when the process has ended: with the page that it had."""
        self.state = _State.STOPPED
        self.page: _Page | None = None
        self.begun = 0.0  # when it got the page
        self._limits = limits
        self._tell_done = done
        self._tell_died = died
        self._process = ParserProcess(limits.memory, self._take, self._ended, (PROGRAM, limits.extractor))
        self._watch: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the process. Raises OSError."""
        self._process.start()
        self.state = _State.STARTING

    def send(self, page: _Page, now: float) -> None:
        """Give it a page. One that starts reads it when it has."""
        if self.state is _State.IDLE:
            self.state = _State.BUSY
        self.page, self.begun = page, now
        self._watch = asyncio.get_running_loop().call_later(self._limits.patience, self._lose_patience)
        head = text_request(page.forms, self._limits.seconds, page.url, page.charset, len(page.body))
        self._process.send(head, page.body)

    def kill(self) -> None:
        """End the process now; nobody is told."""
        self._take_page()
        self._process.kill()
        self.state = _State.STOPPED

    def _take_page(self) -> _Page | None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        page, self.page = self.page, None
        return page

    def _take(self, told: Told, ends: bool, payload: bytes) -> None:
        if told is Told.READY:
            self.state = _State.IDLE if self.page is None else _State.BUSY
            self._tell_done(self, None, NoText(""))
            return
        page = self._take_page()
        if page is None:
            raise WireError("an answer to nothing")
        self.state = _State.ENDING if ends else _State.IDLE
        self._tell_done(self, page, _decoded(told, payload, self._limits))

    def _ended(self, code: int) -> None:
        ready = self.state is not _State.STARTING
        self.state = _State.STOPPED
        self._tell_died(self, self._take_page(), code, ready=ready)

    def _lose_patience(self) -> None:
        self._watch = None
        self._process.kill()
        self._ended(KILLED)


def _usual(page: _Page) -> float:
    return _USUAL_SECONDS_PER_MEGABYTE * len(page.body) / 1_000_000


def _decoded(told: Told, payload: bytes, limits: TextLimits) -> Extracted | NoText:
    if told is Told.MEMORY:
        return NoText(_no_memory(limits))
    if told is Told.RAISED:
        reason, _, traceback = payload.decode("utf-8", "replace").partition("\n")
        return NoText(f"the extractor raised {printable(reason)[:_SHOWN]}", traceback)
    try:
        if told is not Told.TEXT:
            raise WireError("an answer to another question")
        return decode_text(payload)
    except WireError as error:
        return NoText(str(error))


def _why(code: int, limits: TextLimits) -> str:
    """Why a page has no text whose process ended so."""
    if code == -signal.SIGPROF:
        return f"it takes more than {limits.seconds:g} s of CPU time"
    if code in (0, KILLED):
        return f"its process was killed, or gave no answer for {limits.patience:g} s"
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{_no_memory(limits)}, or met a fault ({how})"


def _no_memory(limits: TextLimits) -> str:
    return f"it takes more than {limits.memory // 2**20} MiB of memory"


def _place(traceback: str) -> str:
    return next((line for line in reversed(traceback.splitlines()) if line.startswith("  File ")), traceback)

"""Calls in processes, each with one page at a time. A call that is given up is ended with its process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from crawler.engine.hooks.answers import Answered, CallFailed
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_child import decode_answer, page_request
from crawler.engine.hooks.page_view import PageFacts
from crawler.web.parsing.process import ParserProcess
from crawler.web.parsing.wire import Told

PROGRAM = "crawler.engine.hooks.page_child"


class PageProcesses:
    """Calls a function with pages, in processes. See ``PageCalls``."""

    def __init__(self, code: NamedCode) -> None:
        """``code`` was loaded by its name, by which the processes load it too."""
        self._code = code
        self._idle: list[ProcessCalls] = []
        self._all: list[ProcessCalls] = []

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> ProcessCall:
        if self._idle:
            process = self._idle.pop()
        else:
            process = ProcessCalls(self._code.name, self._idle.append)
            self._all.append(process)
        return process.begin(page)

    def close(self) -> None:
        for process in self._all:
            process.kill()
        self._all.clear()
        self._idle.clear()


class ProcessCalls:
    """One process, started when it is needed."""

    def __init__(self, name: str, free: Callable[[ProcessCalls], object]) -> None:
        """``free`` is called with this whenever it may get the next page."""
        self._free = free
        self._process = ParserProcess(0, self._take, self._ended, (PROGRAM, name), silent=False)
        self._call: ProcessCall | None = None
        self._number = 0  # of the last call: what answers another one is not taken

    def begin(self, page: PageFacts) -> ProcessCall:
        """Begin a call. Raises CallFailed."""
        starts = not self._process.running
        if starts:
            try:
                self._process.start()
            except OSError as error:
                self._free(self)
                raise CallFailed(f"no process can be started: {error}") from error
        self._call = call = ProcessCall(self, starts=starts)
        self._number += 1
        self._process.send(page_request(self._number, page))
        return call

    def kill(self) -> None:
        """End the process now. The next call starts another."""
        self._process.kill()
        self._tell(CallFailed("its process was ended"))

    def _take(self, told: Told, ends: bool, payload: bytes) -> None:
        if told is not Told.READY:
            found = decode_answer(told, payload, self._number)
            if found is not None:
                self._tell(found)
        elif self._call is not None and self._call.begun is not None and not self._call.begun.done():
            self._call.begun.set_result(None)

    def _ended(self, code: int) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._tell(CallFailed(f"its process ended ({how})"))

    def _tell(self, found: Answered | CallFailed) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        if not call.answer.done():
            if isinstance(found, CallFailed):
                call.answer.set_exception(found)
            else:
                call.answer.set_result(found)
        self._free(self)


class ProcessCall:
    """A call under way. See ``Call``."""

    def __init__(self, process: ProcessCalls, *, starts: bool) -> None:
        """``starts``: the process does not run yet. It imports the code first, which may take long."""
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Answered] = loop.create_future()
        self.begun: asyncio.Future[None] | None = loop.create_future() if starts else None
        self._process = process

    def place(self) -> str | None:
        """See ``Call``: it is in another process."""
        return None

    def abandon(self) -> None:
        """See ``Call``."""
        self.answer.cancel()
        self._process.kill()

"""Calls functions in processes, each of which handles one page at a time. Giving up a call ends its process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from crawler.base.processes.forker import Forker
from crawler.base.processes.lane import Failed, Lane, Request, Why
from crawler.engine.hooks.answers import Answered, CallFailed
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_child import decode_answer, encode_page
from crawler.engine.hooks.page_view import PageFacts

PROGRAM = "crawler.engine.hooks.page_child:program"
NICE = 5  # lower priority than the crawler, so that user code delays no requests


class PageProcesses:
    """Calls a function with pages, in processes. See ``PageCalls``."""

    def __init__(self, code: NamedCode, processes: int) -> None:
        """``code`` was loaded by name; the processes load it by the same name."""
        forker = Forker(PROGRAM, code.name, nice=NICE, silent=False)
        self._lane = Lane(forker, processes, patience=inf, kills_most=0)

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> ProcessCall:
        """See ``PageCalls``."""
        return ProcessCall(self._lane, page)

    def close(self) -> None:
        """See ``PageCalls``."""
        self._lane.close()


class ProcessCall:
    """A running call. See ``Call``."""

    def __init__(self, lane: Lane, page: PageFacts) -> None:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        self._lane = lane
        self._request = Request("", b"", encode_page(page), begun=begun)
        lane.put(self._request)
        # A process that is still starting must first import the code, which may take a long time.
        self.begun = None if begun.done() else begun
        self.answer: asyncio.Future[Answered] = loop.create_task(self._answered())

    def place(self) -> str | None:
        """See ``Call``. The location is unknown, because the code runs in another process."""
        return None

    def abandon(self) -> None:
        """See ``Call``."""
        self.answer.cancel()
        self._lane.abandon(self._request)

    async def _answered(self) -> Answered:
        found = await self._lane.answer(self._request, decode_answer)
        if isinstance(found, Failed):
            died = found.why is Why.NEEDS_MEMORY
            raise CallFailed(f"its process ended ({found.reason})" if died else found.reason)
        if isinstance(found, CallFailed):
            raise found
        return found

"""Calls in threads. A thread cannot be ended: if its call is given up, it is left running, and others take its place.

The threads do not keep the program from exiting, as those of ``concurrent.futures`` would.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from crawler.engine.hooks.answers import Answered, CallFailed, NoMoreCallsError, call_with, failed
from crawler.engine.hooks.calls import LOST_MOST, Report, line_of_user
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_view import Page, PageFacts

T = TypeVar("T")


class Threads:
    """A pool with a thread for each concurrent call. Used by only one event loop."""

    def __init__(self, code: NamedCode) -> None:
        """``code``: the called function, for messages."""
        self.code = code
        self.lost = 0  # abandoned calls that are still running
        self._idle: list[_Thread] = []

    def begin(self, work: Callable[[], T]) -> ThreadCall[T]:
        """Run the work in a thread. Its exceptions are failures of the call. Raises CallFailed."""
        if self.lost >= LOST_MOST:
            raise NoMoreCallsError(f"{self.lost} calls of {self.code.name} do not return; no new ones are started")
        thread = self._idle.pop() if self._idle else _Thread(self.code.name)
        call = ThreadCall(self, thread, work)
        thread.calls.put(call)
        return call

    def ended(self, call: ThreadCall[Any]) -> None:
        """Free the thread of a call that has ended."""
        self.lost -= call.is_lost
        self._idle.append(call.thread)

    def close(self) -> None:
        """End the idle threads. The others block nothing."""
        while self._idle:
            self._idle.pop().calls.put(None)


class ThreadCall(Generic[T]):
    """A call in a thread. See ``Call``."""

    def __init__(self, threads: Threads, thread: _Thread, work: Callable[[], T]) -> None:
        self.thread = thread
        self.is_lost = False
        self._threads = threads
        self._work = work
        self._told = Report[T]()
        self.answer = self._told.answer
        self.begun: asyncio.Future[None] | None = None

    def run(self) -> None:
        """Run the work, in the call's thread."""
        answer: T | None = None
        fault: CallFailed | None = None
        try:
            answer = self._work()
        except BaseException as error:  # even one that would end the thread # noqa: BLE001
            fault = failed(self._threads.code, error)
        self._told.tell(answer, fault, lambda: self._threads.ended(self))

    def place(self) -> str | None:
        """See ``Call``."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        return line_of_user(frame, self._threads.code.is_of_user)

    def abandon(self) -> None:
        """See ``Call``."""
        self.answer.cancel()
        self.is_lost = True
        self._threads.lost += 1


class _Thread(threading.Thread):
    """Runs calls one after the other."""

    def __init__(self, name: str) -> None:
        """Raises CallFailed."""
        super().__init__(name=name, daemon=True)
        self.calls: queue.SimpleQueue[ThreadCall[Any] | None] = queue.SimpleQueue()
        try:
            self.start()
        except RuntimeError as error:  # the system has no more threads
            raise CallFailed(f"no thread for {name}: {error}") from error

    def run(self) -> None:
        own = os.getpid()
        while (call := self.calls.get()) is not None:
            call.run()
            if os.getpid() != own:  # a forked copy of this process, made by the function, has returned too
                os._exit(0)


class PageThreads:
    """Calls a function with pages, in threads. See ``PageCalls``."""

    def __init__(self, code: NamedCode) -> None:
        self._threads = Threads(code)

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> ThreadCall[Answered]:
        code = self._threads.code
        return self._threads.begin(lambda: call_with(code, Page(page, follows)))

    def close(self) -> None:
        self._threads.close()

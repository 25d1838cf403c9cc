"""Calls of an async function, in an event loop of its own: one that does not give way stops no request of the crawl.

A call that is given up is cancelled. If the loop does not answer, because one of its calls does not give way, later
calls get another loop.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from crawler.engine.hooks.answers import Answered, CallFailed, NoMoreCallsError, await_with, failed
from crawler.engine.hooks.calls import LOST_MOST, Report, line_of_user
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_view import Page, PageFacts

T = TypeVar("T")
DEAF_AFTER = 1.0  # seconds without an answer after which a loop counts as one that does not turn


class Loops:
    """An event loop at a time. Everything here is used by the event loop of the crawl alone."""

    def __init__(self, code: NamedCode, deaf_after: float = DEAF_AFTER) -> None:
        """``code``: the function that is called, for messages."""
        self.code = code
        self.lost = 0  # calls that were given up and go on
        self._deaf_after = deaf_after
        self._thread: _LoopThread | None = None

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> LoopCall[T]:
        """Have the coroutine of ``work`` run. What it raises is a failure of the call. Raises CallFailed."""
        if self._thread is not None and self._thread.is_deaf(self._deaf_after):
            self._thread = None
        if self.lost >= LOST_MOST:
            raise NoMoreCallsError(f"{self.lost} calls of {self.code.name} do not return: no more are begun")
        if self._thread is None:
            self._thread = _LoopThread(self.code.name)
        return LoopCall(self, self._thread, work)

    def close(self) -> None:
        """Cancel what the loop does, and end it. What does not end keeps nobody waiting."""
        if self._thread is not None:
            self._thread.end()
            self._thread = None


class LoopCall(Generic[T]):
    """A call under way. See ``Call``."""

    def __init__(self, loops: Loops, thread: _LoopThread, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._loops = loops
        self._is_lost = False
        self._thread = thread
        self._work = work
        self._told = Report[T]()
        self._task: asyncio.Task[T] | None = None
        self.answer = self._told.answer
        self.begun: asyncio.Future[None] | None = None
        thread.loop.call_soon_threadsafe(self._begin)

    def place(self) -> str | None:
        """See ``Call``."""
        running = line_of_user(sys._current_frames().get(self._thread.ident or 0), self._loops.code.is_of_user)
        if running is not None or self._task is None:
            return running
        found, waits = None, self._task.get_coro()
        while (frame := getattr(waits, "cr_frame", None)) is not None:
            found = line_of_user(frame, self._loops.code.is_of_user) or found
            waits = waits.cr_await  # type: ignore[union-attr]
        return found

    def abandon(self) -> None:
        """See ``Call``."""
        self.answer.cancel()
        self._is_lost = True
        self._loops.lost += 1
        self._thread.loop.call_soon_threadsafe(self._cancel)
        self._thread.ask()

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._work())
        self._task.add_done_callback(self._tell)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _tell(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._told.tell(None, CallFailed("it was cancelled before it began"), self._ended)
            return
        error = task.exception()
        if error is None:
            self._told.tell(task.result(), None, self._ended)
        else:
            self._told.tell(None, failed(self._loops.code, error), self._ended)

    def _ended(self) -> None:
        self._loops.lost -= self._is_lost


class _LoopThread(threading.Thread):
    """A thread with an event loop. Its methods are those of the loop of the crawl."""

    def __init__(self, name: str) -> None:
        """Raises CallFailed."""
        super().__init__(name=name, daemon=True)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._tell_of)
        self.loop.set_task_factory(self._made)
        self._tasks: set[asyncio.Task[Any]] = set()  # all that are not done: the loop itself would not keep them
        self._is_ended = False
        self._asked: float | None = None  # when, by the loop of the crawl; None: it has answered
        self._crawl = asyncio.get_running_loop()
        try:
            self.start()
        except RuntimeError as error:  # the system has no more
            self.loop.close()
            raise CallFailed(f"no thread for {name}: {error}") from error

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            # What does not end when it is cancelled is never freed. To free it, Python would throw an exception into
            # it, and would not come back from code that catches everything and goes on: not even when it exits.
            for task in self._tasks:
                if not task.done():
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
            self.loop.close()

    def ask(self) -> None:
        """Ask whether the loop turns."""
        if self._asked is None:
            self._asked = self._crawl.time()
            self.loop.call_soon_threadsafe(self._answer)

    def is_deaf(self, after: float) -> bool:
        """Whether the loop has not answered for so many seconds."""
        return self._asked is not None and self._crawl.time() - self._asked >= after

    def end(self) -> None:
        """Cancel what the loop does, and end it."""
        self._is_ended = True
        self.loop.call_soon_threadsafe(self._cancel_all)

    def _made(self, loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **how)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _tell_of(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._is_ended:  # of what does not end when it is cancelled
            loop.default_exception_handler(context)

    def _answer(self) -> None:
        self._asked = None

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.call_soon, self.loop.stop)  # cancelled tasks have a turn to clean up


class PageLoop:
    """Calls an async function with pages. See ``PageCalls``."""

    def __init__(self, code: NamedCode, deaf_after: float = DEAF_AFTER) -> None:
        self._loops = Loops(code, deaf_after)

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> LoopCall[Answered]:
        code = self._loops.code
        return self._loops.begin(lambda: await_with(code, Page(page, follows)))

    def close(self) -> None:
        self._loops.close()

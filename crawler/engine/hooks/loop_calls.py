"""Calls an async function in an event loop of its own: if the function blocks that loop, requests of the crawl
continue.

A call that is given up is cancelled. If the loop does not respond, because one of its calls blocks it, later calls get
another loop.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from crawler.engine.hooks.answers import CallFailed, failed
from crawler.engine.hooks.calls import OwnCall, Pool, line_of_user
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.thread_calls import Threads

T = TypeVar("T")

DEAF_AFTER = 1.0  # seconds without a response after which a loop counts as blocked


class Loops(Pool):
    """A pool with one event loop at a time."""

    def __init__(self, code: NamedCode, deaf_after: float = DEAF_AFTER) -> None:
        super().__init__(code)
        self._deaf_after = deaf_after
        self._thread: _LoopThread | None = None

    def begin(self, work: Callable[[], Any]) -> LoopCall[Any]:
        """See ``Pool``. ``work`` returns a coroutine."""
        if self._thread is not None and self._thread.is_deaf(self._deaf_after):
            self._thread = None
        self.check()
        if self._thread is None:
            self._thread = _LoopThread(self.code.name)
        return LoopCall(self, self._thread, work)

    def close(self) -> None:
        """See ``Pool``. Cancels the tasks of the loop."""
        if self._thread is not None:
            self._thread.end()
            self._thread = None


class LoopCall(OwnCall[T]):
    """A call in an event loop."""

    def __init__(self, loops: Loops, thread: _LoopThread, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        super().__init__(loops)
        self._code = loops.code
        self._thread = thread
        self._work = work
        self._task: asyncio.Task[T] | None = None
        thread.loop.call_soon_threadsafe(self._begin)

    def place(self) -> str | None:
        """See ``Call``."""
        running = line_of_user(sys._current_frames().get(self._thread.ident or 0), self._code.is_of_user)
        if running is not None or self._task is None:
            return running
        found, waits = None, self._task.get_coro()
        while (frame := getattr(waits, "cr_frame", None)) is not None:
            found = line_of_user(frame, self._code.is_of_user) or found
            waits = waits.cr_await  # type: ignore[union-attr]
        return found

    def abandon(self) -> None:
        """See ``Call``."""
        super().abandon()
        self._thread.loop.call_soon_threadsafe(self._cancel)
        self._thread.ask()

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._work())
        self._task.add_done_callback(self._done)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.tell(None, CallFailed("it was cancelled before it started"))
        elif (error := task.exception()) is None:
            self.tell(task.result(), None)
        else:
            self.tell(None, failed(self._code, error))


class _LoopThread(threading.Thread):
    """A thread with an event loop. Its methods are called from the loop of the crawl."""

    def __init__(self, name: str) -> None:
        """Raises CallFailed."""
        super().__init__(name=name, daemon=True)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._tell_of)
        self.loop.set_task_factory(self._made)
        self._tasks: set[asyncio.Task[Any]] = set()  # all unfinished tasks, because the loop holds only weak references
        self._is_ended = False
        self._asked: float | None = None  # when the loop was pinged, by the crawl's clock; None: it has responded
        self._crawl = asyncio.get_running_loop()
        try:
            self.start()
        except RuntimeError as error:  # the system has no more threads
            self.loop.close()
            raise CallFailed(f"no thread for {name}: {error}") from error

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            # Tasks that survive cancellation are never freed. To free one, Python would throw an exception into it, and
            # would hang in code that catches everything and continues, even at exit.
            for task in self._tasks:
                if not task.done():
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
            self.loop.close()

    def ask(self) -> None:
        """Ping the loop."""
        if self._asked is None:
            self._asked = self._crawl.time()
            self.loop.call_soon_threadsafe(self._answer)

    def is_deaf(self, after: float) -> bool:
        """Return whether the loop has failed to respond for ``after`` seconds."""
        return self._asked is not None and self._crawl.time() - self._asked >= after

    def end(self) -> None:
        """Cancel the tasks of the loop, and end it."""
        self._is_ended = True
        self.loop.call_soon_threadsafe(self._cancel_all)

    def _made(self, loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **how)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _tell_of(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._is_ended:  # later errors come from tasks that survive cancellation
            loop.default_exception_handler(context)

    def _answer(self) -> None:
        self._asked = None

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.call_soon, self.loop.stop)  # cancelled tasks get a turn to clean up


def pool_of(code: NamedCode) -> Pool:
    """Return a pool for the function: threads, or an event loop if it is async."""
    return Loops(code) if code.is_async else Threads(code)

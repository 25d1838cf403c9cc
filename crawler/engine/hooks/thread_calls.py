"""Calls functions in threads. A thread cannot be ended: if its call is given up, the thread keeps running, and another
takes its place.

Unlike the threads of ``concurrent.futures``, these threads do not keep the program from exiting.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from crawler.engine.hooks.answers import CallFailed, failed
from crawler.engine.hooks.calls import OwnCall, Pool, line_of_user
from crawler.engine.hooks.named_code import NamedCode

T = TypeVar("T")


class Threads(Pool):
    """A pool with a thread for each concurrent call."""

    def __init__(self, code: NamedCode) -> None:
        super().__init__(code)
        self.idle: list[_Thread] = []

    def begin(self, work: Callable[[], Any]) -> ThreadCall[Any]:
        """See ``Pool``."""
        self.check()
        thread = self.idle.pop() if self.idle else _Thread(self.code.name)
        call = ThreadCall(self, thread, work)
        thread.calls.put(call)
        return call

    def close(self) -> None:
        """See ``Pool``."""
        while self.idle:
            self.idle.pop().calls.put(None)


class ThreadCall(OwnCall[T]):
    """A call in a thread."""

    def __init__(self, threads: Threads, thread: _Thread, work: Callable[[], T]) -> None:
        super().__init__(threads)
        self._threads = threads
        self._thread = thread
        self._work = work

    def run(self) -> None:
        """Run the work, in the call's thread."""
        answer: T | None = None
        fault: CallFailed | None = None
        try:
            answer = self._work()
        except BaseException as error:  # even an exception that would end the thread # noqa: BLE001
            fault = failed(self._threads.code, error)
        self.tell(answer, fault)

    def place(self) -> str | None:
        """See ``Call``."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return line_of_user(frame, self._threads.code.is_of_user)

    def _ended(self, answer: T | None, error: Exception | None) -> None:
        self._threads.idle.append(self._thread)
        super()._ended(answer, error)


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
            if os.getpid() != own:  # the function forked this process, and the copy has returned too
                os._exit(0)

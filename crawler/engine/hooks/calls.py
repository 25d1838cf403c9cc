"""Calls of user functions, which may take any time, and may never return."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import FrameType
from typing import Generic, Protocol, TypeVar, cast

from crawler.engine.hooks.page_view import PageFacts

T = TypeVar("T")
LOST_MOST = 64  # given-up calls that may still run; at this number no new ones are started


class Call(Protocol[T]):
    """A running call."""

    @property
    def answer(self) -> asyncio.Future[T]:
        """The result of the call. Raises CallFailed."""

    @property
    def begun(self) -> asyncio.Future[None] | None:
        """Done when the code starts: earlier time does not count. None: it has started."""

    def place(self) -> str | None:
        """Return the current ``file:line`` in user code, if known."""

    def abandon(self) -> None:
        """Give up the call: end it, if possible."""


class PageCalls(Protocol[T]):
    """Calls a function with pages. Used only by the event loop of the crawl."""

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> Call[T]:
        """Start a call now. Raises CallFailed."""

    def close(self) -> None:
        """Start no more calls. Calls that do not return block nothing."""


class Report(Generic[T]):
    """A future of the running event loop that another thread sets once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self._loop.create_future()

    def tell(self, answer: T | None, error: Exception | None, then: Callable[[], object] = bool) -> None:
        """Set it from any thread, then run ``then`` on the event loop. A closed loop ignores it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._set, answer, error, then)

    def _set(self, answer: T | None, error: Exception | None, then: Callable[[], object]) -> None:
        if not self.answer.done():
            if error is None:
                self.answer.set_result(cast("T", answer))
            else:
                self.answer.set_exception(error)
        then()


def line_of_user(frame: FrameType | None, is_of_user: Callable[[str], bool]) -> str | None:
    """Return ``file:line`` of the innermost line of user code on a stack."""
    while frame is not None:
        if is_of_user(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None

"""Calls of functions of the user, which may take any time, and need not return."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import FrameType
from typing import Generic, Protocol, TypeVar, cast

from crawler.engine.hooks.page_view import PageFacts

T = TypeVar("T")
LOST_MOST = 64  # calls that were given up and go on, before no more are begun


class Call(Protocol[T]):
    """A call under way."""

    @property
    def answer(self) -> asyncio.Future[T]:
        """What it will return. Raises CallFailed."""

    @property
    def begun(self) -> asyncio.Future[None] | None:
        """Done when the code runs: until then its time does not count. None: it runs."""

    def place(self) -> str | None:
        """``file:line`` of the user where it is now, if that can be told."""

    def abandon(self) -> None:
        """Nobody waits for it any more: end it, if that is possible."""


class PageCalls(Protocol[T]):
    """Calls a function with pages. Everything here is used by the event loop of the crawl alone."""

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> Call[T]:
        """Begin a call now. Raises CallFailed."""

    def close(self) -> None:
        """No more calls. What does not return keeps nobody waiting."""


class Report(Generic[T]):
    """A future of the running event loop that another thread may set. It does so once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self._loop.create_future()

    def tell(self, answer: T | None, error: Exception | None, then: Callable[[], object] = bool) -> None:
        """Set it, by any thread, and then do something on the event loop. A loop that is closed needs it no more."""
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
    """``file:line`` of the innermost line of the user on a stack."""
    while frame is not None:
        if is_of_user(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None

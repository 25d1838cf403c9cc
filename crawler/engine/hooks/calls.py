"""Calls of user functions, which may take any amount of time and may never return."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar, cast

from crawler.engine.hooks.answers import NoMoreCallsError
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_view import PageFacts

T = TypeVar("T")

LOST_MOST = 64  # maximum number of given-up calls that still run; at this number, no new calls are started


class Call(Protocol[T]):
    """A running call."""

    @property
    def answer(self) -> asyncio.Future[T]:
        """The result of the call. Raises CallFailed."""

    @property
    def begun(self) -> asyncio.Future[None] | None:
        """A future that is done when the code starts: time before that does not count towards the call's time limit.
        None: the code has already started."""

    def place(self) -> str | None:
        """Return the current ``file:line`` in user code, if known."""

    def abandon(self) -> None:
        """Give up the call, and end it if possible."""


class PageCalls(Protocol[T]):
    """Calls a function with pages. Used only by the event loop of the crawl."""

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> Call[T]:
        """Start a call now. Raises CallFailed."""

    def close(self) -> None:
        """Start no more calls, and do not wait for calls that have not returned."""


class Pool(ABC):
    """The calls of one function in this process. Used only by the event loop of the crawl."""

    def __init__(self, code: NamedCode) -> None:
        self.code = code
        self.lost = 0  # given-up calls that are still running

    @abstractmethod
    def begin(self, work: Callable[[], Any]) -> Call[Any]:
        """Start the work. If the work raises an exception, the call has failed. Raises CallFailed if the call cannot
        start."""

    @abstractmethod
    def close(self) -> None:
        """End idle threads and loops, and do not wait for calls that have not returned."""

    def check(self) -> None:
        """Raise CallFailed if no more calls can be started."""
        if self.lost >= LOST_MOST:
            raise NoMoreCallsError(f"{self.lost} calls of {self.code.name} do not return; no new ones are started")


class OwnCall(Generic[T]):
    """A call of a pool, see ``Call``. Another thread carries it out, and reports its outcome once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._crawl = asyncio.get_running_loop()
        self._is_lost = False
        self.answer: asyncio.Future[T] = self._crawl.create_future()
        self.begun: asyncio.Future[None] | None = None

    def abandon(self) -> None:
        """See ``Call``."""
        self.answer.cancel()
        self._is_lost = True
        self._pool.lost += 1

    def tell(self, answer: T | None, error: Exception | None) -> None:
        """Report the outcome; any thread may call this. If the loop of the crawl is closed, the outcome is dropped."""
        with contextlib.suppress(RuntimeError):
            self._crawl.call_soon_threadsafe(self._ended, answer, error)

    def _ended(self, answer: T | None, error: Exception | None) -> None:
        self._pool.lost -= self._is_lost
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(cast("T", answer))
        else:
            self.answer.set_exception(error)


def line_of_user(frame: FrameType | None, is_of_user: Callable[[str], bool]) -> str | None:
    """Return ``file:line`` of the innermost line of user code on a stack."""
    while frame is not None:
        if is_of_user(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None

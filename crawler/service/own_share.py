"""Answers to expensive requests: one at a time or once for all, so that the crawl keeps its time, however many
connections send them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from crawler.service.view import Unavailable

T = TypeVar("T")

SHARE = 0.1  # share of the time spent on answers
MOST = 16  # requests at a time; each waits for all before it
LONGEST_REST = 2.0  # seconds, so that one slow answer does not delay the next one for long


class OwnShare:
    """Answers one request at a time and rests after each, so that answers take ``SHARE`` of the time. The first
    request after a rest is answered immediately."""

    def __init__(self, what: str) -> None:
        self._what = what  # the requested things, in the plural
        self._asked = 0
        self._turn = asyncio.Lock()
        self._next = 0.0  # end of the rest

    async def answer(self, find: Callable[[], Awaitable[T]]) -> T:
        """Call ``find`` in turn and return its result. Raises Unavailable if too many wait, and the exceptions of
        ``find``."""
        if self._asked >= MOST:
            raise Unavailable(f"{MOST} {self._what} are being looked up: try again later.")
        loop = asyncio.get_running_loop()
        self._asked += 1
        try:
            async with self._turn:
                await asyncio.sleep(max(0.0, self._next - loop.time()))
                began = loop.time()
                try:
                    return await find()
                finally:
                    took = loop.time() - began
                    self._next = loop.time() + min(LONGEST_REST, took * (1.0 / SHARE - 1.0))
        finally:
            self._asked -= 1


class Reused(Generic[T]):
    """An answer that is made once for concurrent requests, and reused for ``fresh`` seconds, or for ``times`` the
    duration of making it if that is longer."""

    def __init__(self, make: Callable[[], Awaitable[T]], fresh: float, times: float) -> None:
        self._make = make
        self._fresh = fresh
        self._times = times
        self._made: tuple[float, T] | None = None  # expiry, and the answer
        self._making = asyncio.Lock()

    async def get(self) -> T:
        """Return the answer. Raises the exceptions of making it."""
        now = asyncio.get_running_loop().time
        async with self._making:
            began = now()
            if self._made is None or self._made[0] <= began:
                made = await self._make()
                self._made = now() + max(self._fresh, self._times * (now() - began)), made
            return self._made[1]

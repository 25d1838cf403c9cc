"""A share of the time for questions that cost more than a look: whoever asks them without pause, with however many
connections, leaves the rest to the crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from crawler.service.view import Unavailable

T = TypeVar("T")

SHARE = 0.1  # of the time, spent on answers
MOST = 16  # questions at a time; each of the others would wait for all before it
LONGEST_REST = 2.0  # seconds, so that one slow answer does not keep the next one waiting for long


class OwnShare:
    """Answers one question at a time, and rests after each, so that answers take ``SHARE`` of the time. The first
    question after a while is answered at once."""

    def __init__(self, what: str) -> None:
        self._what = what  # is asked for, in the plural
        self._asked = 0
        self._turn = asyncio.Lock()
        self._next = 0.0  # when the rest is over

    async def answer(self, find: Callable[[], Awaitable[T]]) -> T:
        """What ``find`` returns, in its turn. Raises Unavailable if too many wait, and what ``find`` raises."""
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

"""Answers to expensive requests. Each answer is made once, however many connections ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Reused(Generic[T]):
    """An answer that is made once for concurrent requests, and reused for ``fresh`` seconds, or for ``times`` as long
    as it took to make, if that is longer."""

    def __init__(self, make: Callable[[], Awaitable[T]], fresh: float, times: float) -> None:
        self._make = make
        self._fresh = fresh
        self._times = times
        self._made: tuple[float, T] | None = None  # expiry, and the answer
        self._making = asyncio.Lock()

    async def get(self) -> T:
        """Return the answer. Raises the exceptions of ``make``."""
        now = asyncio.get_running_loop().time
        async with self._making:
            began = now()
            if self._made is None or self._made[0] <= began:
                made = await self._make()
                self._made = now() + max(self._fresh, self._times * (now() - began)), made
            return self._made[1]

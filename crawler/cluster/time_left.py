"""The time of a whole crawl that has a limit. All its processes stop when that is over, also those that came later.

Each that knows when the time is over tells the others how much is left, again and again, and believes whoever knows of
less. No clocks are compared; a word takes a moment to get there, so others may stop that much later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from crawler.base import entropy
from crawler.base.carrier.verbs import CRAWL, Carrier, CarrierError, CarrierRefusedError

LEFT = "left"  # a value of the crawl
LOOK = 1.0  # seconds between two words


class Left(Struct, frozen=True, array_like=True):
    """The ``seconds`` that are left. ``beat``: no other word has the same."""

    seconds: float
    beat: str


_decoder = msgspec.msgpack.Decoder(Left)


class TimeLeft:
    """The time of the crawl, as one process knows it."""

    def __init__(self, carrier: Carrier, limit: float | None, boottime: Callable[[], float]) -> None:
        """``limit``: the seconds from now, if this process begins the run; None: it has no limit of its own."""
        self._carrier = carrier
        self._boottime = boottime
        self._ends = None if limit is None else boottime() + limit
        self._beats = set[str]()  # the last one that was read, and the own one: neither is news
        self._has_looked = False

    async def keep(self, over: Callable[[], None]) -> None:
        """Call ``over`` when the time is over, once. Until then, tell and hear; until cancelled."""
        telling = asyncio.create_task(self._keep_telling())
        try:
            while (left := self._left()) > 0:  # noqa: ASYNC110, it is time that passes
                await asyncio.sleep(min(LOOK, left))
        finally:
            telling.cancel()
        over()

    def _left(self) -> float:
        return float("inf") if self._ends is None else self._ends - self._boottime()

    async def _keep_telling(self) -> None:
        while True:
            # Who cannot be reached now can be later, and those who work say so.
            with contextlib.suppress(CarrierError, CarrierRefusedError):
                await self._hear()
                if self._ends is not None:
                    said = Left(max(0.0, self._left()), entropy.random_bytes(8).hex())
                    self._beats.add(said.beat)
                    await self._carrier.put(CRAWL, {LEFT: msgspec.msgpack.encode(said)})
            await asyncio.sleep(LOOK)

    async def _hear(self) -> None:
        """Believe what is new. What is found at first may be of an earlier run."""
        (value,) = await self._carrier.get([CRAWL], LEFT)
        with contextlib.suppress(msgspec.DecodeError):
            said = _decoder.decode(value or b"")
            if self._has_looked and said.beat not in self._beats:
                ends = self._boottime() + said.seconds
                self._ends = ends if self._ends is None else min(ends, self._ends)
            self._beats = {said.beat}
        self._has_looked = True

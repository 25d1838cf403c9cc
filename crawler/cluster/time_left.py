"""Enforces the time limit of a whole crawl. All its processes stop when the time is up, including those that joined
later.

Each process that knows of a limit repeatedly publishes the seconds left, and adopts any shorter time that another
publishes. No clocks are compared, so a process may stop too late, by the time that a value takes to reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from crawler.base import entropy
from crawler.base.carrier.verbs import CRAWL, Carrier, CarrierError, CarrierRefusedError

LEFT = "left"  # the name of the value
LOOK = 1.0  # seconds between two updates


class Left(Struct, frozen=True, array_like=True):
    """The ``seconds`` left. ``beat`` is unique to this value."""

    seconds: float
    beat: str


_decoder = msgspec.msgpack.Decoder(Left)


class TimeLeft:
    """One process's view of the time left for the crawl."""

    def __init__(self, carrier: Carrier, limit: float | None, boottime: Callable[[], float]) -> None:
        """``limit``: seconds from now, if this process sets the limit; None if it does not."""
        self._carrier = carrier
        self._boottime = boottime
        self._ends = None if limit is None else boottime() + limit
        self._beats = set[str]()  # ``beat`` of the last value read, and of our own: neither value is new
        self._has_looked = False

    async def keep(self, over: Callable[[], None]) -> None:
        """Publish and read the time left until the time is up or the task is cancelled. Calls ``over`` once when the
        time is up."""
        telling = asyncio.create_task(self._keep_telling())
        try:
            while (left := self._left()) > 0:  # noqa: ASYNC110 - waits for time, not for an event
                await asyncio.sleep(min(LOOK, left))
        finally:
            telling.cancel()
        over()

    def _left(self) -> float:
        return float("inf") if self._ends is None else self._ends - self._boottime()

    async def _keep_telling(self) -> None:
        while True:
            # The carrier may be reachable later; the working parts report the outage.
            with contextlib.suppress(CarrierError, CarrierRefusedError):
                await self._hear()
                if self._ends is not None:
                    said = Left(max(0.0, self._left()), entropy.random_bytes(8).hex())
                    self._beats.add(said.beat)
                    await self._carrier.put(CRAWL, {LEFT: msgspec.msgpack.encode(said)})
            await asyncio.sleep(LOOK)

    async def _hear(self) -> None:
        """Adopt a new value if it is shorter. The first value found may belong to an earlier run."""
        (value,) = await self._carrier.get([CRAWL], LEFT)
        with contextlib.suppress(msgspec.DecodeError):
            said = _decoder.decode(value or b"")
            if self._has_looked and said.beat not in self._beats:
                ends = self._boottime() + said.seconds
                self._ends = ends if self._ends is None else min(ends, self._ends)
            self._beats = {said.beat}
        self._has_looked = True

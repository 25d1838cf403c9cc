"""Shares the request rate of a whole crawl: each process publishes the rate it wants, and keeps to the share that the
lender grants it. One process of the crawl, the holder of the claim ``crawl``, is the lender
(``crawler.job.partition.rate_shares``).

A process publishes its wish as a value of its seat; the lender publishes the shares as a value of the crawl. If a value
cannot be written or read, shares are not renewed: they run out, and then no request starts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from math import inf

from crawler.base import entropy
from crawler.base.carrier.verbs import CRAWL, CarrierError, decoded, encoded
from crawler.cluster.claims import Ownership
from crawler.cluster.reach import Backoff, Reach
from crawler.cluster.seats import Seats
from crawler.engine.rate import LentRate, Rate
from crawler.job.partition.rate_shares import (
    Borrowing,
    Lender,
    Shares,
    Wish,
    wanted,
)

RATE = "rate"  # the name of a value of each seat, and of the crawl
LOOK, UNLIMITED = 0.3, 1.0  # seconds between two updates, and between two checks for a rate
SILENT = 1.5  # seconds without an update from the lender after which another process tries to replace it
_WINDOW = 1.5  # seconds over which requests are counted, approximately


class RateCoordinator:
    """Handles the rate in one process. Does nothing without a rate."""

    def __init__(self, reach: Reach, seats: Seats, ownership: Ownership, rate: Rate, boottime: Callable[[], float]):
        """``rate`` limits all requests of the process."""
        self._reach = reach
        self._seats = seats
        self._ownership = ownership
        self._demand = _Demand(rate)
        self._rate = rate
        self._boottime = boottime
        self._a_second: float | None = None
        self._lent: LentRate | None = None
        self._borrowing = Borrowing(entropy.random_bytes(8).hex())
        self._lender: Lender | None = None
        self._latest = 0  # the greatest known epoch of a lender
        self._word = _Word()

    def change(self, a_second: float | None) -> None:
        """Set the rate of the whole crawl from now on; None: no limit."""
        self._a_second = a_second
        if a_second is None:
            self._lent = None
        elif self._lent is None:
            self._lent = LentRate()
            self._lend(self._lent)
        self._rate.share(self._lent)

    async def keep(self) -> None:
        """Borrow a share of the rate, and lend shares if this process is the lender, until cancelled."""
        backoff = Backoff()
        while True:
            try:
                if self._a_second is not None:
                    await self._look(self._a_second)
            except CarrierError:
                await backoff.rest()
            else:
                backoff.reset()
                await asyncio.sleep(UNLIMITED if self._a_second is None else LOOK)

    async def leave(self) -> None:
        """Give up the share and the lender's claim, because this process makes no more requests."""
        self._lender = None
        if self._a_second is not None and self._seats.mine is not None:
            with contextlib.suppress(CarrierError):  # reported by ``reach``; the share runs out
                await self._reach.call(self._reach.carrier.put(self._seats.mine, {RATE: b""}))
        if self._ownership.epoch(CRAWL) is not None:
            await self._ownership.free(CRAWL)

    async def _look(self, a_second: float) -> None:
        carrier, call, borrowing = self._reach.carrier, self._reach.call, self._borrowing
        now, seat = self._boottime(), self._seats.mine
        if seat is not None:
            wants = self._demand.wanted(0.0 if self._lent is None else self._lent.share)
            await call(carrier.put(seat, {RATE: encoded(borrowing.wish(wants, now))}))
        (said,) = await call(carrier.get([CRAWL], RATE))
        shares = decoded(said, Shares)
        if await self._lends(shares):
            wishes = [decoded(value, Wish) for value in await call(carrier.get(self._seats.names, RATE))]
            shares = self._answered([wish for wish in wishes if wish is not None], shares, a_second)
            if shares is not None:
                await call(carrier.put(CRAWL, {RATE: encoded(shares)}))
        if shares is not None and borrowing.hear(shares) and self._lent is not None:
            self._lend(self._lent)

    def _lend(self, lent: LentRate) -> None:
        borrowing = self._borrowing
        lent.lend(borrowing.share, lambda: borrowing.until - self._boottime())

    # -- the lender --------------------------------------------------------------------------------------------

    async def _lends(self, shares: Shares | None) -> bool:
        """Return True if this process is the lender. It tries to become the lender if there is none. Raises
        CarrierError."""
        now = self._boottime()
        is_silent = self._word.is_old(shares, now)
        if self._ownership.may_request(CRAWL):
            return True
        self._lender = None
        if not is_silent:
            return False
        self._word.at = now  # do not try to become the lender at every update
        return await self._ownership.claim(CRAWL, self._latest) is not None

    def _answered(self, wishes: list[Wish], before: Shares | None, a_second: float) -> Shares | None:
        """Return the shares to lend now; None if another process has lent under a greater epoch, so that this process
        first needs a new, greater epoch."""
        epoch, now = self._ownership.epoch(CRAWL), self._boottime()
        known = [self._latest, self._borrowing.epoch, *(wish.epoch for wish in wishes)]
        self._latest = max(known if before is None else [*known, before.epoch])
        if epoch is None or self._latest > epoch:
            self._lender = None
            self._ownership.forget(CRAWL)
            self._word.at = -inf
            return None
        if self._lender is None or self._lender.epoch != epoch:
            self._lender = Lender(epoch, now, alone=not self._latest)
        return self._lender.look(a_second, wishes, now)


class _Word:
    """The lender's last update, and when it arrived."""

    def __init__(self) -> None:
        self._said: tuple[int, int] | None = None
        self.at = -inf

    def is_old(self, shares: Shares | None, now: float) -> bool:
        """Return True if the lender has been silent for too long."""
        said = None if shares is None else (shares.epoch, shares.look)
        if said != self._said:
            self._said, self.at = said, now
        return now >= self.at + SILENT


class _Demand:
    """Measures how much of its rate the process uses."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._seen = [(asyncio.get_running_loop().time(), rate.turns, rate.waited)]

    def wanted(self, share: float) -> float:
        """Return the wanted rate in requests a second."""
        now, rate, seen = asyncio.get_running_loop().time(), self._rate, self._seen
        seen.append((now, rate.turns, rate.waited))
        while len(seen) > 2 and seen[1][0] <= now - _WINDOW:
            seen.pop(0)
        (first, turns, _), (last, _, waited) = seen[0], seen[-2]
        if now <= last:
            return 0.0
        return wanted((rate.turns - turns) / (now - first), (rate.waited - waited) / (now - last), share)

"""The claims of one process. A partition has one owner at a time, for as long as its claim holds.

    claimed       held for 10 seconds; renewed every 3
    half is over  5 seconds after the last renewal *began*, no request may begin: by CLOCK_BOOTTIME, which goes on while
                  the process is stopped or the machine sleeps. It is looked at, not waited for, so a process that wakes
                  up late knows before it does anything else
    renewed       requests begin again
    refused       the carrier knows another epoch, or has lost all: no request begins, and the partition is claimed anew
                  at once. If nobody else holds it, its directory never left this process, and its run goes on under
                  the new epoch
    lost          another process holds it: the run ends at once

A carrier that cannot be reached costs requests, never the partition: nobody else can claim it there either.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.reach import Reach

HELD = 10.0  # seconds that a claim holds
RENEWED = 3.0  # seconds between two renewals
AGAIN = 0.5  # seconds until the next try if one failed
ASKED = 5.0  # seconds after the begin of a renewal in which requests may begin
_AT_ONCE = 16  # calls


def boot_time() -> float:
    """Seconds since the machine started, with those for which it slept or this process was stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Claim(Struct):
    """A name that is held in an ``epoch``; it was renewed ``at`` that time."""

    epoch: int
    at: float


class Ownership:
    """The claims of one process, whose name is ``holder``."""

    def __init__(self, reach: Reach, holder: str, boottime: Callable[[], float] = boot_time) -> None:
        self._reach = reach
        self.holder = holder
        self.boottime = boottime
        self._claims: dict[str, Claim] = {}
        self.changed: Callable[[str], None] = lambda _: None  # told a name that has another epoch now, or none
        self.renewed: Callable[[], None] = lambda: None

    @property
    def names(self) -> list[str]:
        """What is held."""
        return list(self._claims)

    def epoch(self, name: str) -> int | None:
        """The epoch in which the name is held; None if it is not."""
        claim = self._claims.get(name)
        return None if claim is None else claim.epoch

    def may_request(self, name: str) -> bool:
        """Whether a request may begin now for what has that name."""
        claim = self._claims.get(name)
        return claim is not None and self.boottime() < claim.at + ASKED

    async def claim(self, name: str, floor: int) -> int | None:
        """Claim the name. Returns its epoch, greater than ``floor``; None if it is another one's. Raises
        CarrierError."""
        began = self.boottime()
        epoch = await self._reach.call(self._reach.carrier.claim(name, self.holder, floor, HELD))
        return None if epoch is None else self._got(name, Claim(epoch, began)).epoch

    def _got(self, name: str, claim: Claim) -> Claim:
        """What is held now. Of two claims that were made at once the carrier knows the greater epoch."""
        held = self._claims.get(name)
        if held is None or held.epoch < claim.epoch:
            held = self._claims[name] = claim
        return held

    def forget(self, name: str) -> None:
        """Hold the name no more, and leave it to time to free it."""
        self._claims.pop(name, None)

    async def free(self, name: str) -> None:
        """Hold the name no more, and let others claim it at once. If the carrier cannot be reached, that takes until
        its time has run out."""
        claim = self._claims.pop(name, None)
        if claim is None:
            return
        try:
            await self._reach.call(self._reach.carrier.renew(name, self.holder, claim.epoch, 0.0))
        except CarrierError:
            return  # said by ``reach``

    async def keep(self) -> None:
        """Renew all claims until cancelled."""
        pause = RENEWED
        while True:
            await asyncio.sleep(pause)
            pause = RENEWED if await self.renew() else AGAIN

    async def renew(self) -> bool:
        """Renew all claims. Returns whether the carrier answered."""
        names, answered = self.names, True
        for start in range(0, len(names), _AT_ONCE):
            answers = await asyncio.gather(*(self._renew(name) for name in names[start : start + _AT_ONCE]))
            answered = answered and all(answers)
        if answered:
            self.renewed()
        return answered

    async def _renew(self, name: str) -> bool:
        claim = self._claims.get(name)
        if claim is None:
            return True
        began = self.boottime()
        try:
            renewed = await self._reach.call(self._reach.carrier.renew(name, self.holder, claim.epoch, HELD))
            if self._claims.get(name) is not claim:
                return True  # given up meanwhile
            if renewed:
                claim.at = began
                return True
            claim.at = -math.inf
            await self._claim_again(name, claim)
        except CarrierError:
            return False
        return True

    async def _claim_again(self, name: str, claim: Claim) -> None:
        began = self.boottime()
        epoch = await self._reach.call(self._reach.carrier.claim(name, self.holder, claim.epoch, HELD))
        held = self._claims.get(name)
        if held is None:  # given up meanwhile
            if epoch is not None:
                await self._reach.call(self._reach.carrier.renew(name, self.holder, epoch, 0.0))
            return
        if epoch is not None:
            if self._got(name, Claim(epoch, began)) is held:
                return
        elif held is claim:
            del self._claims[name]
        else:
            return
        self.changed(name)


def names_of(partitions: Iterable[int]) -> list[str]:
    """The names of partitions on a carrier."""
    return [name_of(partition) for partition in partitions]


def name_of(partition: int) -> str:
    """The name of a partition on a carrier: of its stream, its claim and its values."""
    return f"p{partition}"

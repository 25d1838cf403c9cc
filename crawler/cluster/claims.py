"""The claims of one process. A partition has one owner at a time: the process that holds its claim.

    claimed       held for 10 seconds; renewed every 3
    half over     5 seconds after the start of the last renewal, no new request may start. This is measured by
                  ``boot_time``, which keeps counting while the process is stopped or the machine sleeps, and checked
                  before each request, so a process that wakes up late notices before it does anything else
    renewed       requests start again
    refused       the carrier knows another epoch, or has lost all state: no request starts, and the partition is
                  claimed again at once. If no other process holds it, its directory never left this process, and its
                  run continues under the new epoch
    lost          another process holds it: the run ends at once

While the carrier is unreachable, no request starts, but no partition is lost: other processes cannot reach the carrier
to claim it either.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable

from msgspec import Struct

from crawler.base.carrier.verbs import CarrierError
from crawler.base.clock import boot_time
from crawler.cluster.reach import Reach, together

HELD = 10.0  # seconds that a claim lasts
RENEWED = 3.0  # seconds between two renewals
AGAIN = 0.5  # seconds until the next try after a failure
ASKED = 5.0  # seconds after the start of a renewal during which requests may start


class Claim(Struct):
    """A claim on a name in one ``epoch``; ``at`` is the time at which its last renewal started."""

    epoch: int
    at: float


class Ownership:
    """The claims that one process holds under the name ``holder``."""

    def __init__(self, reach: Reach, holder: str, boottime: Callable[[], float] = boot_time) -> None:
        self._reach = reach
        self.holder = holder
        self.boottime = boottime
        self._claims: dict[str, Claim] = {}
        self.changed: Callable[[str], None] = lambda _: None  # called with a name whose claim changed epoch or was lost
        self.renewed: Callable[[], None] = lambda: None

    def epoch(self, name: str) -> int | None:
        """Return the epoch in which this process holds the name; None if it does not."""
        claim = self._claims.get(name)
        return None if claim is None else claim.epoch

    def may_request(self, name: str) -> bool:
        """Return True if a request may start now under that name."""
        claim = self._claims.get(name)
        return claim is not None and self.boottime() < claim.at + ASKED

    async def claim(self, name: str, floor: int) -> int | None:
        """Claim the name. Returns its epoch, greater than ``floor``; None if another process holds it. Raises
        CarrierError."""
        began = self.boottime()
        epoch = await self._reach.call(self._reach.carrier.claim(name, self.holder, floor, HELD))
        return None if epoch is None else self._got(name, Claim(epoch, began)).epoch

    def _got(self, name: str, claim: Claim) -> Claim:
        """Record the claim and return the current one. If two claims of this process were concurrent, the carrier knows
        only the one with the greater epoch, so that one is current."""
        held = self._claims.get(name)
        if held is None or held.epoch < claim.epoch:
            held = self._claims[name] = claim
        return held

    def forget(self, name: str) -> None:
        """Drop the claim locally and let it expire on the carrier."""
        self._claims.pop(name, None)

    async def free(self, name: str) -> None:
        """Drop the claim and release it on the carrier, so that others can claim it at once. If the carrier is
        unreachable, they must wait until it expires."""
        claim = self._claims.pop(name, None)
        if claim is None:
            return
        try:
            await self._reach.call(self._reach.carrier.renew(name, self.holder, claim.epoch, 0.0))
        except CarrierError:
            return  # reported by ``reach``

    async def keep(self) -> None:
        """Renew all claims until cancelled."""
        pause = RENEWED
        while True:
            await asyncio.sleep(pause)
            pause = RENEWED if await self.renew() else AGAIN

    async def renew(self) -> bool:
        """Renew all claims. Returns True if the carrier answered."""
        answered = all(await together(map(self._renew, list(self._claims))))
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
                return True  # the claim was given up meanwhile
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
        if held is None:  # the claim was given up meanwhile
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
    """Return the carrier names of partitions."""
    return [name_of(partition) for partition in partitions]


def name_of(partition: int) -> str:
    """Return the carrier name of a partition, used for its stream, claim and values."""
    return f"p{partition}"

"""Claims: who may ask, until when, and what happens when they are lost. Time is a number."""

from __future__ import annotations

import asyncio

import pytest

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.claims import ASKED, HELD, Ownership
from crawler.cluster.reach import Reach
from tests.cluster.members import Line
from tests.holdings import LosingHoldings


class Times:
    """Two processes on one machine, and what carries their claims."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.holdings = LosingHoldings()
        carrier = MemoryCarrier(self.holdings, lambda: self.now)
        self.lines = [Line(carrier), Line(carrier)]
        self.said: list[str] = []
        self.first, self.second = (self._owner(f"m{number}") for number in range(2))
        self.changed: list[tuple[str, int | None]] = []
        self.first.changed = lambda name: self.changed.append((name, self.first.epoch(name)))

    def _owner(self, name: str) -> Ownership:
        line = self.lines[int(name[1:])]
        return Ownership(Reach(line, lambda: self.now, self.said.append), name, lambda: self.now)


@pytest.fixture
def times() -> Times:
    return Times()


async def test_requests_end_at_half_the_claim_and_begin_again_when_it_is_renewed(times: Times) -> None:
    assert not times.first.may_request("p0")
    assert await times.first.claim("p0", 0) == 1
    assert times.first.may_request("p0")
    times.now += ASKED - 0.01
    assert times.first.may_request("p0")
    times.now += 0.01
    assert not times.first.may_request("p0")
    assert await times.first.renew()
    assert times.first.may_request("p0")


async def test_half_a_claim_counts_from_the_begin_of_its_renewal(times: Times) -> None:
    class Slow(Line):
        async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
            answer = await super().renew(name, holder, epoch, seconds)
            times.now += ASKED
            return answer

    line = Slow(MemoryCarrier(times.holdings, lambda: times.now))
    owner = Ownership(Reach(line, lambda: times.now), "m0", lambda: times.now)
    await owner.claim("p0", 0)
    await owner.renew()
    assert not owner.may_request("p0")


async def test_nobody_else_may_claim_before_the_owner_has_stopped_asking(times: Times) -> None:
    await times.first.claim("p0", 0)
    while await times.second.claim("p0", 0) is None:
        times.now += 0.1
    assert not times.first.may_request("p0")
    assert times.now >= 1_000.0 + HELD - 0.11


async def test_a_claim_that_another_one_got_is_lost(times: Times) -> None:
    await times.first.claim("p0", 0)
    times.now += HELD  # stopped, or asleep
    assert await times.second.claim("p0", 0) == 2
    assert await times.first.renew()
    assert times.changed == [("p0", None)]
    assert not times.first.may_request("p0")
    assert times.second.may_request("p0")


async def test_what_the_carrier_forgot_is_claimed_again_in_a_greater_epoch(times: Times) -> None:
    await times.first.claim("p0", 41)
    times.holdings.forget()
    assert await times.first.renew()
    assert times.changed == [("p0", 43)]
    assert times.first.may_request("p0")
    assert await times.second.claim("p0", 0) is None


async def test_no_request_begins_while_it_is_not_known_whether_a_refused_claim_is_another_ones(times: Times) -> None:
    class NoClaims(Line):
        is_silent = False

        async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
            if self.is_silent:
                raise CarrierError("no answer")
            return await super().claim(name, holder, floor, seconds)

    line = NoClaims(MemoryCarrier(times.holdings, lambda: times.now))
    owner = Ownership(Reach(line, lambda: times.now), "m0", lambda: times.now)
    await owner.claim("p0", 0)
    times.holdings.forget()
    assert await times.second.claim("p0", 0) == 1
    line.is_silent = True
    assert not await owner.renew()
    assert times.second.may_request("p0")
    assert not owner.may_request("p0")
    line.is_silent = False
    times.now += HELD
    assert await owner.renew()
    assert owner.may_request("p0")


@pytest.mark.parametrize("answered_first", [0, 1])
async def test_two_claims_at_once_keep_the_greater_epoch(times: Times, answered_first: int) -> None:
    """A partition that begins an epoch claims its name while a renewal that was refused does so too."""
    held_up: list[asyncio.Event] = []
    both = asyncio.Event()

    class SlowClaims(Line):
        async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
            epoch = await super().claim(name, holder, floor, seconds)
            if epoch != 1:
                held_up.append(mine := asyncio.Event())
                if len(held_up) == 2:
                    both.set()
                await mine.wait()
            return epoch

    line = SlowClaims(MemoryCarrier(times.holdings, lambda: times.now))
    owner = Ownership(Reach(line, lambda: times.now), "m0", lambda: times.now)
    assert await owner.claim("p0", 0) == 1
    times.holdings.forget()
    calls = [asyncio.ensure_future(call) for call in (owner.claim("p0", 41), owner.renew())]
    await both.wait()
    held_up[answered_first].set()
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    held_up[1 - answered_first].set()
    await asyncio.wait(calls)
    assert owner.epoch("p0") == 43
    assert owner.may_request("p0")
    assert await times.second.claim("p0", 0) is None
    assert await owner.renew()
    assert owner.epoch("p0") == 43


async def test_a_carrier_that_cannot_be_reached_keeps_the_claim_and_is_said_once(times: Times) -> None:
    await times.first.claim("p0", 0)
    times.lines[0].is_cut = True
    for _ in range(30):
        times.now += 1.0
        assert not await times.first.renew()
    assert times.first.epoch("p0") == 1
    assert not times.first.may_request("p0")
    with pytest.raises(CarrierError):
        await times.first.claim("p1", 0)
    assert len(times.said) == 1
    times.lines[0].is_cut = False
    assert await times.first.renew()
    assert times.first.may_request("p0")
    assert len(times.said) == 2


async def test_a_freed_name_can_be_claimed_at_once(times: Times) -> None:
    await times.first.claim("p0", 0)
    await times.first.free("p0")
    assert await times.second.claim("p0", 0) == 2
    assert times.first.epoch("p0") is None

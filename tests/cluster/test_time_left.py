"""The time of a whole crawl: over for all at once, also for who came later, and never longer than anybody says."""

from __future__ import annotations

import asyncio

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.cluster.time_left import LOOK, TimeLeft
from tests.holdings import LosingHoldings
from tests.virtual import run_virtually


class Processes:
    """Processes that share a carrier, and when the time was over for each."""

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time
        self.holdings = LosingHoldings()
        self.ended: dict[str, float] = {}

    def begin(self, name: str, limit: float | None, ahead: float = 0.0) -> asyncio.Task[None]:
        """``ahead``: seconds that its clock is ahead of others."""
        carrier = MemoryCarrier(self.holdings, self.now)
        time = TimeLeft(carrier, limit, lambda: self.now() + ahead)
        return asyncio.ensure_future(time.keep(lambda: self.ended.setdefault(name, self.now())))


def test_all_stop_at_one_time_whenever_they_came_and_whatever_their_clocks_say() -> None:
    async def run() -> dict[str, float]:
        processes = Processes()
        first = processes.begin("first", 60.0)
        second = processes.begin("second", None, ahead=10_000.0)
        await asyncio.sleep(30.0)
        first.cancel()  # as if it were killed: the second one still knows
        processes.holdings.forget()
        third = processes.begin("third", None)
        longer = processes.begin("longer", 500.0)
        await asyncio.gather(second, third, longer)
        return processes.ended

    ended = run_virtually(run())
    assert set(ended) == {"second", "third", "longer"}
    assert all(60.0 <= at <= 60.0 + 2 * LOOK for at in ended.values())


def test_what_an_earlier_run_has_left_behind_ends_nothing() -> None:
    async def run() -> dict[str, float]:
        processes = Processes()
        await processes.begin("first", 5.0)
        late = processes.begin("late", None)
        await asyncio.sleep(100.0)
        late.cancel()
        again = processes.begin("again", 20.0)
        await again
        return processes.ended

    ended = run_virtually(run())
    assert set(ended) == {"first", "again"}
    assert ended["again"] == 125.0

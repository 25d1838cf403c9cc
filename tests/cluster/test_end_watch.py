"""The end of a crawl as one process sees it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from crawler.base.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.base.carrier.verbs import CRAWL, START, CarrierError, Order
from crawler.cluster.end_watch import END, EndWatch
from crawler.cluster.ownership import Ownership
from crawler.cluster.reach import Reach
from crawler.job.partition.end_rounds import decode_announcement, decode_status
from tests.cluster.members import Line
from tests.virtual import run_virtually


@dataclass
class Quiet:
    """A partition in which nothing is left. One whose store is closed cannot say so."""

    is_closed: bool = False
    is_at_rest: bool = True
    is_spent: bool = False
    version: int = 3
    epoch: int = 1
    read_to: str = START

    @property
    def is_sent(self) -> bool:
        assert not self.is_closed, "its store is closed"
        return True


class Closing(Line):
    """A way on which another partition is closed while one is told."""

    ours: dict[int, Quiet]

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        done = await super().put(name, values, order)
        if name == "p0" and 1 in self.ours:
            self.ours.pop(1).is_closed = True
        return done


def test_nothing_is_said_of_a_partition_that_was_closed_meanwhile() -> None:
    holdings, ours = Holdings(), {0: Quiet(), 1: Quiet()}

    async def test() -> None:
        line = Closing(MemoryCarrier(holdings, lambda: 0.0))
        line.ours = ours
        reach = Reach(line, lambda: 0.0)
        ownership = Ownership(reach, "a", lambda: 0.0)
        for name in ("p0", "p1"):
            await ownership.claim(name, 0)
        watch = EndWatch(reach, ownership, 2, lambda: ours, lambda _: None)
        for _ in range(3):
            await watch.look()

    asyncio.run(test())
    said = [decode_status(value) for value in holdings.get(["p0", "p1"], "status")]
    assert said[0] is not None
    assert said[1] is None
    assert list(ours) == [0]


class Slow(Line):
    """A way on which the first word of a partition arrives last."""

    def __init__(self, carrier: MemoryCarrier) -> None:
        super().__init__(carrier)
        self.late: list[tuple[str, Mapping[str, bytes], Order | None]] = []

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        if name == "p0" and not self.late:
            self.late.append((name, dict(values), order))
            raise CarrierError("no answer")
        return await super().put(name, values, order)


def test_an_answer_that_may_be_on_its_way_is_taken_back_when_its_partition_leaves() -> None:
    holdings, ours = Holdings(), {0: Quiet()}

    async def test() -> None:
        line = Slow(MemoryCarrier(holdings, lambda: 0.0))
        reach = Reach(line, lambda: 0.0, lambda _: None)
        ownership = Ownership(reach, "a", lambda: 0.0)
        await ownership.claim("p0", 0)
        watch = EndWatch(reach, ownership, 1, lambda: ours, lambda _: None)
        while not line.late:
            with contextlib.suppress(CarrierError):
                await watch.look()
        (answer,) = line.late
        first = decode_status(answer[1]["status"])
        assert first is not None
        assert first.idle
        assert await watch.may_leave(0, ours[0])
        await MemoryCarrier(holdings, lambda: 0.0).put(*answer)

    run_virtually(test())
    (last,) = [decode_status(value) for value in holdings.get(["p0"], "status")]
    assert last is not None
    assert not last.idle


def test_a_process_that_comes_when_all_is_over_leaves_the_end_as_it_was_announced() -> None:
    """Others may come back that have not read it."""
    holdings, ours = Holdings(), {0: Quiet(), 1: Quiet()}
    found: list[bytes | None] = []

    async def test() -> None:
        reach = Reach(MemoryCarrier(holdings, lambda: 0.0), lambda: 0.0)
        ownership = Ownership(reach, "a", lambda: 0.0)
        for name in ("p0", "p1"):
            await ownership.claim(name, 0)
        over: list[bool] = []
        watch = EndWatch(reach, ownership, 2, lambda: ours, over.append)
        while not over:
            await watch.look()
        found.extend(holdings.get([CRAWL], END))
        ours.clear()
        await watch.look()
        await ownership.free(CRAWL)
        late = EndWatch(reach, Ownership(reach, "b", lambda: 0.0), 2, dict, over.append)
        for _ in range(3):
            await late.look()
        found.extend(holdings.get([CRAWL], END))
        ours[0] = Quiet(epoch=2)  # the crawl is resumed
        await ownership.claim("p0", 1)
        again = EndWatch(reach, ownership, 2, lambda: ours, over.append)
        await again.look()
        await late.look()
        found.extend(holdings.get([CRAWL], END))

    asyncio.run(test())
    ended = [decode_announcement(value) for value in found]
    assert ended[0] == ended[1]
    assert ended[0] is not None
    assert ended[0].ended == (1, 1)
    assert ended[2] is not None
    assert not ended[2].ended

"""What an owner has said of its replicas arrives once more, or late: its last word counts, and nothing is lost. In
virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler.base.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.base.carrier.verbs import CarrierError, Order
from crawler.cluster import log_sending
from crawler.cluster.ownership import HELD
from crawler.cluster.reach import Reach
from crawler.cluster.replica_slots import REPLICAS, ReplicaSlots
from crawler.cluster.seats import HOME, Seats, decode_home
from crawler.cluster.slot_sending import SILENT
from crawler.job.home_register import Home
from crawler.job.partition.replica_homes import Following, Follows, decode_following, encode_following, order_of
from crawler.job.replica import Mark
from tests.cluster.members import Crawling, Line
from tests.cluster.test_promoted import assert_complete
from tests.cluster.test_replicas import begin_both, crawling, in_step, lags, to_the_end, until

IN_STEP = Following(7, [Follows("b", True)], 0.0)  # as an owner of an epoch before may have left it


class Repeating(Line):
    """A way whose puts may be done once more, at any time later."""

    def __init__(self, carrier: MemoryCarrier) -> None:
        super().__init__(carrier)
        self.puts: list[tuple[str, Mapping[str, bytes], Order | None]] = []
        self.holds_back = False  # they arrive when nobody waits for them any more
        self.loses_answers = False

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        self.puts.append((name, dict(values), order))
        if self.holds_back:
            raise CarrierError("no answer")
        done = await super().put(name, values, order)
        if self.loses_answers:
            raise CarrierError("no answer")
        return done

    async def repeat(self, *puts: tuple[str, Mapping[str, bytes], Order | None]) -> None:
        for put in puts or self.puts:
            await self._carrier.put(*put)


async def said(line: Line) -> bool:
    """Whether the replica of partition 0 in the home b is in step, as who begins now reads it."""
    other = ReplicaSlots(Reach(line, lambda: 0.0), "b", 1, 1, lambda: 0.0)
    return (await other.read(0)).in_step == ["b"]


async def owner_of(line: Line, epoch: int) -> ReplicaSlots:
    """An owner in the home a, whose clock stands still."""
    slots = ReplicaSlots(Reach(line, lambda: 0.0), "a", 1, 1, lambda: 1e9)
    await slots.begin(0, epoch, 1)
    return slots


def line_to(*earlier: Following) -> Repeating:
    holdings = Holdings()
    line = Repeating(MemoryCarrier(holdings, lambda: 0.0))
    for following in earlier:
        holdings.put("p0", {REPLICAS: encode_following(following)})
    return line


@pytest.mark.parametrize("epochs", [[8], [8, 9]])
async def test_a_replica_that_was_left_behind_is_in_step_no_more_whatever_is_repeated(epochs: list[int]) -> None:
    line = line_to(IN_STEP)
    for epoch in epochs:
        owner = await owner_of(line, epoch)
        assert await said(line)
    await owner.tell_step(0, "b", in_step=False)
    assert not await said(line)
    for put in line.puts:
        await line.repeat(put)
        assert not await said(line), put


async def test_an_owner_that_was_replaced_says_nothing_any_more() -> None:
    line = line_to(IN_STEP)
    before = await owner_of(line, 8)
    after = await owner_of(line, 9)
    await after.tell_step(0, "b", in_step=False)
    with pytest.raises(CarrierError):
        await before.tell_step(0, "b", in_step=False)
    assert not await said(line)
    assert decode_following((await line.get(["p0"], REPLICAS))[0]) == after.told[0]
    await after.tell_step(0, "b", in_step=True)
    assert await said(line)


async def test_who_is_left_behind_although_it_was_never_known_to_be_in_step_is_not_when_that_arrives_late() -> None:
    line = line_to(Following(7, [Follows("b", False)], 0.0))
    owner = await owner_of(line, 8)
    line.holds_back = True
    with pytest.raises(CarrierError):
        await owner.tell_step(0, "b", in_step=True)
    line.holds_back = False
    await owner.tell_step(0, "b", in_step=False)
    await line.repeat()
    assert not await said(line)


@dataclass
class Opened:
    """As much of a partition that is open as is looked at for its slots."""

    epoch: int
    number: int = 0
    is_rising: bool = False
    is_closing: bool = False
    life: int = 0


async def look(owner: ReplicaSlots, *homes: str) -> None:
    """What an owner of partition 0 does again and again, in its epoch 8, while somebody works in these homes."""
    await owner.look({0: Opened(8)}, homes, {})  # type: ignore[dict-item]


async def without_answer(line: Repeating, owner: ReplicaSlots, *, in_step: bool) -> None:
    line.loses_answers = True
    with pytest.raises(CarrierError):
        await owner.tell_step(0, "b", in_step=in_step)
    line.loses_answers = False


async def test_who_is_in_step_stays_so_although_nobody_answered_that() -> None:
    line = line_to(Following(7, [Follows("b", False)], 0.0))
    owner = await owner_of(line, 8)
    await without_answer(line, owner, in_step=True)
    assert owner.may_be_in_step(0, "b")
    for _ in range(2):
        await look(owner, "b", "c")
        assert await said(line)
    await owner.tell_step(0, "b", in_step=False)
    assert not owner.may_be_in_step(0, "b")
    await look(owner, "b", "c")
    assert not await said(line)


async def test_who_is_waited_for_stays_in_step_although_nobody_answered_that_it_is_left_behind() -> None:
    """Its owner goes on without it when that is known to have been said."""
    line = line_to(IN_STEP)
    owner = await owner_of(line, 8)
    await without_answer(line, owner, in_step=False)
    assert owner.may_be_in_step(0, "b")
    await look(owner, "b")
    assert await said(line)


async def test_who_comes_back_into_its_slot_is_not_in_step_although_that_was_said_of_it_before() -> None:
    line = line_to(Following(7, [Follows("b", False)], 0.0))
    owner = await owner_of(line, 8)
    await without_answer(line, owner, in_step=True)
    await look(owner)
    await owner.tell_step(0, "b", in_step=True)
    await look(owner, "b")
    assert owner.homes(0) == ["b"]
    assert not owner.may_be_in_step(0, "b")
    assert not await said(line)


async def test_a_home_of_before_that_is_told_late_is_none() -> None:
    line = line_to()
    reach = Reach(line, lambda: 0.0)
    seats = Seats(reach, None, 1, None, lambda: 0.0)  # type: ignore[arg-type]
    for home in (Home("a"), Home("b", 5), Home("c", 2**40)):
        await seats.settle(0, home)
    await line.repeat(*line.puts[:2])
    assert decode_home((await line.get(["p0"], HOME))[0]) == Home("c", 2**40)


def test_a_replica_that_was_left_behind_does_not_take_over_when_its_owner_has_died(tmp_path: Path) -> None:
    """It is not there while it is left behind, so it remembers nothing."""
    crawl = crawling(tmp_path, each=20)
    crawl.line = lambda: Repeating(crawl.carrier)  # type: ignore[method-assign]

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        assert isinstance(a.line, Repeating)
        own, words = set(a.member.runs), [put for put in a.line.puts if REPLICAS in put[1]]
        await b.kill()
        await until(lambda: len(a.member.runs) == crawl.partitions)
        await asyncio.sleep(2 * SILENT)
        await a.kill()
        await a.line.repeat(*words)
        b = crawl.begin("b", home="b")
        await asyncio.sleep(3 * HELD)
        assert not b.member.runs.keys() & own
        assert not any("was taken over by its replica here" in line for line in b.said)
        await to_the_end(crawl.begin("a", home="a"), b)

    crawl.live(test)
    assert_complete(crawl, lost=2)


def test_an_owner_begins_an_epoch_after_what_was_said_before_it_although_the_carrier_forgot_that_one(
    tmp_path: Path,
) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        late = Following(50, [Follows("elsewhere", False)], 1.0)
        for number in range(crawl.partitions):
            await crawl.carrier.put(f"p{number}", {REPLICAS: encode_following(late)}, order_of(late))
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b), 60.0)
        await to_the_end(a, b)

    crawl.live(test)
    assert_complete(crawl)


class Slow(Repeating):
    """A way on which what is said of replicas takes long."""

    seconds = 0.0

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        if REPLICAS in values:
            await asyncio.sleep(self.seconds)
        return await super().put(name, values, order)


def test_a_replica_counts_as_in_step_when_others_know_that_it_is(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=20)
    crawl.line = lambda: Slow(crawl.carrier)  # type: ignore[method-assign]

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: len(lags(a)) + len(lags(b)) == crawl.partitions)
        for each in (a, b):
            assert isinstance(each.line, Slow)
            each.line.seconds = 3.0
        while not in_step(a, b):
            counted = {lag.partition for each in (a, b) for lag in lags(each) if lag.in_step}
            for number in counted:
                known = decode_following((await crawl.carrier.get([f"p{number}"], REPLICAS))[0])
                assert known is not None
                assert known.in_step, number
            await asyncio.sleep(0.1)

    crawl.live(test)


def test_a_partition_may_be_closed_while_it_is_said_that_its_replica_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sending, "ENDING", 0.0)  # seconds for which it would wait for the replica
    crawl = crawling(tmp_path, each=20)
    crawl.line = lambda: Slow(crawl.carrier)  # type: ignore[method-assign]

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        assert isinstance(a.line, Slow)
        await b.kill()
        await asyncio.sleep(SILENT - 2.0)
        a.line.seconds = 3.0
        await asyncio.sleep(3.0)
        await a.stop()
        await to_the_end(*begin_both(crawl))

    crawl.live(test)
    assert_complete(crawl, lost=2)


async def test_who_opens_a_partition_again_promises_nothing_before_it_hears_of_its_replica() -> None:
    line = line_to(IN_STEP)
    owner = await owner_of(line, 8)
    assert not await owner.begin(0, 9, 1), "it is followed on"
    await owner.leave(0, ended=False)
    assert await owner.begin(0, 10, 1)


async def test_a_life_is_told_with_all_that_is_said_of_a_partition() -> None:
    line = line_to(IN_STEP)
    owner = await owner_of(line, 8)
    await owner.tell_step(0, "b", in_step=False)
    await owner.hand_over(0, 8, "b", Mark(1, 2))
    after = await owner_of(line, 9)
    await after.give_back(0, 10, Mark(1, 2))
    told = [decode_following(values[REPLICAS]) for _, values, _ in line.puts]
    assert [None if each is None else each.life for each in told] == [1] * 5

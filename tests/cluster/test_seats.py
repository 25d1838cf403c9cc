"""Who is alive, and whose each partition is."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.cluster.claims import HELD, Ownership
from crawler.cluster.reach import Reach
from crawler.cluster.seats import SPARE, Seated, Seats, share
from tests.cluster.members import Line
from tests.holdings import LosingHoldings
from tests.virtual import run_virtually


class Hall:
    """The seats of a crawl of four partitions; time is a number."""

    def __init__(self) -> None:
        self.now = 0.0
        self.holdings = LosingHoldings()

    def enter(self, name: str) -> Seats:
        reach = Reach(MemoryCarrier(self.holdings, lambda: self.now), lambda: self.now)
        ownership = Ownership(reach, name, lambda: self.now)
        return Seats(reach, ownership, 4, Seated(name, "here", 0), lambda: self.now)


@pytest.fixture
def hall() -> Hall:
    return Hall()


async def test_members_see_each_other_until_one_leaves_or_says_nothing_any_more(hall: Hall) -> None:
    first, second, third = hall.enter("a"), hall.enter("b"), hall.enter("c")
    for seats in (first, second, third):
        await seats.look()
    assert set(await first.look()) == {"a", "b", "c"}
    await second.leave()
    assert set(await first.look()) == {"a", "c"}
    hall.now += HELD - 1.0
    assert set(await first.look()) == {"a", "c"}
    hall.now += 1.0
    assert set(await first.look()) == {"a"}


async def test_a_seat_that_is_left_while_the_carrier_is_away_is_free_in_time(hall: Hall) -> None:
    line = Line(MemoryCarrier(hall.holdings, lambda: hall.now))
    reach = Reach(line, lambda: hall.now, lambda _: None)
    ownership = Ownership(reach, "a", lambda: hall.now)
    first = Seats(reach, ownership, 1, Seated("a", "there", 0), lambda: hall.now)
    assert set(await first.look()) == {"a"}
    seat = first.mine
    line.is_cut = True
    await first.leave()
    line.is_cut = False
    for _ in range(4):
        hall.now += HELD / 3
        await ownership.renew()
    assert await Ownership(reach, "b", lambda: hall.now).claim(str(seat), 0) is not None


async def test_a_carrier_that_forgets_the_seats_ends_nobody(hall: Hall) -> None:
    first, second = hall.enter("a"), hall.enter("b")
    for seats in (first, second, first):
        await seats.look()
    hall.holdings.forget()
    assert set(await first.look()) == {"a", "b"}
    await second.look()
    hall.now += HELD - 0.1
    assert set(await first.look()) == {"a", "b"}


async def test_who_finds_no_seat_has_no_partition_and_gets_the_next_free_one(hall: Hall) -> None:
    seated = [hall.enter(f"m{number}") for number in range(4 + SPARE)]
    for seats in seated:
        await seats.look()
    late = hall.enter("late")
    alive = await late.look()
    assert "late" not in alive
    assert share("late", alive, 4) == set()
    await seated[2].leave()
    assert "late" in await late.look()
    assert "next" not in await hall.enter("next").look(), "there is none left"


async def test_who_has_the_seeds_is_seated_where_as_many_as_partitions_were_there_first(hall: Hall) -> None:
    """They wait for it: none of them may begin the partition that reads the seeds."""
    for number in range(4):
        await hall.enter(f"m{number}").look()
    assert "late" in await hall.enter("late").look()


def shares(*alive: Seated) -> dict[str, set[int]]:
    by_name = {each.name: each for each in alive}
    return {name: share(name, by_name, 16) for name in by_name}


def test_all_partitions_are_shared_out_over_those_who_stay() -> None:
    a, b, c = (Seated(name, "here", 1, has_seeds=True) for name in "abc")
    found = shares(a, b, c)
    assert sorted(number for each in found.values() for number in each) == list(range(16))
    assert all(4 <= len(each) <= 7 for each in found.values())
    for gone in (replace(c, drains=True), replace(c, aside=True)):
        without = shares(a, b, gone)
        assert without["a"] | without["b"] | {0} == set(range(16))
        assert without["c"] <= {0}
        assert all(found[name] - {0} <= without[name] for name in "ab"), "nobody else loses any"
    assert shares(replace(a, drains=True), replace(b, aside=True))["b"] == set(range(16))
    alone = replace(a, drains=True), replace(b, drains=True)
    assert sum(len(each) for each in shares(*alone).values()) == 16


@pytest.mark.parametrize("name", "abcdefgh")
def test_the_partition_of_the_seeds_is_theirs_who_have_them(name: str) -> None:
    reader, other = Seated("reader", "here", 1, has_seeds=True), Seated(name, "here", 1)
    assert 0 in shares(other)[name]
    for each in (reader, replace(reader, aside=True)):  # nobody else can read the rest of them
        assert 0 in shares(each, other)["reader"]
        assert 0 not in shares(each, other)[name]
    assert 0 in shares(replace(reader, drains=True), other)[name]


def test_one_that_is_busy_for_long_says_that_it_is_there(hall: Hall) -> None:
    async def test() -> None:
        clock = asyncio.get_running_loop().time
        reach = Reach(MemoryCarrier(hall.holdings, clock), clock)
        busy, other = (
            Seats(reach, Ownership(reach, name, clock), 4, Seated(name, name, 0), clock) for name in ("busy", "other")
        )
        await busy.look()
        beating = asyncio.ensure_future(busy.keep())
        for _ in range(12):
            assert set(await other.look()) == {"busy", "other"}
            await asyncio.sleep(3.0)
        await busy.leave()
        assert set(await other.look()) == {"other"}
        await asyncio.sleep(3.0)
        assert set(await other.look()) == {"other"}
        beating.cancel()

    run_virtually(test())

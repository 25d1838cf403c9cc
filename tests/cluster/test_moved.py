"""Partitions that move from home to home, in virtual time: because a home joins, or because one leaves."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.carrier.verbs import Order, Position
from crawler.cluster.moves import SAFE, STUCK
from crawler.cluster.ownership import HELD
from crawler.cluster.replica_slots import REPLICAS
from crawler.cluster.seats import HOME
from crawler.engine.lifecycle import Stop
from crawler.job.partition.replica_homes import Following, decode_following
from crawler.job.partition.replica_values import STATE, decode_replica_state, encode_value
from tests.cluster.members import Crawling, Line, Working, where_of
from tests.cluster.test_following import GONE, told
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until


def assert_complete(crawl: Crawling) -> None:
    """Each page is in the output once, was asked for once, and no host was asked too early."""
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay


def longest_rest(crawl: Crawling, since: float) -> float:
    """The longest time between two requests, of which one leads to the other."""
    begins = sorted(each.begin for each in crawl.asked if each.begin > since)
    return max(after - before for before, after in itertools.pairwise(begins))


class SlowDisk(Line):
    """The way of a process whose disk takes long: what it says is safe is what was so before."""

    def __init__(self, crawl: Crawling) -> None:
        super().__init__(crawl.carrier)
        self.is_slow = False

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        is_of_replica = "r" in writer  # it says the same as a value
        return await super().append(stream, writer, epoch, [] if self.is_slow and is_of_replica else entries)

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        said = decode_replica_state(values.get(STATE))
        if self.is_slow and said is not None:
            values = {STATE: encode_value(replace(said, safe_number=0))}
        return await super().put(name, values, order)


def test_a_move_to_a_slow_disk_is_tried_less_and_less_often_and_told_once(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=160)
    crawl.line = lambda: SlowDisk(crawl)  # type: ignore[method-assign]

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        assert isinstance(b.line, SlowDisk)
        b.line.is_slow = True
        leave(crawl, "a")
        (number, *_), tries = a.member.runs, list[float]()
        while len(tries) < 4:
            await until(lambda: number in a.member.runs and a.member.runs[number].life.reason is not None)
            tries.append(crawl.clock())
            await until(lambda: number in a.member.runs and a.member.runs[number].life.reason is None)
        pauses = [after - before for before, after in itertools.pairwise(tries)]
        assert all(least <= pause < least + 2 * SAFE for pause, least in zip(pauses, (15.0, 25.0, 45.0), strict=True))
        assert len([line for line in a.said if f"partition {number} cannot move yet" in line]) == 1
        b.line.is_slow = False
        assert (await a.task).reason is Stop.INTERRUPTED
        assert homes_of(crawl) == {"b": [0, 1, 2, 3]}

    crawl.live(test)


def homes_of(crawl: Crawling) -> dict[str, list[int]]:
    found = crawl.directory.glob("*/partitions/[0-9][0-9]")
    homes: dict[str, list[int]] = {}
    for path in sorted(found):
        homes.setdefault(path.parent.parent.name, []).append(int(path.name))
    return homes


def test_a_home_that_joins_gets_its_share(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(first.member.runs) == crawl.partitions)
        joined = crawl.clock()
        second = crawl.begin("b", home="b")
        await until(lambda: len(second.member.runs) >= crawl.partitions // 2 - 1)
        assert crawl.clock() < joined + 60.0
        assert not first.member.runs.keys() & second.member.runs.keys()
        await to_the_end(first, second)
        assert longest_rest(crawl, joined) < 6.0 + crawl.settings.politeness.delay

    crawl.live(test)
    assert_complete(crawl)
    assert len(crawl.asked) == len(crawl.pages)


def test_a_home_that_leaves_in_order_worries_nobody(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=24)

    async def test(crawl: Crawling) -> None:
        stay = [crawl.begin(name, home=name) for name in "ab"]
        leaves = crawl.begin("c", home="c")
        await until(lambda: in_step(leaves, *stay))
        leaves.member.drain()
        await leaves.task
        await to_the_end(*stay)
        assert not [number for each in stay for number in told(each, GONE)], "there is a replica again in a moment"
        stayed, left = {where_of(tmp_path / name) for name in "ab"}, where_of(tmp_path / "c")
        said = [line.partition(" moved to ") for line in leaves.said if " moved to " in line]
        assert said
        assert {to for _, _, to in said} <= stayed
        arrived = {line for each in stay for line in each.said}
        assert {f"{number} moved here from {left}" for number, _, _ in said} <= arrived

    crawl.live(test)
    assert_complete(crawl)


class Slow(Line):
    """A way on which it takes long to tell that a partition has moved. Knows what was said of replicas."""

    def __init__(self, crawl: Crawling, said: dict[str, list[Following]]) -> None:
        super().__init__(crawl.carrier)
        self._said = said
        self._moved = set[str]()

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        if b" " in values.get(HOME, b"") and name not in self._moved:
            self._moved.add(name)
            await asyncio.sleep(2.0)
        following = decode_following(values.get(REPLICAS))
        if following is not None:
            self._said.setdefault(name, []).append(following)
        return await super().put(name, values, order)


def test_what_is_said_of_a_partition_that_is_handed_over_is_the_last_word_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, said = crawling(tmp_path, hosts=8, each=16), dict[str, list[Following]]()
    monkeypatch.setattr(crawl, "line", lambda: Slow(crawl, said))

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(first.member.runs) == crawl.partitions)
        second = crawl.begin("b", home="b")
        await until(lambda: len(second.member.runs) >= crawl.partitions // 2 - 1)

    crawl.live(test)
    pairs = [pair for each in said.values() for pair in itertools.pairwise(each)]
    handed = [(before, after) for before, after in pairs if before.mark != (0, 0)]
    assert handed
    assert all(after.mark == before.mark or after.epoch > before.epoch for before, after in handed)


@pytest.mark.parametrize("later", [0.0, 0.3, 0.6])
def test_a_process_that_drains_hands_over_and_the_crawl_ends_without_its_directory(
    tmp_path: Path, later: float
) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(later)
        left = crawl.clock()
        b.member.drain()
        assert (await b.task).reason is Stop.INTERRUPTED
        assert crawl.clock() < left + 15.0
        assert not list((tmp_path / "b" / "partitions").iterdir())
        await to_the_end(a)
        assert longest_rest(crawl, left) < 3.0 + 2 * crawl.settings.politeness.delay  # the gap before it, and after

    crawl.live(test)
    assert_complete(crawl)
    assert homes_of(crawl) == {"a": [0, 1, 2, 3]}


def test_a_process_that_drains_alone_stops_and_one_that_waits_for_copies_hands_all_over(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        alone = crawl.begin("a", home="a")
        await until(lambda: len(alone.member.runs) == crawl.partitions)
        alone.member.drain()
        assert (await alone.task).reason is Stop.INTERRUPTED
        assert homes_of(crawl) == {"a": [0, 1, 2, 3]}
        a = crawl.begin("a", home="a")
        await until(lambda: len(a.member.runs) == crawl.partitions)
        b = crawl.begin("b", home="b")
        await asyncio.sleep(1.5)
        (tmp_path / "a" / "drain").write_text(str(os.getpid()))
        assert (await a.task).reason is Stop.INTERRUPTED
        assert homes_of(crawl) == {"b": [0, 1, 2, 3]}
        await to_the_end(b)

    crawl.live(test)
    assert_complete(crawl)


def leave(crawl: Crawling, home: str) -> None:
    """As ``crawler work --drain`` asks."""
    (crawl.directory / home / "drain").write_text(str(os.getpid()))


def test_a_process_that_begins_to_drain_before_its_partitions_are_open_hands_them_over_too(tmp_path: Path) -> None:
    """Claims of the one that was killed there hold on for a while."""
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await b.kill()
        b = crawl.begin("b2", home="b")
        leave(crawl, "b")
        assert (await b.task).reason is Stop.INTERRUPTED
        assert homes_of(crawl) == {"a": [0, 1, 2, 3]}
        await to_the_end(a)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


def test_a_process_that_drains_waits_for_one_that_is_back_in_a_moment(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await a.kill()
        leave(crawl, "b")
        await asyncio.sleep(HELD + 6.0)
        a = crawl.begin("a2", home="a")
        assert (await b.task).reason is Stop.INTERRUPTED
        assert homes_of(crawl) == {"a": [0, 1, 2, 3]}
        await to_the_end(a)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


def test_a_process_that_drains_stays_until_the_replica_that_only_it_has_took_over(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await a.kill()
        shutil.rmtree(tmp_path / "a")
        c = crawl.begin("c", home="c")
        leave(crawl, "b")
        assert (await b.task).reason is Stop.INTERRUPTED
        assert homes_of(crawl) == {"c": [0, 1, 2, 3]}
        await to_the_end(c)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


def test_who_drains_alone_ends_after_a_while(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=40)

    async def test(crawl: Crawling) -> None:
        alone = crawl.begin("a", home="a")
        await until(lambda: len(alone.member.runs) == crawl.partitions)
        left = crawl.clock()
        leave(crawl, "a")
        assert (await alone.task).reason is Stop.INTERRUPTED
        assert left + STUCK <= crawl.clock() < left + STUCK + 10.0
        assert homes_of(crawl) == {"a": [0, 1, 2, 3]}

    crawl.live(test)


def test_all_that_drain_together_stop_where_they_are(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> list[Working]:
        members = list(begin_both(crawl))
        await until(lambda: in_step(*members))
        before = homes_of(crawl)
        for each in members:
            each.member.drain()
            await asyncio.sleep(0.3)
        assert {(await each.task).reason for each in members} == {Stop.INTERRUPTED}
        assert homes_of(crawl) == before
        members = list(begin_both(crawl))
        await to_the_end(*members)
        return members

    crawl.live(test)
    assert_complete(crawl)


def test_a_home_may_burn_in_the_moment_in_which_it_has_got_a_partition(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home="a")
        await until(lambda: len(first.member.runs) == crawl.partitions)
        second = crawl.begin("b", home="b")
        await until(lambda: bool(second.member.runs))
        await second.kill()
        shutil.rmtree(tmp_path / "b")
        await to_the_end(first)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay


class Interrupted(Line):
    """The way of a process that dies when it has said what is in step as it hands a partition over, and not more."""

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        done = await super().put(name, values, order)
        said = decode_following(values.get(REPLICAS))
        self.is_dead = self.is_cut = self.is_dead or (said is not None and said.mark != (0, 0))
        return done


def test_a_home_may_burn_while_it_hands_a_partition_over(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, hosts=8, each=16)
    crawl.line = lambda: Interrupted(crawl.carrier)  # type: ignore[method-assign]

    async def test(crawl: Crawling) -> None:
        first, second = begin_both(crawl)
        await until(lambda: in_step(first, second))
        first.member.drain()
        await until(lambda: first.line.is_dead)
        await first.kill()
        shutil.rmtree(tmp_path / "a")
        await to_the_end(second)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay

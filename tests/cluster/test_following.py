"""Replicas that cannot keep pace for a while, and copies that are broken off, in virtual time."""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.carrier.verbs import Entry, Order, Position
from crawler.base.disk import RealDisk
from crawler.base.kv import Batch
from crawler.base.settings import DurabilitySettings
from crawler.cluster.replica_slots import ReplicaSlots
from crawler.job import kept_steps
from crawler.job.checkpoint import Generations
from crawler.job.directory import SEEN
from crawler.job.job_copy import JobCopy
from crawler.job.partition.replica_homes import decode_following
from crawler.job.partition.replica_values import Being
from crawler.job.step_log import StepLog
from tests.cluster.members import Crawling, Line, Mortal, Working, chain
from tests.cluster.test_replicas import (
    Watched,
    begin_both,
    check,
    inodes,
    lags,
    to_the_end,
    until,
    watch,
)

PARTITIONS = 2
GONE, BACK = "no replica in step", "a replica again"


def crawling(directory: Path, each: int, seconds: float = 0.2) -> Crawling:
    """``seconds``: of a response."""
    pages = chain(4, each)
    return Crawling(directory, pages, PARTITIONS, (next(iter(pages)),), seconds=seconds, replicas=1)


def in_step(*members: Working) -> bool:
    """Whether all replicas of all partitions are."""
    each = [lag for member in members for lag in lags(member)]
    return len(each) == PARTITIONS and all(lag.in_step for lag in each)


def told(member: Working, what: str) -> list[int]:
    """Of which partitions the user was told that."""
    lines = [line.split(" ha")[0] for line in member.said if what in line]
    return sorted(int(number) for line in lines for number in re.findall(r"\d+", line))


def is_replica(stream: str) -> bool:
    return "r" in stream


class Store:
    """A store whose disk can be full."""

    def __init__(self, store: Mortal, full: Collection[bool]) -> None:
        self._store = store
        self._full = full

    def write(self, batch: Batch) -> None:
        if self._full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._store.write(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_replica_without_space_waits_and_hinders_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl, full = crawling(tmp_path, each=20, seconds=1.0), list[bool]()
    open_store = crawl.open_store

    def opened(path: Path, line: Line) -> Any:
        return Store(open_store(path, line), full if (tmp_path / "b" / "replicas") in path.parents else ())

    monkeypatch.setattr(crawl, "open_store", opened)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        before = inodes(tmp_path)
        full.append(True)
        await until(lambda: any(GONE in line for line in a.said))
        asked = len(crawl.asked)
        await asyncio.sleep(10.0)
        assert len(crawl.asked) > asked + 5
        assert not any(lag.in_step for lag in lags(a))
        assert all(lag.in_step for lag in lags(b))
        full.clear()
        await until(lambda: in_step(a, b) and len(told(a, BACK)) > 0)
        assert inodes(tmp_path) == before, "they went on where they were"
        assert told(a, GONE) == told(a, BACK) == sorted(a.member.runs)
        assert sorted(b.said) == sorted(set(b.said))
        assert len(b.said) == len(lags(a))
        await to_the_end(a, b)

    crawl.live(test)
    check(crawl)


def covered(directory: Path) -> dict[Path, int]:
    """How much of its journal the newest generation of each replica covers."""
    found = {}
    for path in directory.glob("*/replicas/[0-9][0-9]"):
        generations = Generations(path / SEEN, 1, RealDisk())
        numbers = generations.numbers()
        found[path] = generations.read_manifest(numbers[0]).sequence if numbers else 0
    return found


def have_newer(directory: Path, before: Mapping[Path, int]) -> bool:
    return all(now > before[path] for path, now in covered(directory).items())


def test_replicas_have_generations_of_their_own(tmp_path: Path) -> None:
    """As often as partitions have."""
    crawl = crawling(tmp_path, each=12)
    crawl.settings = replace(crawl.settings, durability=DurabilitySettings(checkpoint_interval=4.0))

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        before = covered(tmp_path)
        assert len(before) == PARTITIONS
        for _ in range(2):
            await until(partial(have_newer, tmp_path, before), 12.0)
            before = covered(tmp_path)
        await to_the_end(a, b)
        assert not a.said
        assert not b.said

    crawl.live(test)
    check(crawl)


def test_a_crawl_ends_although_a_replica_has_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl, full = crawling(tmp_path, each=8), list[bool]()
    open_store = crawl.open_store

    def opened(path: Path, line: Line) -> Any:
        return Store(open_store(path, line), full if (tmp_path / "b" / "replicas") in path.parents else ())

    monkeypatch.setattr(crawl, "open_store", opened)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        full.append(True)
        async with asyncio.timeout(600.0):
            await to_the_end(a, b)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


def test_an_owner_that_is_cut_off_leaves_nobody_behind(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def promised(owner: Working) -> bool:
        values = await crawl.carrier.get([f"p{number}" for number in owner.member.runs], "replicas")
        return all("b" in following.in_step for value in values if (following := decode_following(value)))

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        a.line.is_cut = True
        await asyncio.sleep(9.5)
        a.line.is_cut = False
        for _ in range(100):
            await asyncio.sleep(0.05)
            assert await promised(a)
        await to_the_end(a, b)
        assert not any(GONE in line for line in a.said)

    crawl.live(test)
    check(crawl)


class Paced(Line):
    """Reads one entry of each replica's stream at a time, if it is ``slow``."""

    slow = False

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        if self.slow and all(map(is_replica, after)):
            await asyncio.sleep(0.5)
            return await super().read(after, 1, wait)
        return await super().read(after, most, wait)


@pytest.mark.parametrize("broken_by", ["follower", "owner", "carrier"])
def test_a_copy_that_is_broken_off_ends_in_a_whole_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_by: str
) -> None:
    crawl = crawling(tmp_path, each=20, seconds=1.0)
    monkeypatch.setattr(crawl, "line", lambda: Paced(crawl.carrier))
    of_many_pieces = partial(JobCopy, size=8_000)
    monkeypatch.setattr("crawler.cluster.copy_sending.JobCopy", of_many_pieces)

    async def test(crawl: Crawling) -> None:
        a = crawl.begin("a", home="a")
        await until(lambda: len(crawl.asked) > 10)
        b = crawl.begin("b", home="b")
        assert isinstance(b.line, Paced)
        b.line.slow = True
        await until(lambda: any(lag.state == Being.COPYING for lag in lags(a)))
        await asyncio.sleep(3.0)
        assert list((tmp_path / "b" / "replicas").glob("*.new/*"))
        assert not list((tmp_path / "b" / "replicas").glob("[0-9][0-9]"))
        if broken_by == "follower":
            await b.kill()
            b = crawl.begin("b", home="b")
        elif broken_by == "owner":
            await a.kill()
            await asyncio.sleep(5.0)
            a = crawl.begin("a", home="a")
        else:
            crawl.holdings.forget()
        assert isinstance(b.line, Paced)
        b.line.slow = False
        await until(lambda: in_step(a, b))
        await to_the_end(a, b)
        if broken_by == "follower":
            assert any("will be retried: its worker restarted" in line for line in a.said)

    crawl.live(test)
    check(crawl)
    assert not list(tmp_path.glob("*/replicas/*.*"))


def test_a_replica_that_is_slower_than_the_log_is_kept_is_copied_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawling(tmp_path, each=12)
    monkeypatch.setattr(crawl, "line", lambda: Late(crawl, {}, []))
    monkeypatch.setattr(StepLog.__init__, "__defaults__", (0, 4_000))
    monkeypatch.setattr(kept_steps.StepRoom, "is_full", True)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        before, began = inodes(tmp_path), crawl.clock()
        assert isinstance(b.line, Late)
        b.line.seconds = 8.0
        await until(lambda: bool(told(a, GONE)))
        assert crawl.clock() < began + 25.0, "not because it lacked something for long"
        b.line.seconds = 0.0
        await until(lambda: in_step(a, b) and set(told(a, GONE)) == set(told(a, BACK)))
        changed = {int(path.name) for path, inode in inodes(tmp_path).items() if before[path] != inode}
        assert changed
        assert set(told(a, GONE)) >= changed
        await to_the_end(a, b)

    crawl.live(test)
    check(crawl)


class Late(Watched):
    """Gets what is for its replicas late, and may say nothing of them."""

    seconds = 0.0
    is_mute = False

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        await asyncio.sleep(self.seconds if all(map(is_replica, after)) else 0.0)
        return await super().read(after, most, wait)

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        if self.is_mute and is_replica(writer):
            entries = []
        return await super().append(stream, writer, epoch, entries)

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        return (self.is_mute and is_replica(name)) or await super().put(name, values, order)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_replica_of_which_nothing_is_heard_is_left_behind_before_others_rely_on_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    crawl = crawling(tmp_path, each=10)
    unbacked = watch(crawl, monkeypatch, Late)
    if not in_order:

        async def tell_late(slots: ReplicaSlots, number: int, home: str, *, in_step: bool) -> None:
            if in_step:
                await tell_step(slots, number, home, in_step=True)
            else:
                asyncio.get_running_loop().call_later(
                    5.0, lambda: asyncio.ensure_future(tell_step(slots, number, home, in_step=False))
                )

        tell_step = ReplicaSlots.tell_step
        monkeypatch.setattr(ReplicaSlots, "tell_step", tell_late)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        assert isinstance(b.line, Late)
        b.line.is_mute, b.line.seconds = True, 60.0
        began = crawl.clock()
        await until(lambda: len(told(a, GONE)) == len(a.member.runs))
        assert crawl.clock() > began + 9.0
        await asyncio.sleep(10.0)
        if not in_order:
            return
        # What others rely on is on the disk of one machine, which burns.
        had = set(a.member.runs)
        await a.kill()
        shutil.rmtree(tmp_path / "a")
        await asyncio.sleep(60.0)
        assert not had & set(b.member.runs)
        assert not b.task.done()
        assert len([line for line in b.said if "--forget-partition" in line]) == 1

    crawl.live(test)
    assert (unbacked == []) is in_order


def test_how_far_a_replica_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawling(tmp_path, each=10)
    monkeypatch.setattr(crawl, "line", lambda: Late(crawl, {}, []))

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        assert not lags(a)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(3.0)
        assert {lag.home for lag in lags(a)} == {"b"}
        assert {(lag.state, lag.in_step) for lag in lags(a)} == {(Being.WHOLE, True)}
        assert all(lag.seconds < 2.0 and lag.steps < 30 for lag in lags(a))
        assert isinstance(b.line, Late)
        b.line.seconds = 20.0
        worst = 0.0
        for _ in range(30):
            await asyncio.sleep(0.5)
            for lag in lags(a):
                assert lag.steps > 0 or lag.seconds == 0.0
                worst = max(worst, lag.seconds)
        assert 10.0 < worst < 17.0
        b.line.seconds = 0.0
        await to_the_end(a, b)

    crawl.live(test)
    check(crawl)

"""Partitions with two replicas, in virtual time: two machines burn, at once or one after the other, and nothing is
lost. A replica that lacks steps of the one that became the partition goes on where it is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from crawler.base.carrier.verbs import Position
from crawler.job.partition.replica_homes import decode_following
from crawler.job.partition.replica_values import STATE, decode_replica_state, replica_name
from tests.cluster.members import Crawling, Line, Working, chain
from tests.cluster.test_promoted import assert_complete
from tests.cluster.test_replicas import lags, to_the_end, until

PARTITIONS = 4
BURNT = 2.0  # seconds of a crawl with all its replicas before a machine burns


class Losing(Line):
    """The way of a process whose entries for one slot of its partitions do not come there."""

    slot: int | None = None

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        lost = self.slot is not None and stream.endswith(f"r{self.slot}")
        return await super().append(stream, writer, epoch, [] if lost else entries)


def crawling(directory: Path, monkeypatch: pytest.MonkeyPatch, hosts: int = 12, each: int = 5) -> Crawling:
    pages = chain(hosts, each)
    crawl = Crawling(directory, pages, PARTITIONS, (next(iter(pages)),), replicas=2)
    monkeypatch.setattr(crawl, "line", lambda: Losing(crawl.carrier))
    return crawl


def begin(crawl: Crawling, names: str) -> dict[str, Working]:
    return {name: crawl.begin(name, expected=len(names), home=name) for name in names}


def covered(members: dict[str, Working]) -> bool:
    """Whether each partition has both replicas in step."""
    each = [lag for member in members.values() for lag in lags(member)]
    return len(each) == 2 * PARTITIONS and all(lag.in_step for lag in each)


async def burn(crawl: Crawling, members: dict[str, Working], name: str) -> None:
    await members.pop(name).kill()
    shutil.rmtree(crawl.directory / name)


def owner(members: dict[str, Working]) -> str:
    """Who works at the most pages now."""
    return max(members, key=lambda name: len(members[name].member.runs))


def home_of(members: dict[str, Working], number: int) -> str | None:
    """Where a partition is open."""
    return next((name for name, each in members.items() if number in each.member.runs), None)


async def told(crawl: Crawling, number: int) -> list[str]:
    """The homes of a partition's replicas that are in step, as all see it."""
    (value,) = await crawl.carrier.get([f"p{number}"], "replicas")
    following = decode_following(value)
    return [] if following is None else following.in_step


async def steps(crawl: Crawling, number: int) -> dict[str, int]:
    """The last step of each replica of a partition."""
    values = await crawl.carrier.get([replica_name(number, slot) for slot in range(2)], STATE)
    said = [each for each in map(decode_replica_state, values) if each is not None]
    return {each.home: each.number for each in said}


def replica(crawl: Crawling, home: str, number: int) -> Path:
    return crawl.directory / home / "replicas" / f"{number:02}"


def test_two_machines_burn_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawling(tmp_path, monkeypatch)

    async def test(crawl: Crawling) -> None:
        members = begin(crawl, "abc")
        await until(lambda: covered(members))
        await asyncio.sleep(BURNT)
        first = owner(members)
        number = min(members[first].member.runs)
        second = (await told(crawl, number))[0]
        had = {*members[first].member.runs, *members[second].member.runs}
        await asyncio.gather(burn(crawl, members, first), burn(crawl, members, second))
        burnt = crawl.clock()
        await until(lambda: all(home_of(members, each) for each in had))
        assert crawl.clock() < burnt + 15.0, "the life of a claim, and 5 seconds"
        await to_the_end(*members.values())

    crawl.live(test)
    assert_complete(crawl, lost=2)


@pytest.mark.parametrize("behind", [0, 1])
def test_one_machine_burns_and_another_one_as_soon_as_it_has_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """``behind``: the slot whose replicas lack what was written in the last second."""
    crawl = crawling(tmp_path, monkeypatch)

    async def test(crawl: Crawling) -> None:
        members = begin(crawl, "abc")
        await until(lambda: covered(members))
        await asyncio.sleep(BURNT)
        first = owner(members)
        line, had = members[first].line, set(members[first].member.runs)
        assert isinstance(line, Losing)
        line.slot = behind
        await asyncio.sleep(1.5)  # after 2 seconds all is sent again
        await burn(crawl, members, first)
        await asyncio.sleep(2.0)  # they have said what they have
        both = {number: await steps(crawl, number) for number in had}
        lacking = {
            number: min(has, key=lambda name: has[name]) for number, has in both.items() if len({*has.values()}) > 1
        }
        assert lacking
        inodes = {number: replica(crawl, home, number).stat().st_ino for number, home in lacking.items()}
        await until(lambda: any(home_of(members, number) for number in had))
        took = {number: home for number in had if (home := home_of(members, number)) is not None}
        for number, home in took.items():
            if number in lacking:
                assert home != lacking[number], "the replica goes on that has most"
        for _ in range(20):
            await asyncio.sleep(0.05)
            for number, home in took.items():
                assert set(await told(crawl, number)) - {home}, "another machine could go on all the time"
        for number, home in lacking.items():
            if number in took:
                assert replica(crawl, home, number).stat().st_ino == inodes[number], "it was not copied again"
        await burn(crawl, members, next(iter(took.values())))
        await to_the_end(*members.values())

    crawl.live(test)
    assert_complete(crawl, lost=2)

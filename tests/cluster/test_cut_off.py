"""A process that is cut off from the web, and not from the others, in virtual time: these go on with its partitions
until it can fetch again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.cluster.seats import Seated
from crawler.cluster.step_aside import StepAside
from crawler.web.fetch import Failure, FailureKind, Response
from tests.cluster.members import SETTINGS, Asked, Crawling, Line, Working, with_delay
from tests.cluster.test_members import assert_complete, to_the_end, until
from tests.simulated_web import Answers, SimulatedWeb

PARTITIONS = 4

NO_WAY = Failure(FailureKind.UNREACHABLE, "Network is unreachable", 0.0, local=True)


class Way(SimulatedWeb):
    """The way of one process to the web: nothing is reached while ``is_cut``. ``requests`` are those that it made."""

    is_cut = False
    requests = 0

    async def fetch(self, href: str, **how: Any) -> Response | Failure:
        if self.is_cut:
            await asyncio.sleep(0.5)
            return NO_WAY
        answer = await super().fetch(href, **how)
        self.requests += 1
        return NO_WAY if self.is_cut else answer


class OnWays(Crawling):
    """A crawl of processes that have ways of their own, in the order in which they began."""

    def web(self, line: Line) -> Way:
        async def before(href: str) -> None:
            asked = Asked(href, self.clock())
            self.asked.append(asked)
            await asyncio.sleep(self.seconds)
            asked.end = self.clock()

        self.ways = [*getattr(self, "ways", []), Way(self.pages, before, dial=self.dial)]
        return self.ways[-1]


def crawling(directory: Path, each: int) -> OnWays:
    """Each of 12 hosts has a chain of its own, so all partitions have something to ask for."""
    pages: dict[str, Answers] = {
        f"http://h{host}.test/{number}": f'<a href="/{number + 1}">' if number + 1 < each else "the last one"
        for number in range(each)
        for host in range(12)
    }
    settings = with_delay(SETTINGS, 4.0)
    return OnWays(directory, pages, PARTITIONS, tuple(list(pages)[:12]), settings)


async def both(crawl: OnWays) -> tuple[Working, Working]:
    members = crawl.begin("a", expected=2), crawl.begin("b", expected=2)
    await until(lambda: sum(len(each.member.runs) for each in members) == PARTITIONS and len(crawl.asked) > 20)
    return members


def test_what_is_there_goes_on_elsewhere_and_comes_back(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, 40)

    async def test(crawl: OnWays) -> None:
        a, b = members = await both(crawl)
        kept = len(b.member.runs)
        crawl.ways[1].is_cut = True
        cut = crawl.clock()
        await until(lambda: set(b.member.runs) <= {0} and len({*a.member.runs, *b.member.runs}) == PARTITIONS)
        assert 30.0 < crawl.clock() - cut < 60.0
        requests, known = crawl.ways[1].requests, len(crawl.asked)
        await until(lambda: len(crawl.asked) > known + 60)
        assert crawl.ways[1].requests == requests, "to reach a host is no request"
        crawl.ways[1].is_cut = False
        back = crawl.clock()
        await until(lambda: len(b.member.runs) == kept)
        assert crawl.clock() - back < 90.0
        assert not a.member.runs.keys() & b.member.runs.keys()
        await to_the_end(*members)

    crawl.live(test)  # type: ignore[arg-type]
    assert_complete(crawl)


def test_if_all_are_cut_off_nothing_moves(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, 14)

    async def test(crawl: OnWays) -> None:
        members = await both(crawl)
        before = [sorted(each.member.runs) for each in members]
        for way in crawl.ways:
            way.is_cut = True
            await asyncio.sleep(3.0)
        await asyncio.sleep(60.0)
        assert [sorted(each.member.runs) for each in members] == before
        for way in crawl.ways:
            way.is_cut = False
        await to_the_end(*members)

    crawl.live(test)  # type: ignore[arg-type]
    assert_complete(crawl)


def felt(*steps: tuple[float, float]) -> list[float]:
    """When a process steps aside or comes back. Each step: the time from which it knows that no host answers, and until
    which."""
    now = 0.0
    aside = StepAside("me", lambda: now)
    others = {"other": Seated("other", "here", 1)}
    changes = []
    for begin, end in steps:
        while now < end:
            now += 1.0
            before = aside.since is None
            aside.look(max(0.0, now - begin), others)
            if (aside.since is None) is not before:
                changes.append(now)
    while aside.since is not None:
        now += 1.0
        aside.look(0.0, others)
    return [*changes, now]


def test_who_reaches_hosts_that_do_not_answer_takes_part_less_and_less() -> None:
    assert felt((10.0, 35.0)) == [35.0], "that was short"
    assert felt((10.0, 100.0)) == [40.0, 101.0]
    again = felt((0.0, 40.0), (50.0, 90.0), (200.0, 240.0), (500.0, 540.0))
    assert again == [30.0, 41.0, 80.0, 140.0, 230.0, 350.0, 530.0, 770.0]
    assert felt((0.0, 40.0), (50.0, 90.0), (9_000.0, 9_040.0))[-2:] == [9_030.0, 9_041.0]


@pytest.mark.parametrize("other", [{"drains": True}, {"aside": True}, {"unanswered": True}, {"name": "me"}])
def test_who_has_nobody_to_give_partitions_to_keeps_them(other: dict[str, Any]) -> None:
    aside = StepAside("me", lambda: 0.0)
    seated = replace(Seated("other", "here", 1), **other)
    assert aside.look(60.0, {seated.name: seated}) is None
    assert aside.since is None

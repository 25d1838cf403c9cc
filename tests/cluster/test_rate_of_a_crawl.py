"""The rate of a whole crawl: its members together make no more requests, also while they come, go and die."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from tests.cluster.members import SETTINGS, Crawling, with_delay
from tests.cluster.test_members import to_the_end, until_asked
from tests.simulated_web import Answer

RATE = 20.0


def most_in(times: list[float], seconds: float) -> int:
    """The most requests in any span of so many seconds."""
    times = sorted(times)
    most = first = 0
    for last, time in enumerate(times):
        while times[first] <= time - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def permitted(rate: float, seconds: float, processes: int) -> float:
    """The most requests that may begin in so many seconds: of each process, one may have waited for a while."""
    return rate * (seconds + 0.1) + processes + 1


def with_rate(rate: float | None, delay: float = 0.0) -> Settings:
    settings = with_delay(SETTINGS, delay)
    return replace(settings, politeness=replace(settings.politeness, rate=rate, per_host=8))


def web(hosts: int, each: int) -> dict[str, Answer]:
    """Hosts whose first pages link to all of their pages, and to the first page of the next host."""
    pages: dict[str, Answer] = {}
    for host in range(hosts):
        links = [f"http://h{host}.test/{page}" for page in range(each)] + [f"http://h{(host + 1) % hosts}.test/0"]
        pages[f"http://h{host}.test/0"] = "".join(f'<a href="{href}">x</a>' for href in links)
        pages.update({f"http://h{host}.test/{page}": "a page" for page in range(1, each)})
    return pages


@pytest.mark.parametrize("members", [1, 3])
def test_one_host_gets_all_of_the_rate_although_others_have_nothing_to_do(tmp_path: Path, members: int) -> None:
    crawling = Crawling(tmp_path, web(1, 300), seeds=("http://h0.test/0",), settings=with_rate(RATE))

    async def test(crawling: Crawling) -> None:
        await to_the_end(*[crawling.begin(f"m{number}", expected=members) for number in range(members)])

    crawling.live(test)
    times = [asked.begin for asked in crawling.asked]
    assert len(times) == 300
    for seconds in (0.5, 1.0, 5.0, 20.0):
        assert most_in(times, seconds) <= permitted(RATE, seconds, members)
    times.sort()
    # From when it has what the others had.
    took = times[-1] - times[50]
    assert len(times[50:]) / took >= 0.9 * RATE


@pytest.mark.parametrize("seed", range(2))
def test_the_rate_holds_while_members_die_and_the_carrier_forgets(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    crawling = Crawling(tmp_path, web(8, 30), seeds=("http://h0.test/0",), settings=with_rate(RATE))

    async def test(crawling: Crawling) -> None:
        working = [crawling.begin(f"m{number}", expected=3) for number in range(3)]
        for round_ in range(5):
            await until_asked(crawling, 40 * (round_ + 1))
            victim, what = chance.randrange(3), chance.random()
            if working[victim].task.done():
                continue
            if what < 0.3:
                crawling.holdings.forget()
            elif what < 0.6:
                await working[victim].kill()
                working[victim] = crawling.begin(f"n{round_}")
            elif what < 0.8:
                await working[victim].stop()
                working[victim] = crawling.begin(f"n{round_}")
            else:
                working[victim].line.is_cut = True
                await asyncio.sleep(chance.choice([2.0, 8.0]))
                working[victim].line.is_cut = False
        await to_the_end(*working)

    crawling.live(test)
    times = [asked.begin for asked in crawling.asked]
    assert set(crawling.recorded()) == set(crawling.pages)
    for seconds in (0.5, 1.0, 5.0, 20.0):
        assert most_in(times, seconds) <= permitted(RATE, seconds, 3)


def test_the_rate_may_change_and_end(tmp_path: Path) -> None:
    crawling = Crawling(tmp_path, web(1, 300), seeds=("http://h0.test/0",), settings=with_rate(RATE))
    changed: list[int] = []

    async def test(crawling: Crawling) -> None:
        working = [crawling.begin(f"m{number}", expected=2) for number in range(2)]
        for rate, pages in ((5.0, 100), (None, 150)):
            await until_asked(crawling, pages)
            changed.append(len(crawling.asked))
            for each in working:
                each.member.change(with_rate(rate))
        await to_the_end(*working)

    crawling.live(test)
    times = [asked.begin for asked in crawling.asked]
    slow = times[changed[0] : changed[1]]
    assert most_in(slow[10:], 5.0) <= permitted(5.0, 5.0, 2)
    assert times[-1] - times[changed[1]] < 30.0, "there is no limit any more"

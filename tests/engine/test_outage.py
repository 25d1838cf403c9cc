"""Our own line is down for a while, in whole crawls in virtual time: no host is blamed and no URL is lost."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import shutil
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.frontier.host import NO_FAILURES, decode_host
from crawler.job.job import Job
from crawler.web.fetch import Failure, FailureKind
from tests.laboratory import SETTINGS, START, Laboratory, links
from tests.simulated_web import Answer

UNREACHABLE = Failure(FailureKind.UNREACHABLE, "Network is unreachable", 0.0)
MINUTES = 600.0  # a second of virtual time costs some milliseconds: most outages here are shorter


class Web(dict[str, Answer]):
    """Pages behind a line that is down for a while. ``down`` is what every request then gets, but those to ``near``
    hosts."""

    down: Answer | None = None
    near: tuple[str, ...] = ()

    def get(self, href: str, default: Any = None) -> Any:
        cut = self.down is not None and href.split("/")[2] not in self.near
        return self.down if cut else super().get(href, default)


def sites(count: int, pages: int) -> Web:
    """That many hosts, the front page of each with links to its other pages."""
    web = Web()
    for host in names(count):
        own = [f"http://{host}/{number}" for number in range(pages)]
        web |= {f"http://{host}/": links(own), **dict.fromkeys(own, "<p>here")}
    return web


def names(count: int) -> list[str]:
    return [f"h{number}.test" for number in range(count)]


def seeds(count: int) -> list[str]:
    return [f"http://{name}/" for name in names(count)]


def outage(web: Web, begin: float, end: float, answer: Answer = UNREACHABLE) -> Any:
    async def during(run: Run, job: Job) -> None:
        await asyncio.sleep(begin)
        web.down = answer
        await asyncio.sleep(end - begin)
        web.down = None

    return during


def not_blamed(laboratory: Laboratory, hosts: list[str]) -> None:
    for name in hosts:
        host = decode_host(name, laboratory.store.get(Family.HOSTS, f"{name}:80".encode()) or b"")
        assert host.failures == NO_FAILURES
        assert host.tally.failed == 0
        assert host.tally.errors is None


def test_ten_minutes_without_our_line_cost_nothing(tmp_path: Path) -> None:
    web = sites(50, 12)
    settings = replace(SETTINGS, crawl=replace(SETTINGS.crawl, concurrency=64))
    laboratory = Laboratory(tmp_path / "job", web, settings)
    assert laboratory.run(*seeds(50), during=outage(web, 6, 6 + MINUTES)) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.records()) == {"fetched": 50 * 13}
    not_blamed(laboratory, names(50))
    asked = [each for each in laboratory.asked if START + 8 <= each.begin < START + 606]
    assert 10 < len(asked) < 50, "hosts are asked one after the other, with longer and longer pauses"
    assert laboratory.now - START < 6 + MINUTES + 60, "the crawl goes on soon after"


@pytest.mark.parametrize(
    ("failure", "ignore_robots"),
    [
        (Failure(FailureKind.HEADERS_TIMEOUT, "no byte for 20 s", 20.0), True),
        (Failure(FailureKind.DNS, "name not found", 0.0), False),
    ],
    ids=["headers", "dns"],
)
def test_every_way_to_get_no_response_counts(tmp_path: Path, failure: Failure, ignore_robots: bool) -> None:
    web = sites(10, 5)
    settings = replace(SETTINGS, robots=RobotsSettings(ignore=ignore_robots))
    laboratory = Laboratory(tmp_path / "job", web, settings)
    assert laboratory.run(*seeds(10), during=outage(web, 5, 80, failure)) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.records()) == {"fetched": 60}
    not_blamed(laboratory, names(10))


def test_a_crash_in_an_outage_blames_nobody(tmp_path: Path) -> None:
    """The process dies in the outage, and the next one begins in it."""
    web = sites(12, 10)
    laboratory = Laboratory(tmp_path / "job", web)

    left: list[Laboratory] = []

    async def die(run: Run, job: Job) -> None:
        """What is on disk at these moments is what a process leaves that dies then."""
        await asyncio.sleep(5)
        web.down = UNREACHABLE
        for number, seconds in enumerate((0.3, 1.0, 30.0)):
            await asyncio.sleep(seconds)
            copy = tmp_path / str(number)
            shutil.copytree(laboratory.directory, copy, ignore=shutil.ignore_patterns("lock"))
            left.append(dataclasses.replace(laboratory, directory=copy, store=deepcopy(laboratory.store), asked=[]))

    laboratory.run(*seeds(12), during=die, max_time=40)
    for each in left:
        assert each.run(*seeds(12), during=outage(web, 0, 50)) is Stop.FINISHED
        assert Counter(record["outcome"] for record in each.records()) == {"fetched": 12 * 11}
        assert all("visit" not in record for record in each.records())
        assert len([asked for asked in each.asked if asked.begin - START < 50]) < 30
        not_blamed(each, names(12))


@pytest.mark.parametrize(("count", "from_the_start"), [(1, True), (3, False)])
def test_few_hosts_are_not_blamed_if_this_machine_knows_no_way(
    tmp_path: Path, count: int, from_the_start: bool
) -> None:
    web = sites(count, 10)
    laboratory = Laboratory(tmp_path / "job", web)
    local = replace(UNREACHABLE, local=True)
    during = outage(web, 0.0 if from_the_start else 5.0, 60, local)
    assert laboratory.run(*seeds(count), during=during) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.records()) == {"fetched": count * 11}
    not_blamed(laboratory, names(count))


def test_max_time_ends_a_crawl_in_an_outage(tmp_path: Path) -> None:
    web = sites(10, 30)
    laboratory = Laboratory(tmp_path / "job", web)
    assert laboratory.run(*seeds(10), during=outage(web, 5, 1e6), max_time=300) is Stop.MAX_TIME
    assert laboratory.now == pytest.approx(START + 300, abs=6)
    assert {record["outcome"] for record in laboratory.records()} == {"fetched"}


# -- what is no outage ---------------------------------------------------------------------------------------------


def test_dead_hosts_among_many_are_given_up_as_ever(tmp_path: Path) -> None:
    """The hosts that die are blamed from their first failure on: their back-off, snoozes and retirement are those of a
    host that fails while no other could tell."""
    web = sites(20, 20)
    laboratory = Laboratory(tmp_path / "job", web)
    dead = {f"http://h{number}.test/{page}": UNREACHABLE for number in range(5) for page in range(3, 20)}
    web.update(dead)
    assert laboratory.run(*seeds(20)) is Stop.FINISHED
    for number in range(5):
        times = [asked.begin for asked in laboratory.requests_to(f"h{number}.test")]
        waits = [later - sooner for sooner, later in itertools.pairwise(times)][-7:]
        for wait, least in zip(waits, [5, 10, 20, 40, 60, 120, 240], strict=True):
            assert least <= wait <= least * 1.1 + 2
    assert Counter(record["outcome"] for record in laboratory.of("h0.test")) == {"fetched": 4, "failed": 17}
    assert not [asked for asked in laboratory.asked if asked.href.endswith("robots.txt")], "nobody was probed"

"""Our own line is down for a while, in whole crawls in virtual time: no host is blamed and no URL is lost."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import shutil
from collections import Counter
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings import RobotsSettings
from crawler.engine.lifecycle import PausedBy, State, Stop
from crawler.engine.run import Run
from crawler.frontier import decode_host
from crawler.frontier.host import NO_FAILURES
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.metrics import Events
from crawler.service.commands import Command, Refusal, Refused, performing
from crawler.url.urls import canonicalise
from crawler.web.fetch import Failure, FailureKind
from crawler.web.fetch.simulated import Answer
from tests.laboratory import SETTINGS, START, Laboratory, links

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
        (Failure(FailureKind.CONNECT_TIMEOUT, "no connection within 10 s", 10.0), False),
        (Failure(FailureKind.HEADERS_TIMEOUT, "no byte for 20 s", 20.0), True),
        (Failure(FailureKind.DNS, "name not found", 0.0), False),
        (Failure(FailureKind.REFUSED, "connection refused", 0.0), True),
        (Failure(FailureKind.CUT_OFF, "connection closed before the response", 0.0), False),
    ],
    ids=["connect", "headers", "dns", "refused", "cut-off"],
)
def test_every_way_to_get_no_response_counts(tmp_path: Path, failure: Failure, ignore_robots: bool) -> None:
    web = sites(10, 5)
    settings = replace(SETTINGS, robots=RobotsSettings(ignore=ignore_robots))
    laboratory = Laboratory(tmp_path / "job", web, settings)
    assert laboratory.run(*seeds(10), during=outage(web, 5, 80, failure)) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.records()) == {"fetched": 60}
    not_blamed(laboratory, names(10))


def test_an_outage_is_shown_while_it_lasts(tmp_path: Path) -> None:
    web = sites(10, 30)
    laboratory = Laboratory(tmp_path / "job", web)
    seen: list[dict[str, Any]] = []

    async def look(run: Run, job: Job) -> None:
        for seconds, line in ((4, UNREACHABLE), (60, None), (15, None)):
            await asyncio.sleep(seconds)
            seen.append(run.stats())
            web.down = line
        seen.append({"events": job.events.after(0)})

    assert laboratory.run(*seeds(10), during=look) is Stop.FINISHED
    before, inside, after, told = seen
    assert (before["state"], before["outage"]["now"], before["paused"]) == ("running", False, None)
    assert inside["state"] == "paused"
    assert inside["paused"].startswith("outage: no host answers since 2023-11-14 22:13:2")
    assert inside["paused"].endswith("(unreachable: Network is unreachable)")
    assert inside["outage"]["now"]
    assert inside["outage"]["count"] == 1
    assert inside["outage"]["hosts"] == 10
    assert 3 < inside["outage"]["probes"] < 10
    assert 50 < inside["outage"]["seconds"] <= 60
    assert after["paused"] is None
    assert (after["outage"]["now"], after["outage"]["hosts"]) == (False, 0)
    texts = [event["text"] for event in told["events"]]
    assert [text for text in texts if "outage" in text] == [
        "outage: no host answers (10 hosts; unreachable: Network is unreachable)",
        *[text for text in texts if text.startswith("the outage of ")],
    ]


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


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("from_the_start", [True, False])
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


def test_one_host_without_a_route_is_to_blame_if_others_answer(tmp_path: Path) -> None:
    web = sites(3, 100)
    laboratory = Laboratory(tmp_path / "job", web)
    web["http://h2.test/"] = replace(UNREACHABLE, local=True)
    assert laboratory.run(*seeds(3)) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.of("h2.test")) == {"failed": 1}
    assert len(laboratory.requests_to("h2.test")) == 4
    assert len(laboratory.requests_to("h0.test", "h1.test")) <= 2 * 101 + 4


def test_max_time_ends_a_crawl_in_an_outage(tmp_path: Path) -> None:
    web = sites(10, 30)
    laboratory = Laboratory(tmp_path / "job", web)
    assert laboratory.run(*seeds(10), during=outage(web, 5, 1e6), max_time=300) is Stop.MAX_TIME
    assert laboratory.now == pytest.approx(START + 300, abs=6)
    assert {record["outcome"] for record in laboratory.records()} == {"fetched"}


def test_hosts_that_were_never_asked_are_tried_too(tmp_path: Path) -> None:
    """All good hosts are gone for good; the only host that answers has not been met before the outage."""
    web = sites(10, 8)
    web |= {"http://new.test/": "<p>here"}
    web.near = ("new.test",)
    laboratory = Laboratory(tmp_path / "job", web)

    async def gone(run: Run, job: Job) -> None:
        await asyncio.sleep(4)
        web.down = UNREACHABLE
        await asyncio.sleep(20)
        assert run.stats()["state"] == "paused"
        job.admit(Found([canonicalise("http://new.test/")], 0, seed=True))

    laboratory.run(*seeds(10), during=gone, max_time=120)
    assert [record["outcome"] for record in laboratory.of("new.test")] == ["fetched"]


async def test_the_button_that_resumes_is_refused_in_an_outage(tmp_path: Path) -> None:
    paused = SimpleNamespace(by=PausedBy.OUTAGE, detail="no host answers since then")
    run: Any = SimpleNamespace(
        life=SimpleNamespace(state=State.RUNNING), paused=paused, job=SimpleNamespace(blocked=None)
    )
    perform = performing(lambda: run, Events(), lambda: START)
    refused = await perform(Command("resume"))
    assert refused == Refused(Refusal.NOT_NOW, "no host answers since then; the crawl resumes by itself when one does")


# -- what is no outage ---------------------------------------------------------------------------------------------


def timeline(laboratory: Laboratory) -> list[tuple[str, float]]:
    return [(each.href, round(each.begin - START, 3)) for each in laboratory.asked]


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


def test_hosts_that_are_dead_from_the_start_make_no_outage(tmp_path: Path) -> None:
    web = Web(dict.fromkeys(seeds(30), UNREACHABLE))
    laboratory = Laboratory(tmp_path / "job", web)
    assert laboratory.run(*seeds(30)) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.records()) == {"failed": 30}
    assert {len(laboratory.requests_to(name)) for name in names(30)} == {4}


def test_hosts_that_die_together_at_the_end_are_to_blame_if_a_finished_host_answers(tmp_path: Path) -> None:
    web = sites(10, 10)
    web |= {"http://short.test/": "<p>here", "http://short.test/robots.txt": "<p>here"}
    laboratory = Laboratory(tmp_path / "job", web)
    web.near = ("short.test",)
    assert laboratory.run("http://short.test/", *seeds(10), during=outage(web, 5, 1e6)) is Stop.FINISHED
    found = Counter(record["outcome"] for record in laboratory.records())
    assert found["failed"] > 50
    probes = laboratory.requests_to("short.test")[1:]
    assert {asked.href for asked in probes} == {"http://short.test/robots.txt"}
    assert len(probes) < 5, "hosts that were blamed once raise no doubt again"

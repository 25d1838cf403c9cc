"""Whether our own line is down is judged over all runs of a worker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings
from crawler.engine.lifecycle import PausedBy, Stop
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.web.fetch import Failure, FailureKind
from tests.engine.fleet import Fleet, contents, until
from tests.laboratory import SETTINGS, links
from tests.simulated_web import Answer

REFUSED = Failure(FailureKind.UNREACHABLE, "Network is unreachable", 0.0)
PAGES = 30


def hosts(run: str, count: int) -> list[str]:
    return [f"{run}{number}.test" for number in range(count)]


def front(run: str, count: int) -> list[str]:
    return [f"http://{host}/" for host in hosts(run, count)]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    pages: dict[str, Answer] = {}
    for host in [*hosts("a", 10), *hosts("b", 10)]:
        own = [f"http://{host}/{number}" for number in range(PAGES - 1)]
        pages |= {f"http://{host}/": links(own), **dict.fromkeys(own, "")}
    settings = replace(
        SETTINGS, politeness=PolitenessSettings(delay=1.0), crawl=replace(SETTINGS.crawl, concurrency=32)
    )
    return Fleet(tmp_path, pages, settings)


def paused_by(run: Run) -> PausedBy | None:
    return None if run.paused is None else run.paused.by


def test_an_outage_that_no_run_could_tell_alone_pauses_all(fleet: Fleet) -> None:
    async def test(worker: Worker) -> None:
        a = fleet.begin(worker, "a", *front("a", 5))
        b = fleet.begin(worker, "b", *front("b", 5))
        await until(lambda: a.job.counters.pages_fetched > 20 and b.job.counters.pages_fetched > 20)
        fleet.answers = lambda _: REFUSED
        await until(lambda: paused_by(a) is PausedBy.OUTAGE)
        assert paused_by(b) is PausedBy.OUTAGE
        asked = len(fleet.asked)
        await asyncio.sleep(100.0)
        assert len(fleet.asked) - asked < 20, "a few good hosts are asked in turn"
        fleet.answers = lambda _: None
        await asyncio.gather(worker.until_over(a), worker.until_over(b))
        for run in (a, b):
            assert run.life.reason is Stop.FINISHED
            figures = run.stats()["outage"]
            assert (figures["now"], figures["count"]) == (False, 1)
            assert figures["seconds"] > 100.0
            assert run.job.counters.retries == 0, "no host is blamed"
        assert sum(run.stats()["outage"]["probes"] for run in (a, b)) > 3

    fleet.live(test)
    for name in "ab":
        recorded = fleet.recorded(name)
        assert len(recorded) == 5 * PAGES
        assert set(recorded.values()) == {1}


def test_a_run_that_is_broken_off_in_an_outage_is_asked_for_nothing_more(fleet: Fleet) -> None:
    async def test(worker: Worker) -> None:
        a = fleet.begin(worker, "a", *front("a", 10))
        b = fleet.begin(worker, "b", *front("b", 10))
        await until(lambda: a.job.counters.pages_fetched > 20 and b.job.counters.pages_fetched > 20)
        fleet.answers = lambda _: REFUSED
        fleet.seconds = 10.0  # so that a probe is under way
        await until(lambda: paused_by(a) is PausedBy.OUTAGE)
        asked = len(fleet.asked)
        await until(lambda: len(fleet.asked) > asked)
        probed, other = (a, b) if "//a" in fleet.asked[-1] else (b, a)
        await worker.break_off(probed)
        name = probed.job.directory.name
        before, asked = contents(fleet.stores[name]), len(fleet.asked)
        await asyncio.sleep(500.0)
        assert contents(fleet.stores[name]) == before
        assert len(fleet.asked) > asked
        assert not [href for href in fleet.asked[asked:] if f"//{name}" in href]
        fleet.answers = lambda _: None
        fleet.seconds = 0.2
        await worker.until_over(other)
        assert other.life.reason is Stop.FINISHED
        fleet.close(name)
        await worker.until_over(fleet.begin(worker, name))

    fleet.live(test)
    for name in "ab":
        assert len(fleet.recorded(name)) == 10 * PAGES
        assert set(fleet.recorded(name).values()) == {1}

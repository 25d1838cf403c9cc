"""One worker drives many runs, which come and go while it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings
from crawler.engine.lifecycle import State, Stop
from crawler.engine.membership import Membership
from crawler.engine.run import GRACE, Run
from crawler.engine.worker import Worker
from crawler.job.found import Found
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.fetch import Response
from tests.engine.fleet import Fleet, contents, until
from tests.laboratory import SETTINGS, links

PAGES = 8


def site(*names: str, pages: int = PAGES) -> dict[str, str | Response]:
    """Sites whose front pages link to all their pages."""
    web: dict[str, str | Response] = {}
    for name in names:
        web[f"http://{name}.test/"] = links([f"/{number}" for number in range(1, pages)])
        web |= {f"http://{name}.test/{number}": "" for number in range(1, pages)}
    return web


def all_once(*names: str, pages: int = PAGES) -> dict[str, int]:
    return dict.fromkeys(site(*names, pages=pages), 1)


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    settings = replace(SETTINGS, politeness=PolitenessSettings(delay=1.0))
    return Fleet(tmp_path, dict(site("a", "b", "c")), settings)


def test_runs_come_and_go_while_the_worker_drives(fleet: Fleet) -> None:
    async def test(worker: Worker) -> None:
        await asyncio.sleep(10.0)  # with no run at all
        a = fleet.begin(worker, "a", "http://a.test/")
        await until(lambda: a.job.counters.pages_fetched == 2)
        b = fleet.begin(worker, "b", "http://b.test/")
        await until(lambda: b.job.counters.pages_fetched == 3)
        await worker.remove(a)
        assert (a.life.state, a.life.reason) == (State.STOPPED, Stop.INTERRUPTED)
        assert not a.visitor.under_way, "what was in flight was finished"
        left = a.job.counters.pending
        assert left == PAGES - a.job.counters.pages_fetched > 0
        fleet.close("a")
        c = fleet.begin(worker, "c", "http://c.test/")
        await asyncio.gather(worker.until_over(b), worker.until_over(c))
        assert {b.life.reason, c.life.reason} == {Stop.FINISHED}
        again = fleet.begin(worker, "a")
        assert again.job.counters.pending == left
        await worker.until_over(again)
        assert again.life.reason is Stop.FINISHED

    fleet.live(test)
    for name in "abc":
        assert fleet.recorded(name) == all_once(name)
    assert len(fleet.asked) == 3 * PAGES, "nothing was asked twice"


def test_what_is_in_flight_when_a_run_is_removed_gets_its_grace_and_no_more(fleet: Fleet) -> None:
    fleet.seconds = 60.0

    async def test(worker: Worker) -> float:
        run = fleet.begin(worker, "a", "http://a.test/")
        await until(lambda: bool(run.visitor.under_way))
        began = fleet.clock()
        await worker.remove(run)
        assert run.job.counters.pending == 1
        return fleet.clock() - began

    assert fleet.live(test) == pytest.approx(GRACE, abs=0.01)


def test_nothing_is_written_to_a_job_that_was_broken_off(fleet: Fleet) -> None:
    async def test(worker: Worker) -> None:
        a = fleet.begin(worker, "a", "http://a.test/")
        b = fleet.begin(worker, "b", "http://b.test/")
        await until(lambda: a.job.counters.pages_fetched == 2 and bool(a.visitor.under_way))
        began = fleet.clock()
        await worker.break_off(a)
        assert fleet.clock() == began, "nobody waits for what is in flight"
        assert (a.life.state, a.life.reason) == (State.STOPPED, None)
        assert not a.visitor.under_way
        commits, stored, files = a.job.writer.commits, contents(fleet.stores["a"]), tree(a.job.directory)
        asked = [href for href in fleet.asked if "//a." in href]
        await worker.until_over(b)
        await asyncio.sleep(100.0)
        assert a.job.writer.commits == commits
        assert [href for href in fleet.asked if "//a." in href] == asked
        assert contents(fleet.stores["a"]) == stored
        assert tree(a.job.directory) == files, "no checkpoint either"
        fleet.close("a")
        again = fleet.begin(worker, "a")
        assert again.job.counters.pending == PAGES - 2
        await worker.until_over(again)

    fleet.live(test)
    assert fleet.recorded("a") == all_once("a")
    assert fleet.recorded("b") == all_once("b")


def test_an_error_in_one_run_ends_all_and_is_raised(fleet: Fleet) -> None:
    async def bad() -> AsyncIterator[list[str]]:
        await asyncio.sleep(3.0)
        raise ZeroDivisionError
        yield []

    async def test(worker: Worker) -> None:
        a = fleet.begin(worker, "a", "http://a.test/")
        fleet.begin(worker, "b", "http://b.test/")
        worker.add(Run(fleet.jobs["b"], fleet.settings, worker.context, bad()))
        await worker.until_over(a)
        assert (a.life.state, a.life.reason) == (State.STOPPED, None)
        assert a.job.counters.pending > 0

    with pytest.raises(ZeroDivisionError):
        fleet.live(test)


# -- partitions --------------------------------------------------------------------------------------------------


def test_a_partition_is_idle_and_waits_until_it_is_told_that_the_crawl_is_over(fleet: Fleet) -> None:
    sent = False

    async def test(worker: Worker) -> None:
        nonlocal sent
        run = fleet.begin(worker, "a", "http://a.test/", member=Membership(lambda: True, lambda: sent))
        await until(lambda: run.job.counters.pages_fetched == PAGES)
        assert not run.is_idle, "something waits to be sent"
        sent = True
        assert run.is_idle
        await asyncio.sleep(100.0)
        assert run.life.state is State.RUNNING
        (url,) = [each for each in [Canonicaliser().canonicalise("http://b.test/7")] if isinstance(each, Canonical)]
        run.job.admit(Found([url], 0))
        run.wake()
        assert not run.is_idle, "another partition has found something"
        await until(lambda: run.is_idle)
        run.finish()
        await worker.until_over(run)
        assert (run.life.state, run.life.reason) == (State.ENDED, Stop.FINISHED)

    fleet.live(test)
    assert fleet.recorded("a") == {**all_once("a"), "http://b.test/7": 1}


def test_a_partition_asks_for_nothing_while_it_may_not(fleet: Fleet) -> None:
    ours = True

    async def test(worker: Worker) -> None:
        nonlocal ours
        run = fleet.begin(worker, "a", "http://a.test/", member=Membership(lambda: ours, lambda: True))
        await until(lambda: run.job.counters.pages_fetched == 2)
        ours = False
        asked = len(fleet.asked)
        await asyncio.sleep(100.0)
        assert len(fleet.asked) == asked
        assert run.life.state is State.RUNNING
        ours = True
        run.wake()
        await until(lambda: run.is_idle)
        run.finish()
        await worker.until_over(run)

    fleet.live(test)
    assert fleet.recorded("a") == all_once("a")


def test_a_url_whose_request_was_not_sent_is_asked_for_later(fleet: Fleet) -> None:
    """The claim ends while its connection is made: between the lease and the request."""
    answers: list[bool] = []
    ours = True

    def may_request() -> bool:
        nonlocal ours
        answers.append(ours)
        if len(answers) == 6:
            ours = False
        return answers[-1]

    async def test(worker: Worker) -> None:
        nonlocal ours
        run = fleet.begin(worker, "a", "http://a.test/", member=Membership(may_request, lambda: True))
        await until(lambda: not ours)
        await asyncio.sleep(100.0)
        assert run.job.counters.pending > 0
        assert not run.visitor.under_way
        assert run.job.counters.retries == 0
        ours = True
        run.wake()
        await until(lambda: run.is_idle)
        run.finish()
        await worker.until_over(run)

    fleet.live(test)
    assert fleet.recorded("a") == all_once("a")
    assert len(fleet.asked) == PAGES

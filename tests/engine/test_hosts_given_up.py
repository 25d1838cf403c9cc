"""What becomes of the URLs of hosts that fail, are over their budget, or were blocked, in whole crawls: each ends as a
record that says why."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings import BudgetSettings
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.frontier import FailureClass, decode_host
from crawler.job.job import Job
from crawler.web.fetch import Failure, FailureKind, Response
from tests.laboratory import Laboratory, links

SEED = "http://live.test/"
LOST = Failure(FailureKind.CONNECT_TIMEOUT, "no connection within 10 s", 10.0)


def urls(name: str, count: int) -> list[str]:
    return [f"http://{name}/{number}" for number in range(count)]


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """A site whose page links to thirty of its own and to thirty of a dead host."""
    own, dead = urls("live.test", 30), urls("dead.test", 30)
    pages = {SEED: links([*dead, *own]), **dict.fromkeys(own, "<p>here"), **dict.fromkeys(dead, LOST)}
    return Laboratory(tmp_path / "job", pages)


def test_a_dead_host_is_retired_and_each_of_its_urls_is_reported(laboratory: Laboratory) -> None:
    assert laboratory.run(SEED) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.of("live.test")) == {"fetched": 31}
    reported = laboratory.of("dead.test")
    assert {record["url"] for record in reported} == set(urls("dead.test", 30))
    assert {record["outcome"] for record in reported} == {"failed"}
    errors = [record["error"] for record in reported if record["error"].startswith("retired: ")]
    assert len(errors) > 20
    assert errors[0] == ("retired: its host gave no answer 8 times in a row, 3 snoozes among them; the last: timeout")
    # 5, 10, 20, 40 s of back-off and 60, 120, 240 s of snoozing; a live host has long been done by then.
    times = [asked.begin for asked in laboratory.requests_to("dead.test")]
    assert len(times) == 8
    waits = [later - sooner for sooner, later in itertools.pairwise(times)]
    for wait, least in zip(waits, [5, 10, 20, 40, 60, 120, 240], strict=False):
        assert least <= wait <= least * 1.1 + 1


def test_a_retired_host_stays_retired_until_it_is_given_another_chance(laboratory: Laboratory) -> None:
    laboratory.run(SEED)
    laboratory.pages["http://dead.test/late"] = laboratory.pages["http://dead.test/later"] = "<p>there again"
    before = len(laboratory.requests_to("dead.test"))
    assert laboratory.run(SEED, "http://dead.test/late") is Stop.FINISHED
    assert len(laboratory.requests_to("dead.test")) == before
    assert laboratory.of("dead.test")[-1]["outcome"] == "failed"
    laboratory.with_politeness(retry_retired=True).run(SEED, "http://dead.test/later")
    last = laboratory.of("dead.test")[-1]
    assert (last["url"], last["outcome"]) == ("http://dead.test/later", "fetched")
    laboratory.with_politeness().run(SEED, "http://dead.test/late?", "http://dead.test/")
    assert laboratory.of("dead.test")[-1]["outcome"] == "fetched", "it answered: it is retired no more"


def test_pages_that_a_server_cannot_make_do_not_retire_it(laboratory: Laboratory) -> None:
    laboratory.pages.update(dict.fromkeys(urls("dead.test", 30)[6:], "<p>here"))
    assert laboratory.run(SEED) is Stop.FINISHED
    found = Counter(record["outcome"] for record in laboratory.of("dead.test"))
    assert found == {"fetched": 24, "failed": 6}
    failed = [record["error"] for record in laboratory.of("dead.test") if record["outcome"] == "failed"]
    assert {error.partition(":")[0] for error in failed} <= {"connect_timeout", "retired"}


def test_a_host_that_comes_back_while_it_is_snoozed_loses_nothing(laboratory: Laboratory) -> None:
    async def comes_back(crawl: Run, job: Job) -> None:
        await asyncio.sleep(120)
        for href in urls("dead.test", 30):
            laboratory.pages[href] = "<p>there again"

    assert laboratory.run(SEED, during=comes_back) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.of("dead.test")) == {"fetched": 30}


@pytest.mark.parametrize(
    ("budget", "fetched"), [(BudgetSettings(host_pages=12), 12), (BudgetSettings(host_bytes=1_500), None)]
)
def test_what_is_over_the_budget_of_a_host_is_excluded(
    laboratory: Laboratory, budget: BudgetSettings, fetched: int | None
) -> None:
    laboratory.pages = {SEED: links(urls("live.test", 30)), **dict.fromkeys(urls("live.test", 30), "<p>" + 100 * "x")}
    laboratory.settings = replace(laboratory.settings, budget=budget)
    assert laboratory.run(SEED) is Stop.FINISHED
    found = Counter(record["outcome"] for record in laboratory.of("live.test"))
    assert 0 < found["fetched"] < 31
    assert fetched is None or found["fetched"] == fetched
    assert sum(found.values()) == 31
    for record in laboratory.of("live.test"):
        if record["outcome"] == "excluded":
            assert record["error"].startswith("budget: host_")


def test_a_blocked_host_is_asked_no_more_in_any_run(laboratory: Laboratory) -> None:
    laboratory.pages.update(dict.fromkeys(urls("dead.test", 30), "<p>fine"))

    async def block(crawl: Run, job: Job) -> None:
        await asyncio.sleep(5)
        assert job.change_hosts(lambda batch: job.frontier.overrides.block("dead.test:80", batch))
        crawl.wake()
        assert not job.change_hosts(lambda batch: job.frontier.overrides.block("unheard-of.test:80", batch))
        crawl.wake()

    assert laboratory.run(SEED, during=block) is Stop.FINISHED
    asked = len(laboratory.requests_to("dead.test"))
    found = Counter(record["outcome"] for record in laboratory.of("dead.test"))
    assert 0 < asked < 10
    assert found == {"fetched": asked, "excluded": 30 - asked}
    assert laboratory.of("dead.test")[-1]["error"] == "blocked: its host was blocked by hand"
    laboratory.run(SEED, "http://dead.test/new")
    assert laboratory.of("dead.test")[-1]["error"].startswith("blocked: ")
    assert len(laboratory.requests_to("dead.test")) == asked


def test_a_paused_host_waits_for_its_resumption_across_a_restart(laboratory: Laboratory) -> None:
    laboratory.pages.update(dict.fromkeys(urls("dead.test", 30), "<p>fine"))

    async def pause(crawl: Run, job: Job) -> None:
        await asyncio.sleep(5)
        assert job.change_hosts(lambda batch: job.frontier.overrides.pause("dead.test:80", batch))
        crawl.wake()

    assert laboratory.run(SEED, during=pause, max_time=600) is Stop.MAX_TIME
    asked = len(laboratory.requests_to("dead.test"))
    assert 0 < asked < 10
    assert len(laboratory.of("live.test")) == 31, "the others go on"

    async def resume(crawl: Run, job: Job) -> None:
        await asyncio.sleep(100)
        row = job.frontier.describe("dead.test:80", crawl.life.started_at + 100)
        assert row is not None
        assert (row.state.value, row.pending) == ("paused", 30 - asked)
        assert len(laboratory.requests_to("dead.test")) == asked
        assert job.change_hosts(lambda batch: job.frontier.overrides.resume("dead.test:80", batch))
        crawl.wake()

    assert laboratory.run(SEED, during=resume) is Stop.FINISHED
    assert Counter(record["outcome"] for record in laboratory.of("dead.test")) == {"fetched": 30}


def apart(laboratory: Laboratory, *names: str) -> float:
    """The shortest time between the end of a request to one of the hosts and the begin of the next; negative where
    two overlapped."""
    asked = sorted(laboratory.requests_to(*names), key=lambda each: each.begin)
    return min(later.begin - sooner.end for sooner, later in itertools.pairwise(asked))


@pytest.mark.parametrize("ignore_robots", [True, False])
def test_hosts_at_one_address_share_its_gap_when_asked(laboratory: Laboratory, ignore_robots: bool) -> None:
    names = ["a.test", "b.test", "c.test"]
    pages = {href: "<p>x" for name in names for href in urls(name, 5)}
    laboratory.pages = {SEED: links(list(pages)), **pages}
    laboratory.addresses = {"a.test": "192.0.2.1", "b.test": "192.0.2.1", "c.test": "192.0.2.2"}
    laboratory.settings = replace(laboratory.settings, robots=replace(laboratory.settings.robots, ignore=ignore_robots))
    laboratory.with_politeness(host_key="address", delay=2.0)
    laboratory.run(SEED, max_time=7.0)
    laboratory.run(SEED)
    assert {record["outcome"] for record in laboratory.records()} == {"fetched"}
    assert len(laboratory.records()) == 16
    assert apart(laboratory, "a.test", "b.test") >= 2.0 - 1e-6
    assert apart(laboratory, "a.test", "c.test") < 2.0, "another address, another gap"


def test_hosts_of_one_domain_share_its_gap_when_asked(laboratory: Laboratory) -> None:
    names = ["a.one.co.uk", "b.one.co.uk", "c.two.co.uk"]
    pages = {href: "<p>x" for name in names for href in urls(name, 5)}
    laboratory.pages = {SEED: links(list(pages)), **pages}
    laboratory.with_politeness(host_key="domain").run(SEED)
    assert len(laboratory.records()) == 16
    assert apart(laboratory, "a.one.co.uk", "b.one.co.uk") >= 1.0 - 1e-6
    assert apart(laboratory, "a.one.co.uk", "c.two.co.uk") < 1.0


@pytest.mark.parametrize("stop", [None, 50.0])
def test_what_a_server_asks_for_is_kept_also_by_the_next_run(laboratory: Laboratory, stop: float | None) -> None:
    busy = Response(503, {}, None, None, None, None, "1800", 0.1, 0)
    laboratory.pages = {SEED: links(urls("busy.test", 3)), **dict.fromkeys(urls("busy.test", 3), busy)}
    laboratory.run(SEED, max_time=stop or 2_000.0)
    if stop is not None:
        laboratory.pages.update(dict.fromkeys(urls("busy.test", 3), "<p>better"))
        laboratory.run(SEED)
        assert {record["outcome"] for record in laboratory.of("busy.test")} == {"fetched"}
    times = [asked.begin for asked in laboratory.requests_to("busy.test")]
    assert times[1] - times[0] >= 1_800


def test_a_slow_server_is_asked_less_where_that_is_wanted(laboratory: Laboratory) -> None:
    laboratory.pages = {SEED: links(urls("slow.test", 10))}
    for href in urls("slow.test", 10):
        laboratory.pages[href] = Response(200, {}, "text/html", "utf-8", b"", None, None, 3.0, 0)
    laboratory.seconds = 3.0
    laboratory.with_politeness(adaptive=2.0).run(SEED)
    gaps = [apart(laboratory, "slow.test")]
    assert min(gaps) >= 1.0
    times = [asked.begin for asked in laboratory.requests_to("slow.test")]
    assert times[-1] - times[-2] == pytest.approx(3.0 + 6.0, abs=0.5)


def test_failures_are_counted_by_class(laboratory: Laboratory) -> None:
    kinds = [FailureKind.DNS, FailureKind.TLS, FailureKind.ENCODING, FailureKind.CUT_OFF]
    hrefs = urls("odd.test", len(kinds))
    laboratory.pages = {SEED: links(hrefs)}
    laboratory.pages.update({href: Failure(kind, "x", 0.1) for href, kind in zip(hrefs, kinds, strict=True)})
    laboratory.run(SEED)
    stored = laboratory.store.get(Family.HOSTS, b"odd.test:80")
    assert stored is not None
    errors = decode_host("odd.test:80", stored).tally.errors
    assert errors == {FailureClass.DNS: 4, FailureClass.TLS: 1, FailureClass.OTHER: 1, FailureClass.CUT_OFF: 4}

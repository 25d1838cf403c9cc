"""What becomes of the URLs of hosts that fail, are over their budget, or were blocked, in whole crawls: each ends as a
record that says why."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path

import pytest

from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.job.job import Job
from crawler.web.fetch import Failure, FailureKind
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
    assert "8" in errors[0]
    # 5, 10, 20, 40 s of back-off and 60, 120, 240 s of snoozing; a live host has long been done by then.
    times = [asked.begin for asked in laboratory.requests_to("dead.test")]
    assert len(times) == 8
    waits = [later - sooner for sooner, later in itertools.pairwise(times)]
    for wait, least in zip(waits, [5, 10, 20, 40, 60, 120, 240], strict=False):
        assert least <= wait <= least * 1.1 + 1


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

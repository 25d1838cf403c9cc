"""A proxy that fails is nobody's fault: no URL fails, no try is used up, no host is blamed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from crawler.base.settings.parts import RetrySettings, RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.job.job import Job
from crawler.service.run_view import crawl_now
from crawler.web.fetch import Failure, FailureKind, Response
from tests.laboratory import SETTINGS, START, Laboratory, links
from tests.simulated_web import Answer

SEED = "http://a.test/"
DEAD = Failure(FailureKind.PROXY, "http://proxy.test:3128: Connection refused", 0.0)


class Web(dict[str, Answer]):
    """Pages behind a proxy that is dead until a moment."""

    alive = True

    def get(self, href: str, default: Any = None) -> Any:
        return super().get(href, default) if self.alive else DEAD


def test_no_url_is_lost_while_the_proxy_is_dead(tmp_path: Path) -> None:
    hosts = [f"http://h{number}.test/" for number in range(5)]
    web = Web({SEED: links([*hosts, *(f"{SEED}{n}" for n in range(5))]), **dict.fromkeys(hosts, "<p>here")})
    web |= {f"{SEED}{n}": "<p>here" for n in range(5)}
    settings = replace(SETTINGS, robots=RobotsSettings(ignore=False))
    laboratory = Laboratory(tmp_path / "job", web, settings)
    web.alive = False
    dead_until = laboratory.now + 900

    async def revive(run: Run, job: Job) -> None:
        await asyncio.sleep(900)
        web.alive = True

    assert laboratory.run(SEED, during=revive) is Stop.FINISHED
    assert laboratory.now >= dead_until
    records = laboratory.records()
    assert Counter(record["outcome"] for record in records) == {"fetched": 11}
    dead = [asked for asked in laboratory.asked if asked.begin < dead_until]
    assert 25 < len(dead) < 100, "it is tried every 20 s, not all the time, and not for each URL at once"


def test_a_dead_proxy_is_told_where_people_look_and_so_is_its_return(tmp_path: Path) -> None:
    dead, answer = (
        replace(DEAD, proxy="http://proxy.test:3128"),
        Response(200, {}, "text/html", "utf-8", b"<p>here", None, None, 0.0, 7, proxy="http://proxy.test:3128"),
    )
    web: dict[str, Answer] = {SEED: dead}
    laboratory = Laboratory(tmp_path / "job", web)
    found: list[Any] = []

    async def revive(run: Run, job: Job) -> None:
        await asyncio.sleep(600)
        told = crawl_now(run)
        found.extend((run.stats()["proxies"], told.proxies, job.events))
        web[SEED] = answer

    assert laboratory.run(SEED, during=revive) is Stop.FINISHED
    figures, told, events = found
    assert (figures["failing"], figures["named"]) == (1, [asdict(each) for each in told])
    assert figures["failures"] == len(laboratory.asked) - 1
    ((proxy, since, reason),) = [(each.proxy, each.since, each.reason) for each in told]
    assert (proxy, since, reason) == ("http://proxy.test:3128", pytest.approx(START, abs=1.0), DEAD.message)
    failed, answers = [(event["kind"], event["text"]) for event in events.after(0) if "proxy" in event["text"]]
    assert failed[0] == "error"
    assert DEAD.message in failed[1]
    assert answers[0] == "run"
    assert "http://proxy.test:3128" in answers[1]


def test_a_proxy_that_dies_in_the_middle_blames_no_host(tmp_path: Path) -> None:
    """More failures in a row than snooze or retire a host; and after them the URL has all its tries."""
    web = Web({SEED: "<p>here"})
    laboratory = Laboratory(tmp_path / "job", web)
    web.alive = False

    async def revive(run: Run, job: Job) -> None:
        await asyncio.sleep(900)
        web[SEED] = Failure(FailureKind.CUT_OFF, "connection closed before the response", 0.1)
        web.alive = True

    assert laboratory.run(SEED, during=revive) is Stop.FINISHED
    (record,) = laboratory.records()
    assert (record["outcome"], record["error"][:8]) == ("failed", "cut_off:")
    alive = [asked for asked in laboratory.asked if asked.begin >= START + 900]
    assert len(alive) == RetrySettings().tries

"""A proxy that fails is nobody's fault: no URL fails, no try is used up, no host is blamed."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.fetch import Failure, FailureKind
from crawler.fetch.simulated import Answer
from crawler.job.job import Job
from crawler.settings import RetrySettings, RobotsSettings
from tests.laboratory import SETTINGS, START, Laboratory, links

SEED = "http://a.test/"
DEAD = Failure(FailureKind.PROXY, "http://proxy.test:3128: Connection refused", 0.0)


class Web(dict[str, Answer]):
    """Pages behind a proxy that is dead until a moment."""

    alive = True

    def get(self, href: str, default: Any = None) -> Any:
        return super().get(href, default) if self.alive else DEAD


@pytest.mark.parametrize("ignore_robots", [True, False])
def test_no_url_is_lost_while_the_proxy_is_dead(tmp_path: Path, ignore_robots: bool) -> None:
    hosts = [f"http://h{number}.test/" for number in range(5)]
    web = Web({SEED: links([*hosts, *(f"{SEED}{n}" for n in range(5))]), **dict.fromkeys(hosts, "<p>here")})
    web |= {f"{SEED}{n}": "<p>here" for n in range(5)}
    settings = replace(SETTINGS, robots=RobotsSettings(ignore=ignore_robots))
    laboratory = Laboratory(tmp_path / "job", web, settings)
    web.alive = False
    dead_until = laboratory.now + 3600

    async def revive(run: Run, job: Job) -> None:
        await asyncio.sleep(3600)
        web.alive = True

    assert laboratory.run(SEED, during=revive) is Stop.FINISHED
    assert laboratory.now >= dead_until
    records = laboratory.records()
    assert Counter(record["outcome"] for record in records) == {"fetched": 11}
    dead = [asked for asked in laboratory.asked if asked.begin < dead_until]
    assert 100 < len(dead) < 400, "it is tried every 20 s, not all the time, and not for each URL at once"


def test_a_proxy_that_dies_in_the_middle_blames_no_host(tmp_path: Path) -> None:
    """More failures in a row than snooze or retire a host; and after them the URL has all its tries."""
    web = Web({SEED: "<p>here"})
    laboratory = Laboratory(tmp_path / "job", web)
    web.alive = False

    async def revive(run: Run, job: Job) -> None:
        await asyncio.sleep(3600)
        web[SEED] = Failure(FailureKind.CUT_OFF, "connection closed before the response", 0.1)
        web.alive = True

    assert laboratory.run(SEED, during=revive) is Stop.FINISHED
    (record,) = laboratory.records()
    assert (record["outcome"], record["error"][:8]) == ("failed", "cut_off:")
    alive = [asked for asked in laboratory.asked if asked.begin >= START + 3600]
    assert len(alive) == RetrySettings().tries

"""What servers see of politeness, in whole crawls in virtual time."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Failure, FailureKind
from crawler.web.fetch.simulated import page
from tests.laboratory import Laboratory, links

BROKEN = page("<p>broken", status=500)
SEED = "http://a.test/"


def gaps(laboratory: Laboratory, *names: str) -> list[float]:
    """Seconds between the end of each request to these hosts and the start of the next; negative if they overlap."""
    asked = sorted(laboratory.requests_to(*names), key=lambda each: each.begin)
    return [later.begin - sooner.end for sooner, later in itertools.pairwise(asked)]


def test_a_kept_connection_that_ends_costs_a_try_and_the_gap_and_is_no_strike(tmp_path: Path) -> None:
    urls = [f"{SEED}{number}" for number in range(20)]
    lost = Failure(FailureKind.CUT_OFF, "connection closed before the response", 0.1, kept=True)
    laboratory = Laboratory(tmp_path / "job", {SEED: links(urls), **dict.fromkeys(urls, lost)})
    laboratory.with_politeness(delay=1.0, jitter=0.0)
    assert laboratory.run(SEED) is Stop.FINISHED
    assert {record["url"] for record in laboratory.records() if record["outcome"] == "failed"} == set(urls)
    tries = laboratory.settings.retry.tries
    assert Counter(asked.href for asked in laboratory.asked if asked.href in urls) == dict.fromkeys(urls, tries)
    assert min(gaps(laboratory, "a.test")) >= 1.0 - 1e-6


def test_a_host_that_answers_nothing_but_500_is_asked_ever_less_often(tmp_path: Path) -> None:
    urls, good = [f"{SEED}{number}" for number in range(12)], f"{SEED}good"
    laboratory = Laboratory(tmp_path / "job", {SEED: links([*urls, good]), **dict.fromkeys(urls, BROKEN), good: "<p>x"})
    laboratory.with_politeness(delay=1.0, jitter=0.0)
    laboratory.settings = replace(laboratory.settings, retry=replace(laboratory.settings.retry, tries=1))
    assert laboratory.run(SEED) is Stop.FINISHED
    waits = [round(gap, 3) for gap in gaps(laboratory, "a.test")]
    assert waits == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * 6]
    assert Counter(record["status"] for record in laboratory.records()) == {200: 2, 500: 12}

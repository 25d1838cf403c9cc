"""What servers see of politeness, in whole crawls in virtual time."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

from crawler.engine.lifecycle import Stop
from crawler.fetch import Failure, FailureKind
from tests.laboratory import Laboratory, links

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

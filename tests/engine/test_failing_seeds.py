"""A seed that cannot be fetched is named at its first failure, with the time at which it is given up."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings, RetrySettings, RobotsSettings
from crawler.engine import failing_seeds
from crawler.frontier.tries_ahead import TriesLeft
from crawler.web.fetch import Failure, FailureKind
from tests.laboratory import SETTINGS, START, Laboratory

DEAD = "http://dead.test/"
QUICK = {"first_wait": 1.0}


@pytest.fixture
def promises(monkeypatch: pytest.MonkeyPatch) -> list[TriesLeft]:
    """What was said, in numbers."""
    made, ask = list[TriesLeft](), failing_seeds.tries_left

    def asked(*words: Any) -> TriesLeft:
        made.append(ask(*words))
        return made[-1]

    monkeypatch.setattr(failing_seeds, "tries_left", asked)
    return made


def laboratory(
    directory: Path, *hosts: str, kind: FailureKind = FailureKind.REFUSED, ignore: bool = True, **parts: Any
) -> Laboratory:
    web = {f"http://{host}/{path}": Failure(kind, "no", 0.0) for host in hosts for path in ("", "robots.txt")}
    return Laboratory(directory / "job", web, replace(SETTINGS, robots=RobotsSettings(ignore=ignore), **parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("ignore", [True, False], ids=["page", "robots"])
@pytest.mark.parametrize(
    ("kind", "retry", "polite"),
    [
        (FailureKind.REFUSED, {}, {}),
        (FailureKind.TLS, {}, {}),
        (FailureKind.DNS, QUICK | {"tries": 2}, {"delay": 9.0}),
        (FailureKind.CONNECT_TIMEOUT, QUICK, {"backoff_first": 0.5}),
        (FailureKind.REFUSED, QUICK | {"tries": 7}, {"patience": "short"}),
        (FailureKind.REFUSED, QUICK | {"tries": 9}, {"patience": "short", "backoff_first": 0.5}),
    ],
)
def test_it_is_given_up_when_that_was_said(
    tmp_path: Path,
    promises: list[TriesLeft],
    kind: FailureKind,
    retry: dict[str, Any],
    polite: dict[str, Any],
    ignore: bool,
) -> None:
    parts = {"retry": RetrySettings(**retry), "politeness": PolitenessSettings(**polite)}
    lab = laboratory(tmp_path, "dead.test", kind=kind, ignore=ignore, **parts)
    lab.run(DEAD)
    ((number, seconds),) = promises
    assert len(lab.asked) == 1 + number
    assert lab.asked[0].end + seconds == pytest.approx(lab.now, abs=1.5)
    assert [record["outcome"] for record in lab.records()] == ["failed"]


def test_a_later_run_says_what_is_left(tmp_path: Path, promises: list[TriesLeft]) -> None:
    lab = laboratory(tmp_path, "dead.test", retry=RetrySettings(**QUICK))
    lab.run(DEAD, max_time=8.0)
    asked = len(lab.asked)
    lab.run(DEAD)
    assert [left.number for left in promises] == [3, 3 - asked]


def test_of_many_only_the_first_are_named_and_no_page_is(
    tmp_path: Path, promises: list[TriesLeft], caplog: pytest.LogCaptureFixture
) -> None:
    lab = laboratory(tmp_path, *(f"h{number}.test" for number in range(9)), retry=RetrySettings(tries=1))
    lab.pages["http://live.test/"] = "<a href='http://linked.test/'>dead too</a>"
    with caplog.at_level(logging.WARNING):
        lab.run("http://live.test/", *lab.pages)
    assert len(promises) == 3
    assert len([each for each in caplog.records if each.module == "failing_seeds"]) == 4
    assert lab.now - START < 60

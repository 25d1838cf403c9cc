"""A seed that cannot be fetched is named at its first failure, with the number of tries left."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import RetrySettings, RobotsSettings
from crawler.web.fetch import Failure, FailureKind
from tests.laboratory import SETTINGS, START, Laboratory

DEAD = "http://dead.test/"
QUICK = {"first_wait": 1.0}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.module == "failing_seeds"]


def promised(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The numbers of further tries that were said."""
    found = [re.search(r"; (?:up to (\d+) more tr|no more tries)", text) for text in said(caplog)]
    return [int(each[1] or 0) for each in found if each]


def laboratory(
    directory: Path, *hosts: str, kind: FailureKind = FailureKind.REFUSED, ignore: bool = True, **parts: Any
) -> Laboratory:
    web = {f"http://{host}/{path}": Failure(kind, "no", 0.0) for host in hosts for path in ("", "robots.txt")}
    return Laboratory(directory / "job", web, replace(SETTINGS, robots=RobotsSettings(ignore=ignore), **parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("ignore", [True, False], ids=["page", "robots"])
@pytest.mark.parametrize(
    ("kind", "retry", "number"),
    [(FailureKind.REFUSED, {}, 3), (FailureKind.TLS, {}, 0), (FailureKind.DNS, QUICK | {"tries": 2}, 1)],
)
def test_it_is_tried_as_often_and_as_long_as_was_said(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    kind: FailureKind,
    retry: dict[str, Any],
    number: int,
    ignore: bool,
) -> None:
    lab = laboratory(tmp_path, "dead.test", kind=kind, ignore=ignore, retry=RetrySettings(**retry))
    lab.run(DEAD)
    assert promised(caplog) == [number]
    assert len(lab.asked) == 1 + number
    if number:
        wait = lab.asked[-1].begin - lab.asked[0].end
        shown = float(re.search(r"at least (\d+)", said(caplog)[0])[1])  # type: ignore[index]
        assert shown <= wait, said(caplog)
    assert [record["outcome"] for record in lab.records()] == ["failed"]


def test_a_later_run_says_what_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = laboratory(tmp_path, "dead.test", retry=RetrySettings(**QUICK))
    lab.run(DEAD, max_time=8.0)
    asked = len(lab.asked)
    lab.run(DEAD)
    assert promised(caplog) == [3, 3 - asked]


def test_of_many_only_the_first_are_named_and_no_page_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = laboratory(tmp_path, *(f"h{number}.test" for number in range(9)), retry=RetrySettings(tries=1))
    lab.pages["http://live.test/"] = "<a href='http://linked.test/'>dead too</a>"
    with caplog.at_level(logging.WARNING):
        lab.run("http://live.test/", *lab.pages)
    assert len(promised(caplog)) == 3
    assert len(said(caplog)) == 4
    assert lab.now - START < 60

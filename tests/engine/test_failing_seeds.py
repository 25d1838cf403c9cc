"""A seed that cannot be fetched is named at its first failure, with how often it is tried at most."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import RetrySettings, RobotsSettings
from crawler.web.fetch import Failure, FailureKind
from tests.laboratory import SETTINGS, START, Laboratory

DEAD = "http://dead.test/"


def laboratory(
    directory: Path, *hosts: str, kind: FailureKind = FailureKind.REFUSED, ignore: bool = True
) -> Laboratory:
    web = {f"http://{host}/{path}": Failure(kind, "no", 0.0) for host in hosts for path in ("", "robots.txt")}
    return Laboratory(directory / "job", web, replace(SETTINGS, robots=RobotsSettings(ignore=ignore)))


def named(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """How many more tries each line names."""
    said = [each.args for each in caplog.records if each.module == "failing_seeds"]
    return [int("0" + "".join(filter(str.isdigit, args[-1]))) for args in said if isinstance(args, tuple)]


@pytest.mark.parametrize("ignore", [True, False], ids=["page", "robots"])
@pytest.mark.parametrize("kind", [FailureKind.REFUSED, FailureKind.DNS])
def test_it_is_tried_as_often_as_that_was_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: FailureKind, ignore: bool
) -> None:
    lab = laboratory(tmp_path, "dead.test", kind=kind, ignore=ignore)
    lab.run(DEAD, max_time=8.0)
    asked = len(lab.asked)
    lab.run(DEAD)
    total = len(lab.asked)
    assert named(caplog) == [total - 1, total - asked - 1]
    assert [record["outcome"] for record in lab.records()] == ["failed"]


def test_of_many_only_the_first_are_named_and_no_page_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = laboratory(tmp_path, *(f"h{number}.test" for number in range(9)))
    lab.settings = replace(lab.settings, retry=RetrySettings(tries=1))
    lab.pages["http://live.test/"] = "<a href='http://linked.test/'>dead too</a>"
    with caplog.at_level(logging.WARNING):
        lab.run("http://live.test/", *lab.pages)
    assert len([each for each in caplog.records if each.module == "failing_seeds"]) == 4
    assert lab.now - START < 60

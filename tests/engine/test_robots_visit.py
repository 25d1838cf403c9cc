"""What a host says of its rules, when it stops saying it, and what is done meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import PolitenessSettings, RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Failure, FailureKind, Response, robots_answers
from crawler.web.fetch.robots_answers import GoodCopy, RobotsCache, encode_robots
from tests.laboratory import SETTINGS, Laboratory, links
from tests.simulated_web import page

A = "http://a.test/"
ROBOTS = f"{A}robots.txt"
RULES = "User-agent: *\nDisallow: /private\nCrawl-delay: 3\n"
PAGES = [f"{A}{n}" for n in range(40)]
DOWN: dict[str, Response | Failure] = {
    "500": page("", status=500),
    "503": page("", status=503),
    "429": page("", status=429),
    "999": page("", status=999),
    "timeout": Failure(FailureKind.HEADERS_TIMEOUT, "no headers in 30 s", 30.0),
    "reset": Failure(FailureKind.CUT_OFF, "closed", 0.1),
    "dns": Failure(FailureKind.DNS, "no address", 0.1),
}


class Says:
    """A robots.txt that answers one thing after the other, and the last for ever."""

    def __init__(self, *answers: Response | Failure) -> None:
        self.answers = list(answers)

    def __call__(self, headers: Any) -> Response | Failure:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TTL": 30.0, "UNREACHABLE_TTL": 20.0}.items():
        monkeypatch.setattr(robots_answers, name, value)
    for place in ("frontier.backoff_policy.JITTER", "engine.robots_visit.JITTER", "frontier.retries._JITTER"):
        monkeypatch.setattr(f"crawler.{place}", 0.0)


def laboratory(tmp_path: Path, *answers: Response | Failure) -> Laboratory:
    web: dict[str, Any] = {A: links([*PAGES, f"{A}private"]), ROBOTS: Says(*answers)}
    web |= dict.fromkeys(PAGES, "a page")
    settings = replace(SETTINGS, robots=RobotsSettings(), politeness=PolitenessSettings(delay=1.0))
    return Laboratory(tmp_path, web, settings)


def outcomes(lab: Laboratory) -> dict[str, str]:
    return {record["url"]: record["outcome"] for record in lab.records()}


@pytest.mark.parametrize("down", [*DOWN][::3])
def test_the_last_good_copy_holds_while_the_file_is_unreachable(tmp_path: Path, down: str) -> None:
    lab = laboratory(tmp_path, page(RULES), DOWN[down], DOWN[down], page(RULES + "Disallow: /0\n"))
    assert lab.run(A) is Stop.FINISHED
    found = outcomes(lab)
    assert found.pop(f"{A}private") == "excluded"
    assert set(found.values()) == {"fetched"}, "nothing is forbidden that the copy allows"
    assert len(found) == 41
    asked = [each.begin for each in lab.requests_to("a.test") if each.href == ROBOTS]
    assert len(asked) >= 4
    assert asked[2] - asked[1] >= 20.0, "it is not asked again and again"


@pytest.mark.parametrize("down", [*DOWN][::3])
def test_without_a_copy_everything_is_forbidden(tmp_path: Path, down: str) -> None:
    lab = laboratory(tmp_path, DOWN[down])
    assert lab.run(A) is Stop.FINISHED
    (record,) = lab.records()
    assert record["outcome"] == ("excluded" if isinstance(DOWN[down], Response) else "failed")
    assert "robots.txt" in record["error"]
    assert [each.href for each in lab.asked if each.href != ROBOTS] == []


def test_the_copy_is_there_in_the_next_run_too(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, page(RULES), page("", status=500))
    assert lab.run(A, max_time=50.0) is Stop.MAX_TIME
    assert len([each for each in lab.asked if each.href == ROBOTS]) > 1, "it was asked again and answered 500"
    for _ in range(2):
        lab.now += 3_600.0
        lab.run(max_time=30.0)
    lab.now += 3_600.0
    assert lab.run() is Stop.FINISHED
    found = outcomes(lab)
    assert found.pop(f"{A}private") == "excluded"
    assert set(found.values()) == {"fetched"}


def test_a_copy_that_is_too_old_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_answers, "LAST_GOOD_TTL", 60.0)
    lab = laboratory(tmp_path, page(RULES), page("", status=500))
    assert lab.run(A) is Stop.FINISHED
    found = outcomes(lab)
    assert set(found.values()) == {"fetched", "excluded"}
    late = [record for record in lab.records() if record["error"] and "robots.txt answered 500" in record["error"]]
    assert late, "everything is forbidden by then"


def copies() -> Iterator[tuple[Response | Failure, bool]]:
    for answer in DOWN.values():
        yield answer, True
    yield page("", status=404), False
    yield page("User-agent: *"), False
    yield Failure(FailureKind.TOO_LARGE, "larger", 0.0), False


@pytest.mark.parametrize(("answer", "kept"), list(copies()))
def test_what_is_stored_of_an_answer(answer: Response | Failure, kept: bool) -> None:
    cache = RobotsCache(Laboratory(Path(), {}).store, "crawler")
    copy = GoodCopy(200, 1_000.0, b"User-agent: *\nDisallow: /x")
    robots = cache.decode(encode_robots(answer, 2_000.0, copy))
    assert robots.asked_at == 2_000.0
    assert robots.copy_of == (1_000.0 if kept else None)
    if kept:
        assert not robots.rules.allowed(f"{A}x")
        assert robots.rules.allowed(f"{A}y")
    without = cache.decode(encode_robots(answer, 2_000.0))
    assert without.copy_of is None
    assert without.unreachable is (kept or isinstance(answer, Failure))


PART = Failure(FailureKind.CUT_OFF, "closed", 0.1, partial=replace(page(RULES), truncated="length"))
FREE = "User-agent: *\nDisallow: /0\nCrawl-delay: 1\n"


@pytest.mark.parametrize("copied", [FREE, None])
@pytest.mark.parametrize(("body", "used"), [(RULES, True), (RULES + "Disallow: /", False), ("", False)])
def test_what_came_of_a_file_is_used_with_the_copy(tmp_path: Path, copied: str | None, body: str, used: bool) -> None:
    part = replace(PART, partial=replace(page(body), truncated="length"))
    lab = laboratory(tmp_path, *([page(copied)] if copied else []), part)
    assert lab.run(A) is Stop.FINISHED
    found = outcomes(lab)
    if copied is None:
        assert found[A] == ("fetched" if used else "failed")
    else:
        assert (found[f"{A}0"], found[f"{A}39"]) == ("excluded", "fetched")
    assert (found.get(f"{A}private") == "excluded") is used


def test_explain_says_which_copy_holds(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, page(RULES), page("", status=500))
    assert lab.run(A) is Stop.FINISHED
    host = lab.store.scan(Family.ROBOTS, b"")[0][0].decode()
    known = RobotsCache(lab.store, "crawler").get(host)
    assert known is not None
    assert "robots.txt" in known.answer_words
    assert known.copy_of is not None
    assert known.copy_of < known.asked_at

"""A page that may have killed the process is visited last of the whole crawl, and alone, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.engine.put_aside import WAIT_MOST
from crawler.frontier.entry import decode_entry, split_pending_key
from crawler.frontier.host import Host
from crawler.frontier.lease import Lease
from crawler.job.parsing_notes import ParsingNotes
from crawler.web.fetch.simulated import Answer
from tests.laboratory import Asked, Laboratory, links

FIRST = "http://a.test/"
HOSTS = [f"{name}.test" for name in "abcd"]
SUSPECT = "http://a.test/suspect"
PAGES: dict[str, Answer] = {
    FIRST: links([SUSPECT, *(f"http://{host}/{n}" for host in HOSTS for n in range(5))]),
    **{f"http://{host}/{n}": "" for host in HOSTS for n in range(5)},
}


def crash_while_reading(lab: Laboratory, *hrefs: str) -> None:
    """Leave what a crash leaves: the notes of pages that were being read."""
    notes = ParsingNotes(lab.directory)
    for key, value in [row for rows in lab.store.pages(Family.PENDING) for row in rows]:
        if decode_entry(value).href in hrefs:
            name, slot = split_pending_key(key)
            assert notes.begin(Lease(Host(name), slot, decode_entry(value), 0.0))


def requests_of(lab: Laboratory, href: str) -> list[Asked]:
    return [asked for asked in lab.asked if asked.href == href]


def is_alone(lab: Laboratory, href: str) -> bool:
    """Whether nothing else was in flight while the URL was."""
    (one,) = requests_of(lab, href)
    return all(other.end <= one.begin or other.begin >= one.end for other in lab.asked if other is not one)


@pytest.mark.parametrize(("key", "per_host"), [("host", 1), ("domain", 3)])
def test_it_is_visited_when_nothing_else_is_left_and_alone(tmp_path: Path, key: str, per_host: int) -> None:
    lab = Laboratory(tmp_path / "job", dict(PAGES), addresses=dict.fromkeys(HOSTS, "10.0.0.1"))
    lab.with_politeness(host_key=key, per_host=per_host)
    lab.run(FIRST, max_time=1.0)
    assert not requests_of(lab, SUSPECT)
    crash_while_reading(lab, SUSPECT)
    lab.run(FIRST)
    assert {record["url"] for record in lab.records()} == {*PAGES, SUSPECT}
    last = max(lab.asked, key=lambda asked: asked.begin)
    assert last.href == SUSPECT
    assert is_alone(lab, SUSPECT)
    before = [asked.end for asked in lab.requests_to("a.test") if asked is not last]
    assert last.begin - max(before) >= 1.0, "also it keeps the gap of its host"
    assert last.begin - sorted(asked.end for asked in lab.asked)[-2] < 3.0, "there was nothing to wait for"


def test_what_is_found_meanwhile_goes_before(tmp_path: Path) -> None:
    """Also on its own host, which is not kept waiting."""
    lab = Laboratory(tmp_path / "job", dict(PAGES))
    lab.run(FIRST, max_time=1.0)
    crash_while_reading(lab, SUSPECT)
    for number in range(30):
        lab.pages[f"http://b.test/{number}"] = links([f"http://b.test/{number + 1}"])
    lab.pages["http://b.test/20"] = links([f"http://a.test/new{number}" for number in range(5)])
    lab.run(FIRST)
    last = max(lab.asked, key=lambda asked: asked.begin)
    assert last.href == SUSPECT
    new = sorted(asked.begin for asked in lab.asked if "/new" in asked.href)
    assert len(new) == 5
    assert new[-1] - new[0] < 7.0, "at the pace of the host"


def test_a_crawl_that_never_comes_to_rest_does_not_lose_it(tmp_path: Path) -> None:
    class Endless(dict[str, Answer]):
        def get(self, href: str, default: object = None) -> object:  # type: ignore[override]
            if href.startswith("http://endless.test/"):
                return links([f"http://endless.test/{int(href.rpartition('/')[2]) + 1}"])
            return super().get(href, default)

    lab = Laboratory(tmp_path / "job", Endless(PAGES))
    lab.run(FIRST, "http://endless.test/0", max_time=1.0)
    crash_while_reading(lab, SUSPECT)
    begun = lab.now
    lab.run(FIRST, max_time=WAIT_MOST + 60.0)
    (asked,) = requests_of(lab, SUSPECT)
    assert WAIT_MOST <= asked.begin - begun < WAIT_MOST + 30.0
    assert is_alone(lab, SUSPECT)
    assert len(lab.requests_to("endless.test")) > WAIT_MOST / 2


def test_a_run_that_stops_first_leaves_it_for_the_next(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path / "job", dict(PAGES))
    lab.run(FIRST, max_time=1.0)
    crash_while_reading(lab, SUSPECT)
    lab.pages |= {f"http://b.test/{n}": links([f"http://b.test/{n + 1}"]) for n in range(20)}
    lab.run(FIRST, max_time=10.0)
    assert not requests_of(lab, SUSPECT)
    lab.run(FIRST)
    assert max(lab.asked, key=lambda asked: asked.begin).href == SUSPECT


def test_with_the_third_crash_it_has_failed_without_a_request(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path / "job", dict(PAGES))
    for _ in range(3):
        lab.run(FIRST, max_time=1.0)
        crash_while_reading(lab, SUSPECT)
    lab.run(FIRST)
    (record,) = [record for record in lab.records() if record["url"] == SUSPECT]
    assert (record["outcome"], record["status"]) == ("failed", None)
    assert "3" in record["error"]
    assert not requests_of(lab, SUSPECT)
    assert len(lab.records()) == len(PAGES) + 1

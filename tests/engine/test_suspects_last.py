"""A page that may have killed the process is visited last on its host, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.frontier.entry import decode_entry, split_pending_key
from crawler.frontier.host import Host
from crawler.frontier.lease import Lease
from crawler.job.parsing_notes import ParsingNotes
from tests.laboratory import Asked, Laboratory, links
from tests.simulated_web import Answer

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


@pytest.mark.parametrize(("key", "per_host"), [("host", 1), ("domain", 3)])
def test_it_is_visited_after_all_others_of_its_host(tmp_path: Path, key: str, per_host: int) -> None:
    lab = Laboratory(tmp_path / "job", dict(PAGES), addresses=dict.fromkeys(HOSTS, "10.0.0.1"))
    lab.with_politeness(host_key=key, per_host=per_host)
    lab.run(FIRST, max_time=1.0)
    assert not requests_of(lab, SUSPECT)
    crash_while_reading(lab, SUSPECT)
    lab.run(FIRST)
    assert {record["url"] for record in lab.records()} == {*PAGES, SUSPECT}
    last = max(lab.requests_to("a.test"), key=lambda asked: asked.begin)
    assert last.href == SUSPECT


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

"""A page that may have killed the process is visited last of the whole crawl, and alone, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from crawler.base.kv import Family
from crawler.engine.put_aside import REST, WAIT_MOST, Suspects
from crawler.engine.run import Run
from crawler.frontier import Entry, Host, Lease, decode_entry
from crawler.frontier.entry import fresh_slot, revisit_slot, split_pending_key
from crawler.frontier.outage import HOSTS as HOSTS_TO_TELL
from crawler.job.job import Job
from crawler.job.parsing_notes import ParsingNotes
from crawler.web.fetch import Failure, FailureKind
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


@pytest.mark.parametrize("key", ["host", "domain", "address"])
@pytest.mark.parametrize("per_host", [1, 3])
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


def test_several_are_visited_one_after_the_other(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path / "job", dict(PAGES))
    lab.run(FIRST, max_time=1.0)
    suspects = [SUSPECT, "http://b.test/3", "http://c.test/4"]
    crash_while_reading(lab, *suspects)
    lab.run(FIRST)
    in_order = [asked.href for asked in sorted(lab.asked, key=lambda asked: asked.begin)]
    assert set(in_order[-3:]) == set(suspects)
    assert all(is_alone(lab, href) for href in suspects)
    assert len(lab.records()) == len(PAGES) + 1


def test_a_failure_that_waits_for_its_meaning_is_still_in_flight(tmp_path: Path) -> None:
    """It has lent its slot, and its visit goes on when its meaning is known."""
    others = [f"h{number}.test" for number in range(HOSTS_TO_TELL)]
    bad = f"http://{others[0]}/bad"
    web: dict[str, Any] = {FIRST: links([SUSPECT]), **{f"http://{host}/": "" for host in others}}
    lab = Laboratory(tmp_path / "job", web)
    web[bad] = Failure(FailureKind.UNREACHABLE, "no route to the host", 0.0)
    seeds = [FIRST, *(f"http://{host}/" for host in others)]
    lab.run(*seeds, max_time=0.9)
    crash_while_reading(lab, SUSPECT)
    runs: list[Run] = []
    in_flight: list[int] = []

    def asked_for_suspect(_: Mapping[str, str]) -> Answer:
        in_flight.append(runs[0].stats()["urls_in_flight"])
        return ""

    async def look(run: Run, job: Job) -> None:
        runs.append(run)

    web[SUSPECT] = asked_for_suspect
    lab.run(*seeds, bad, during=look)
    assert in_flight == [1]


class Owner:
    """A run whose hosts may be asked from ``enters_at`` on."""

    def __init__(self) -> None:
        self.released: list[Lease] = []
        self.wants = True
        self.enters_at = 0.0

    def stand_back(self, lease: Lease) -> None: ...

    def enter(self, lease: Lease, now: float) -> float:
        return max(now, self.enters_at)

    def still_wants(self, lease: Lease) -> bool:
        return self.wants

    def release(self, lease: Lease) -> None:
        self.released.append(lease)


def lease(crashes: int = 1, number: int = 1) -> Lease:
    return Lease(Host("h.test:80"), fresh_slot(number, 7), Entry(f"http://h.test/{number}", 0, crashes=crashes), 0.0)


def test_only_what_may_be_asked_soon_is_waited_for() -> None:
    suspects, owner, one = Suspects[Owner](), Owner(), lease()
    assert not suspects.holds(owner, lease(crashes=0), 0.0)
    assert suspects.holds(owner, one, 0.0)
    assert suspects.turn(5.0, [5.0 + REST - 1]) is None
    assert not suspects.bars(5.0)
    assert suspects.turn(5.0, [5.0 + REST]) == (owner, one)
    assert suspects.bars(5.0), "it is alone"
    assert not suspects.holds(owner, one, 5.0), "it has its turn"
    suspects.ended(lease())
    assert suspects.bars(5.0), "that was another"
    suspects.ended(one)
    assert not suspects.bars(5.0)


def test_the_gap_of_its_host_is_kept() -> None:
    suspects, owner, one = Suspects[Owner](), Owner(), lease()
    suspects.holds(owner, one, 0.0)
    owner.enters_at = 3.0
    assert suspects.turn(1.0, []) is None
    assert 3.0 in suspects.next_time(1.0)
    assert suspects.turn(3.0, []) == (owner, one)


def test_a_wait_is_counted_from_the_first_time_that_it_is_put_aside() -> None:
    suspects, owner, one = Suspects[Owner](), Owner(), lease()
    suspects.holds(owner, one, 0.0)
    owner.wants = False
    suspects.give_back(1.0)
    assert owner.released == [one]
    assert list(suspects.next_time(1.0)) == []
    owner.wants = True
    suspects.holds(owner, one, 10.0)
    suspects.give_back(11.0)
    assert owner.released == [one]
    assert not suspects.bars(WAIT_MOST - 1)
    assert list(suspects.next_time(11.0)) == [WAIT_MOST]
    assert suspects.bars(WAIT_MOST), "then nothing else is handed out"
    assert suspects.turn(WAIT_MOST, [WAIT_MOST]) == (owner, one)


def test_two_of_one_host_do_not_give_way_to_each_other_for_ever() -> None:
    suspects, owner, one, other = Suspects[Owner](), Owner(), lease(number=1), lease(number=2)
    one.host.queue.size, one.host.queue.taken = 2, 1
    one.host.queue.window = [other.slot + b"row"]
    suspects.holds(owner, one, 0.0)
    suspects.give_back(1.0)
    assert owner.released == []


def test_a_revisit_is_not_given_back_for_first_visits() -> None:
    """Revisits have turns of their own: it would be handed out again at once, and so on for ever."""
    suspects, owner, one = Suspects[Owner](), Owner(), lease()
    again = Lease(one.host, revisit_slot(1), one.entry, 0.0)
    one.host.queue.size, one.host.queue.taken = 2, 1
    one.host.queue.window = [fresh_slot(0, 0) + b"row"]
    assert suspects.holds(owner, again, 0.0)
    suspects.give_back(1.0)
    assert owner.released == []
    assert suspects.holds(owner, one, 1.0)
    suspects.give_back(2.0)
    assert owner.released == [one]


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
    assert record["error"] == "internal: the crawler died 3 times while it read the page"
    assert not requests_of(lab, SUSPECT)
    assert len(lab.records()) == len(PAGES) + 1

"""Clocks that are set between two runs: what was asked for by servers holds all the same."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.clock import Anchor, SteadyClock
from crawler.base.kv import Family
from crawler.base.settings.parts import RetrySettings
from crawler.engine.judge import parse_retry_after
from crawler.engine.lifecycle import Stop
from crawler.job.clock_anchor import CLOCK, encode_anchor, follow_clock, job_time, stored_anchor
from crawler.web.fetch import Response
from tests.laboratory import START, Laboratory
from tests.memory_store import MemoryStore

BOOT = "0b0e5f0c-6f5e-4b4a-9d6e-000000000001"
OTHER = "0b0e5f0c-6f5e-4b4a-9d6e-000000000002"


def status(code: int, retry_after: str | None = None) -> Response:
    return Response(code, {}, "text/html", "utf-8", b"", None, retry_after, 0.0, 0)


THROTTLED = status(503, "600")


def laboratory(tmp_path: Path, answer: Response) -> Laboratory:
    pages = {"http://a.test/": answer, "http://a.test/other": "there"}
    return Laboratory(tmp_path / "job", pages, anchor=Anchor(BOOT, START - 5_000))


def moved(lab: Laboratory, by: float) -> Laboratory:
    """Somebody sets the clock of the machine."""
    assert lab.anchor is not None
    lab.now += by
    lab.anchor = replace(lab.anchor, offset=lab.anchor.offset + by)
    return lab


@pytest.mark.parametrize("by", [3_600.0, -3_600.0, 86_400.0, -86_400.0])
def test_retry_after_holds_over_a_clock_that_is_set_between_two_runs(by: float, tmp_path: Path) -> None:
    lab = laboratory(tmp_path, THROTTLED)
    lab.run("http://a.test/", "http://a.test/other", max_time=100)
    assert len(lab.asked) == 1
    moved(lab, by)
    lab.run("http://a.test/", max_time=510)
    again = lab.asked[1:]
    assert [asked.begin - by - lab.asked[0].end for asked in again] == [pytest.approx(600, abs=2)]


@pytest.mark.parametrize("by", [3_600.0, -3_600.0])
def test_so_does_the_wait_of_a_url_for_its_next_try(by: float, tmp_path: Path) -> None:
    lab = laboratory(tmp_path, status(500))
    lab.settings = replace(lab.settings, retry=RetrySettings(tries=2, first_wait=300))
    lab.run("http://a.test/", max_time=20)
    moved(lab, by)
    assert lab.run("http://a.test/") is Stop.FINISHED
    first, second = lab.asked
    assert second.begin - by - first.end == pytest.approx(315, abs=16)
    assert [record["status"] for record in lab.records()] == [500]


def test_after_a_boot_nobody_can_tell_and_the_longest_that_is_allowed_is_the_bound(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, THROTTLED)
    lab.run("http://a.test/", max_time=100)
    lab.now += 3_600
    lab.anchor = Anchor(OTHER, START)
    lab.run("http://a.test/", max_time=100)
    assert lab.asked[1].begin == pytest.approx(lab.now - 100 + 1, abs=1), "an hour has passed, for all that is known"
    assert stored_anchor(lab.store) == lab.anchor


def test_a_pause_moves_nothing(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, THROTTLED)
    lab.run("http://a.test/", max_time=100)
    before = lab.store.scan(Family.HOSTS, b"")
    lab.now += 200
    told: list[str] = []
    batch = lab.store.batch()
    follow_clock(lab.store, lab.anchor, lab.now, told.append, batch)
    assert told == [] == batch.changes
    assert lab.store.scan(Family.HOSTS, b"") == before


def test_a_date_to_wait_for_is_read_by_the_clock_of_who_sent_it() -> None:
    until, sent = "Tue, 14 Nov 2023 22:15:00 GMT", "Tue, 14 Nov 2023 22:14:00 GMT"
    for own in (START, START + 3_600, START - 3_600):
        assert parse_retry_after(until, own, sent) == 60.0
        for odd in ("soon", "\udcff", "Tue, 14 Nov 99999 22:14:00 GMT", "Mon, 01 Jan 0001 00:00:00 +2359"):
            assert parse_retry_after(odd, own, sent) in (None, 0.0)
    assert parse_retry_after(until, START + 40, None) == 60.0
    assert parse_retry_after(until, START + 40, "yesterday") == 60.0
    assert parse_retry_after(until, START, "Tue, 14 Nov 2023 22:16:00 GMT") == 0.0


def test_who_looks_at_a_job_sees_its_times_by_the_clock_that_wrote_them(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    anchor = SteadyClock().anchor
    assert anchor is not None
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 3_600)
    assert job_time(store) == pytest.approx(wall() + 3_600, abs=5), "a job that left nothing"
    for boot, off in ((anchor.boot, 0.0), (OTHER, 3_600.0)):
        batch = store.batch()
        batch.put(Family.META, CLOCK, encode_anchor(Anchor(boot, anchor.offset)))
        store.write(batch)
        assert job_time(store) == pytest.approx(wall() + off, abs=5)

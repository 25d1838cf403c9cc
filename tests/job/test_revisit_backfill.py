"""A crawl that is to visit its pages again from some run on: those of the runs before are visited, too."""

from __future__ import annotations

import asyncio
import json
import struct
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings import PriorityRule, RecrawlSettings, TrapSettings
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.frontier import Entry, Order, Revisits
from crawler.job.job import Job
from crawler.job.records import Counters, Outcome, PageRecord, encode_page
from crawler.job.recovery import stored_counters
from crawler.job.revisit_backfill import OVERTAKEN, RevisitBackfill, stored_state
from crawler.job.store import MemoryStore
from crawler.url.scope import PriorityRules
from crawler.web.fetch import Failure, FailureKind
from crawler.web.fetch.simulated import redirect
from tests.jobs import findings
from tests.laboratory import START, Laboratory, links

PAGES: dict[str, Any] = {
    "http://a.test/": links([f"/{n}" for n in range(30)]),
    **{f"http://a.test/{n}": links(["/"]) for n in range(28)},
    "http://a.test/28": redirect("/27"),
    "http://a.test/29": Failure(FailureKind.REFUSED, "connection refused", 0.0),
}
RECRAWL = RecrawlSettings(enabled=True, first_interval=1_000.0, min_interval=10.0)


def laboratory(tmp_path: Path) -> Laboratory:
    lab = Laboratory(tmp_path / "job", dict(PAGES)).with_politeness(delay=0.1, backoff_first=0.1, snooze_after=0)
    retry = replace(lab.settings.retry, tries=1)
    lab.settings = replace(lab.settings, retry=retry, traps=TrapSettings(max_variants=0))
    return lab


def recrawling(lab: Laboratory, **changes: Any) -> Laboratory:
    lab.settings = replace(lab.settings, recrawl=replace(RECRAWL, **changes))
    return lab


def visits(lab: Laboratory) -> dict[str, list[float]]:
    found = defaultdict(list)
    for asked in lab.asked:
        found[asked.href].append(asked.begin)
    return found


def test_pages_of_runs_without_the_flag_are_visited_when_they_are_due(tmp_path: Path) -> None:
    lab = laboratory(tmp_path)
    assert lab.run("http://a.test/") is Stop.FINISHED
    ended = {record["url"]: record for record in lab.records()}
    assert len(ended) == 31
    lab.now += 300
    recrawling(lab).run("http://a.test/", max_time=650)
    assert len(lab.asked) == 31, "none is due yet"
    assert stored_counters(lab.store).scheduled == 31
    assert findings(lab.directory, lab.store, stored_counters(lab.store)) == []
    assert stored_state(lab.store)[0]
    lab.run("http://a.test/", max_time=100)
    for href, times in visits(lab).items():
        assert len(times) == 2, href
        assert times[1] - times[0] == pytest.approx(1_000, abs=5)
    again = lab.records()[31:]
    assert {record["url"]: record["visit"] for record in again} == dict.fromkeys(ended, 2)
    assert {record["changed"] for record in again} == {None}, "nobody knows what the visit before found"
    assert {record["depth"] == ended[record["url"]]["depth"] for record in again} == {True}
    lab.run("http://a.test/", max_time=1_500)
    assert {record["changed"] for record in lab.records()[62:] if record["url"] != "http://a.test/29"} == {False}


def test_pages_that_are_long_overdue_are_visited_at_once_and_in_the_order_of_their_records(tmp_path: Path) -> None:
    lab = laboratory(tmp_path)
    lab.run("http://a.test/")
    lab.now += 1e7
    recrawling(lab).run("http://a.test/", max_time=60)
    assert all(len(times) == 2 for times in visits(lab).values())


@pytest.mark.parametrize("lines", [1, 7])
def test_what_was_looked_at_is_not_looked_at_again_whenever_the_run_dies(
    lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.job.revisit_backfill.LINES", lines)
    lab = laboratory(tmp_path)
    lab.run("http://a.test/")
    lab.now += 100
    states = []

    async def die(crawl: Run, job: Job) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        crawl.stop(Stop.INTERRUPTED)

    recrawling(lab)
    for _ in range(100):
        lab.run("http://a.test/", during=die)
        following, at = stored_state(lab.store)
        states.append(at)
        assert findings(lab.directory, lab.store, stored_counters(lab.store)) == []
        if following:
            break
    assert states == sorted(states)
    assert len(states) > 1
    assert stored_counters(lab.store).scheduled == 31
    assert len(lab.asked) == 31


def test_the_flag_may_come_and_go(tmp_path: Path) -> None:
    lab = laboratory(tmp_path)
    with_it, without = replace(RECRAWL), RecrawlSettings()
    late = {}
    for turn, how in enumerate([without, with_it, without, with_it, with_it, without]):
        lab.settings = replace(lab.settings, recrawl=how)
        late[turn] = f"http://a.test/late{turn}"
        lab.pages[late[turn]] = "text"
        lab.run("http://a.test/", late[turn], max_time=50)
        lab.now += 10
    assert not stored_state(lab.store)[0]
    before = len(lab.asked)
    assert before == 31 + 6
    lab.settings = replace(lab.settings, recrawl=with_it)
    lab.run("http://a.test/", max_time=1_000)
    assert Counter(asked.href for asked in lab.asked) == dict.fromkeys([*PAGES, *late.values()], 2)
    assert findings(lab.directory, lab.store, stored_counters(lab.store)) == []


def test_rules_choose_the_class_and_what_somebody_wrote_in_the_file_does_no_harm(tmp_path: Path) -> None:
    record = PageRecord(Entry("http://a.test/2", 3, "http://a.test/"), Outcome.FETCHED, START, 200)
    row = json.loads(encode_page(record))
    odd = [
        {**row, "url": "http://a.test/\u00fc"},
        {**row, "url": "ftp://a.test/"},
        {**row, "url": "http://a.test/x", "via": "a\nb"},
        {**row, "url": "http://a.test/y", "fetched_at": "yesterday"},
        {**row, "url": "http://a.test/z", "fetched_at": None},
        {**row, "url": "http://a.test/excluded", "outcome": "excluded"},
        {**row, "url": 7},
        {**row, "url": "http://a.test/late", "depth": -1, "via": 7},
        [],
        row,
        row,
    ]
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"\n".join(json.dumps(each).encode() for each in odd) + b"\n\xff\n" + b"x" * 3_000_000 + b"\n{")
    store, counters = MemoryStore(), Counters()
    batch = store.batch()
    batch.put(Family.META, OVERTAKEN, struct.pack("<B", 1))  # what cannot be read says nothing
    store.write(batch)
    rules = PriorityRules((PriorityRule(pattern="/2*", class_=5),))
    revisits = Revisits(store, RECRAWL, lambda _: 0.0)
    backfill = RevisitBackfill(store, revisits, counters, rules, Order.BREADTH)
    told: list[str] = []
    backfill.load(path, path.stat().st_size, told.append, store.batch())
    assert len(told) == 1
    while backfill.left:
        batch = store.batch()
        backfill.step(batch)
        store.write(batch)
    assert counters.scheduled == 2
    page, late = revisits.page("http://a.test/2"), revisits.page("http://a.test/late")
    assert page is not None
    assert late is not None
    assert (page.due, page.visits, page.entry) == (START + 1_000, 1, record.entry._replace(priority=5, revisit=True))
    assert (late.entry.depth, late.entry.via) == (0, None)
    assert stored_state(store)[0]


@pytest.mark.parametrize("lines", [1, 2, 256])
@pytest.mark.parametrize(("outcomes", "visits"), [(("fetched", "fetched"), 2), (("fetched", "excluded", "failed"), 3)])
def test_visits_of_pages_that_were_put_back_are_counted(
    outcomes: tuple[str, ...], visits: int, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.job.revisit_backfill.LINES", lines)
    row = json.loads(encode_page(PageRecord(Entry("http://a.test/", 0), Outcome.FETCHED, START, 200)))
    at = row["fetched_at"]
    odd = [{**row, "visit": number} for number in (0, -1, 2**32, "7")]
    rows = [
        {**row, "outcome": outcome, "visit": number, "fetched_at": f"2100-01-01T00:00:0{number}Z" if number > 1 else at}
        for number, outcome in enumerate(outcomes, 1)
    ]
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in [*odd, *rows]))
    store, counters = MemoryStore(), Counters()
    revisits = Revisits(store, RECRAWL, lambda _: 0.0)
    backfill = RevisitBackfill(store, revisits, counters, PriorityRules(()), Order.BREADTH)
    backfill.load(path, path.stat().st_size, lambda _: None, store.batch())
    while backfill.left:
        batch = store.batch()
        backfill.step(batch)
        store.write(batch)
    page = revisits.page("http://a.test/")
    assert page is not None
    assert page.visits == visits, "the next record has the next number"
    assert page.due == START + RECRAWL.first_interval, "after the first record, not after the last"
    assert counters.scheduled == 1


def test_a_file_that_is_cut_meanwhile_has_no_more_to_say(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"")
    store = MemoryStore()
    revisits = Revisits(store, RECRAWL, lambda _: 0.0)
    backfill = RevisitBackfill(store, revisits, Counters(), PriorityRules(()), Order.BREADTH)
    backfill.load(path, 1_000, lambda _: None, store.batch())
    assert backfill.left
    assert not backfill.step(store.batch())

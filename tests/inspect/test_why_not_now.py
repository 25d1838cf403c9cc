"""What ``explain`` and the table of hosts say of hosts that are not asked now: in numbers, and only what is true."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings import PolitenessSettings, RobotsSettings
from crawler.engine.run import Run
from crawler.frontier import HostState
from crawler.inspect.explanation import CrawlNow, Explanation, Known, NextTry, SeenAnswer, Wait, explain
from crawler.job.job import Job
from crawler.service.explanation_text import explanation_lines
from crawler.service.run_view import crawl_now
from tests.laboratory import Laboratory, links


class Looked:
    """Looks at a crawl in the laboratory as the dashboard does, and as another process does (``beside``)."""

    def __init__(self, lab: Laboratory, run: Run, job: Job) -> None:
        self.lab, self.run, self.job = lab, run, job

    @property
    def now(self) -> float:
        return self.lab.now + asyncio.get_running_loop().time()

    def states(self) -> dict[str, str]:
        names = [key.decode() for key, _ in self.job.store.rows(Family.HOSTS)]
        rows = [self.job.frontier.describe(name, self.now, self.run.serving) for name in names]
        return {row.host: row.state.value for row in rows if row is not None}

    def explanation(self, href: str, crawl: CrawlNow | None = None, *, beside: bool = False) -> Explanation:
        now, name = self.now, href.split("/")[2] + ":80"
        host = self.job.frontier.snapshot(name, now, self.run.serving)
        known = Known(
            self.job.directory,
            self.lab.settings,
            self.job.seen.hash,
            self.job.store,
            lambda _: SeenAnswer(True, "exact", True, 0.0, [], 0, forgeable=False),
            lambda _: None if beside else host,
            crawl or crawl_now(self.run, name, now),
        )
        (found,) = [each for each in explain(known, href, now) if each is not None]
        assert found.damage is None
        return found

    def next(self, href: str, crawl: CrawlNow | None = None, *, beside: bool = False) -> NextTry:
        place = self.explanation(href, crawl, beside=beside).place
        assert place is not None
        assert place.next is not None
        return place.next

    def beside(self) -> CrawlNow:
        """What a process beside the crawl knows."""
        return replace(crawl_now(self.run, None, self.now), turn=None, in_line=None)


def watched(lab: Laboratory, look: Callable[[Looked], Any], **how: Any) -> list[Any]:
    """What ``look`` returned in a run over all pages."""
    found, wrong = list[Any](), list[AssertionError]()

    async def during(run: Run, job: Job) -> None:
        try:
            found.append(await look(Looked(lab, run, job)))
        except AssertionError as error:
            wrong.append(error)

    seeds = [href for href in lab.pages if href.endswith("/")]
    lab.run(*seeds, during=during, **how)
    for error in wrong:
        raise error
    assert found, "the crawl ended before the look"
    return found


def hosts(number: int, pages: int = 2) -> dict[str, Any]:
    return {f"http://h{n}.test/": links([f"/{m}" for m in range(1, pages + 1)]) for n in range(number)}


def with_slots(lab: Laboratory, slots: int, **politeness: Any) -> Laboratory:
    crawl = replace(lab.settings.crawl, concurrency=slots)
    lab.settings = replace(lab.settings, crawl=crawl, politeness=PolitenessSettings(**politeness))
    return lab


def test_the_number_of_hosts_before_one_is_the_number_that_is_asked_before_it(tmp_path: Path) -> None:
    lab = with_slots(Laboratory(tmp_path / "job", hosts(40)), 1, session_pages=1)

    async def look(at: Looked) -> tuple[float, dict[str, int], set[str]]:
        await asyncio.sleep(12.3)  # all were asked once, some twice
        due = [name for name, state in at.states().items() if state == HostState.QUEUED]
        upcoming = {name: at.next(f"http://{name[:-3]}/2") for name in due}
        assert len(due) > 25
        before = {}
        for name, next_try in upcoming.items():
            assert next_try.waits_for is Wait.SLOT
            assert next_try.turn is not None
            assert not next_try.turn.at_least
            assert not next_try.turn.starved
            before[name] = next_try.turn.before
            # A process beside it counts by the records, and never too many.
            outside = at.next(f"http://{name[:-3]}/2", at.beside(), beside=True)
            assert outside.turn is not None
            assert outside.turn.at_least
            assert before[name] - 1 <= outside.turn.before <= before[name]
        assert at.run.stats()["hosts_overlooked"] == {"count": 0, "names": []}
        return at.now, before, set(due)

    ((at, before, due),) = watched(lab, look, max_time=30)
    later = [asked.href.split("/")[2] + ":80" for asked in lab.asked if asked.begin > at]
    order = list(dict.fromkeys(name for name in later if name in due))
    assert len(order) == len(due)
    assert [before[name] for name in order] == list(range(len(order)))


def test_a_host_is_called_ready_only_if_it_is_asked_at_once(tmp_path: Path) -> None:
    lab = with_slots(Laboratory(tmp_path / "job", hosts(30, 6), slow={"h3.test": 4.0, "h4.test": 9.0}), 4, delay=1.5)
    ready: list[tuple[float, str]] = []
    others: list[str] = []

    async def look(at: Looked) -> bool:
        for _ in range(150):
            await asyncio.sleep(0.237)
            states = at.states()
            ready.extend((at.now, name) for name, state in states.items() if state == "ready")
            others.extend(state for state in states.values() if state != "ready")
            for name in ("h0.test:80", "h29.test:80"):
                place = at.explanation(f"http://{name[:-3]}/6").place
                if place is not None and place.next is not None and place.next.waits_for is Wait.NOTHING:
                    ready.append((at.now, name))
        return True

    assert watched(lab, look, max_time=60) == [True]
    assert {"queued", "leased", "waiting"} <= set(others)
    for at, name in ready:
        asked = [each.begin for each in lab.requests_to(name[:-3]) if each.begin >= at]
        assert asked, name
        assert min(asked) == at, name


def test_a_host_whose_robots_txt_is_in_flight_says_so(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path / "job", hosts(1), slow={"h0.test": 8.0})
    lab.settings = replace(lab.settings, robots=RobotsSettings())

    async def look(at: Looked) -> tuple[NextTry, Explanation, dict[str, str], Any]:
        await asyncio.sleep(4)
        outside = at.next("http://h0.test/", at.beside(), beside=True)
        assert outside.waits_for is Wait.HOST_ROBOTS
        return (
            at.next("http://h0.test/"),
            at.explanation("http://h0.test/"),
            at.states(),
            at.run.stats()["hosts_by_state"],
        )

    began = lab.now
    ((upcoming, found, states, counts),) = watched(lab, look)
    assert upcoming == NextTry(Wait.HOST_ROBOTS, reason="robots.txt is being fetched", since=pytest.approx(began))
    assert found.robots is not None
    assert found.robots.fetching_since == pytest.approx(began)
    assert states == {"h0.test:80": "robots"}
    assert (counts["robots"], counts["ready"], counts["leased"]) == (1, 0, 0)
    lines = dict(explanation_lines(found))
    assert lines["next"].startswith("when robots.txt of its host was fetched, since 20")
    assert lines["robots asked"].startswith("being fetched since 20")


def test_a_robots_txt_that_has_expired_is_told(tmp_path: Path) -> None:
    lab = with_slots(Laboratory(tmp_path / "job", hosts(3, 9)), 8, delay=20.0)
    lab.settings = replace(lab.settings, robots=RobotsSettings(ttl=30.0))

    async def look(at: Looked) -> list[tuple[float, Explanation]]:
        found = []
        for _ in range(30):
            await asyncio.sleep(5)
            found.append((at.now, at.explanation("http://h0.test/9")))
        return found

    (looks,) = watched(lab, look)
    robots = [(at, found.robots) for at, found in looks if found.robots is not None and found.robots.until is not None]
    assert {answer.expired for _, answer in robots} == {True, False}
    for at, answer in robots:
        assert answer.until is not None
        assert answer.expired == (answer.until <= at) or not answer.expired  # it was fetched for the next page
    told = [dict(explanation_lines(found)) for _, found in looks]
    assert any("fetched again before the next page" in lines.get("robots expired", "") for lines in told)


def test_of_slots_it_is_told_who_holds_them_the_longest_first(tmp_path: Path) -> None:
    slow = {f"s{n}.test": 40.0 for n in range(3)}
    pages = {f"http://{name}/": links(["/1"]) for name in slow} | hosts(5)
    lab = with_slots(Laboratory(tmp_path / "job", pages, slow=slow), 3)

    async def look(at: Looked) -> tuple[NextTry, list[str], Any]:
        await asyncio.sleep(20)
        found = at.explanation("http://h4.test/")
        return at.next("http://h4.test/"), [what for what, _ in explanation_lines(found)], at.run.stats()["slots"]

    ((upcoming, subjects, told),) = watched(lab, look)
    assert upcoming.waits_for is Wait.SLOT
    slots = upcoming.slots
    assert slots is not None
    assert (slots.total, slots.free, slots.quick, slots.new, slots.slow) == (3, 0, 0, 3, 0)
    assert [holder.url for holder in slots.longest] == [f"http://s{n}.test/" for n in range(3)]
    assert all(one.since <= other.since for one, other in itertools.pairwise(slots.longest))
    assert subjects.count("slot held") == 3
    assert (told["total"], told["free"], told["new"], told["due_wait_for"]) == (3, 0, 3, "slot")


def test_a_host_that_gets_no_slot_although_some_are_free_says_for_which_kind(tmp_path: Path) -> None:
    """Slow hosts hold their share; others are starved meanwhile, and asked later."""
    slow = {f"s{n}.test": 30.0 for n in range(12)}
    pages = {f"http://{name}/": links([f"/{m}" for m in range(9)]) for name in slow} | hosts(6, 60)
    lab = with_slots(Laboratory(tmp_path / "job", pages, slow=slow), 8, delay=0.7)

    async def look(at: Looked) -> list[tuple[NextTry, str, int]]:
        found = []
        for _ in range(15):
            await asyncio.sleep(3.7)
            states = at.states()
            for name in ("s0.test", "s5.test", "s11.test"):
                place = at.explanation(f"http://{name}/8").place
                if place is not None and place.next is not None and place.next.waits_for is Wait.SLOT:
                    found.append((place.next, states[f"{name}:80"], at.run.slots.free))
        return found

    (looks,) = watched(lab, look, max_time=60)
    shut = [(upcoming, state) for upcoming, state, free in looks if upcoming.slots is not None and free]
    assert shut, "slots are free, and slow hosts get none of them"
    for upcoming, state in shut:
        assert state == "queued"
        assert upcoming.slots is not None
        assert "slow" in upcoming.slots.shut_to
        assert upcoming.slots.slow + upcoming.slots.new > 0
    assert any(upcoming.turn is not None and upcoming.turn.starved for upcoming, _ in shut)


def test_the_rate_limit_is_told_with_the_time_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr("asyncio_throttle.throttler.time", clock)
    lab = with_slots(Laboratory(tmp_path / "job", hosts(40)), 8, rate=2.0, session_pages=1)

    async def look(at: Looked) -> tuple[float, NextTry]:
        await asyncio.sleep(10.1)
        return at.now, at.next("http://h39.test/")

    ((at, upcoming),) = watched(lab, look)
    assert upcoming.waits_for is Wait.RATE
    assert upcoming.turn is not None
    asked = lab.requests_to("h39.test")[0].begin
    assert upcoming.rate_seconds is not None
    assert 0.5 * (asked - at) < upcoming.rate_seconds <= asked - at, "hosts that were asked have turns in between"


def test_a_crawl_that_is_paused_says_so_and_calls_no_host_ready(tmp_path: Path) -> None:
    lab = with_slots(Laboratory(tmp_path / "job", hosts(20)), 4)

    async def look(at: Looked) -> tuple[NextTry, dict[str, str]]:
        await asyncio.sleep(1)
        at.run.hold()
        await asyncio.sleep(30)
        return at.next("http://h19.test/"), at.states()

    ((upcoming, states),) = watched(lab, look, max_time=40)
    assert (upcoming.waits_for, upcoming.reason) == (Wait.CRAWL, "paused by user")
    assert set(states.values()) == {"queued"}


def test_hosts_of_one_group_say_how_many_are_before_them(tmp_path: Path) -> None:
    pages = {f"http://a{n}.group.test/": links(["/1", "/2"]) for n in range(12)}
    lab = with_slots(Laboratory(tmp_path / "job", pages), 4, host_key="domain", delay=5.0)

    async def look(at: Looked) -> list[NextTry]:
        await asyncio.sleep(12)
        places = [at.explanation(f"http://a{n}.group.test/").place for n in range(12)]
        return [place.next for place in places if place is not None and place.next is not None]

    (found,) = watched(lab, look, max_time=20)
    lines = sorted(each.in_line for each in found if each.waits_for is Wait.HOST_GROUP and each.in_line is not None)
    assert lines == list(range(len(lines)))
    assert len(lines) >= 7
    assert Wait.NOTHING not in {each.waits_for for each in found}


def test_of_a_stopped_job_it_says_how_many_hosts_go_first_when_it_resumes(tmp_path: Path) -> None:
    lab = with_slots(Laboratory(tmp_path / "job", hosts(40)), 4, session_pages=1)
    found: list[NextTry] = []

    async def look(at: Looked) -> int:
        await asyncio.sleep(1.1)
        at.run.hold()
        await asyncio.sleep(20)
        found.extend(at.next(f"http://h{n}.test/", CrawlNow(), beside=True) for n in range(30, 40))
        return len({asked.href.split("/")[2] for asked in lab.asked})

    (met,) = watched(lab, look, max_time=30)
    turns = [each.turn for each in found if each.turn is not None]
    assert all(turn.at_least and turn.asked_at is None for turn in turns)
    assert [turn.before for turn in turns] == list(range(turns[0].before, turns[0].before + 10))
    assert turns[0].before == 30 - met, "those that were asked come later"
    assert [each.waits_for is Wait.NOTHING for each in found] == [turn.before < 4 for turn in turns]

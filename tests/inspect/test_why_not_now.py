"""What ``explain`` and the table of hosts say of hosts that are not asked now: in numbers, and only what is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import PolitenessSettings
from crawler.engine.run import Run
from crawler.frontier.host_status import HostState
from crawler.inspect.explanation import CrawlNow, Explanation, Known, NextTry, SeenAnswer, Wait, explain
from crawler.job.job import Job
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
    lab = with_slots(Laboratory(tmp_path / "job", hosts(40)), 1)

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


def test_a_crawl_that_is_paused_says_so_and_calls_no_host_ready(tmp_path: Path) -> None:
    lab = with_slots(Laboratory(tmp_path / "job", hosts(20)), 4)

    async def look(at: Looked) -> tuple[NextTry, dict[str, str]]:
        await asyncio.sleep(1)
        at.run.hold()
        await asyncio.sleep(30)
        return at.next("http://h19.test/"), at.states()

    ((_upcoming, states),) = watched(lab, look, max_time=40)
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
    lab = with_slots(Laboratory(tmp_path / "job", hosts(40)), 4)
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

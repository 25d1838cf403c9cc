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
from crawler.inspect.explanation import Explanation, Known, NextTry, SeenAnswer, Wait, explain
from crawler.job.job import Job
from crawler.service.run_view import crawl_now
from tests.laboratory import Laboratory, links


class Looked:
    """Looks at a crawl in the laboratory as the dashboard does,."""

    def __init__(self, lab: Laboratory, run: Run, job: Job) -> None:
        self.lab, self.run, self.job = lab, run, job

    @property
    def now(self) -> float:
        return self.lab.now + asyncio.get_running_loop().time()

    def states(self) -> dict[str, str]:
        names = [key.decode() for key, _ in self.job.store.rows(Family.HOSTS)]
        rows = [self.job.frontier.describe(name, self.now, self.run.serving) for name in names]
        return {row.host: row.state.value for row in rows if row is not None}

    def explanation(self, href: str) -> Explanation:
        now, name = self.now, href.split("/")[2] + ":80"
        host = self.job.frontier.snapshot(name, now, self.run.serving)
        known = Known(
            self.job.directory,
            self.lab.settings,
            self.job.seen.hash,
            self.job.store,
            lambda _: SeenAnswer(True, "exact", True, 0.0, [], 0, forgeable=False),
            lambda _: host,
            crawl_now(self.run),
        )
        found = explain(known, href, now)
        assert found.damage is None
        return found

    def next(self, href: str) -> NextTry:
        place = self.explanation(href).place
        assert place is not None
        assert place.next is not None
        return place.next


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

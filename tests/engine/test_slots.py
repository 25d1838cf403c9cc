"""A visit that only waits lends its slot, so that hosts whose bodies must wait keep no other host from being asked."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.engine.lifecycle import Stop
from crawler.engine.run import GRACE, Run
from crawler.engine.slots import LEND_AFTER, Slots
from crawler.job.job import Job
from crawler.web.fetch import Response
from crawler.web.fetch.simulated import page
from tests.laboratory import SETTINGS, START, Laboratory, links
from tests.virtual import run_virtually

SLOTS = SETTINGS.crawl.concurrency
PAGES = 40
WAIT = 30.0  # seconds
LARGE = [f"large{number}.test" for number in range(2 * SLOTS - 1)]


def beside_large_bodies(directory: Path, hosts: list[str], pages: int = PAGES) -> Laboratory:
    """A site of so many pages, and hosts whose every body waits for memory."""
    web = {f"http://innocent.test/{number}": page(f"<p>number {number}") for number in range(1, pages)}
    web["http://innocent.test/0"] = page(links([f"/{number}" for number in range(1, pages)]))
    web |= {f"http://{name}/": page(f"<p>{name}" + links(["/more"])) for name in hosts}
    web |= {f"http://{name}/more": page(f"<p>more of {name}") for name in hosts}
    laboratory = Laboratory(directory, web, waits=dict.fromkeys(hosts, WAIT))
    return laboratory.with_politeness(delay=1.0)


def sitemap(listed: list[str]) -> Response:
    return replace(
        page(f"<urlset>{''.join(f'<url><loc>{href}</loc></url>' for href in listed)}</urlset>"), content_type="text/xml"
    )


def seeds_of(hosts: list[str]) -> list[str]:
    return [*(f"http://{name}/" for name in hosts), "http://innocent.test/0"]


def test_hosts_whose_bodies_wait_keep_no_other_from_being_asked(tmp_path: Path) -> None:
    laboratory = beside_large_bodies(tmp_path, LARGE)
    assert laboratory.run(*seeds_of(LARGE)) is Stop.FINISHED
    asked = [each.begin - START for each in laboratory.requests_to("innocent.test")]
    assert len(asked) == PAGES
    assert asked[0] < LEND_AFTER + 0.5
    assert max(later - earlier for earlier, later in pairwise(asked)) < LEND_AFTER + 1.5, "its gap, and a wait"
    assert len(laboratory.requests_to(*LARGE)) == 2 * len(LARGE)
    for name in LARGE:
        first, second = laboratory.requests_to(name)
        assert second.begin >= first.end + 1.0, "the gap follows the body"


def test_at_most_as_many_slots_are_lent_as_there_are(tmp_path: Path) -> None:
    hosts = [f"large{number}.test" for number in range(3 * SLOTS)]
    laboratory = beside_large_bodies(tmp_path, hosts)
    assert laboratory.run(*seeds_of(hosts)) is Stop.FINISHED
    events = sorted((at, by) for each in laboratory.asked for at, by in ((each.begin, 1), (each.end, -1)))
    under_way = most = 0
    for _, by in events:
        under_way += by
        most = max(most, under_way)
    assert most == 2 * SLOTS


@pytest.mark.parametrize("kind", ["sitemap", "page"])
def test_hosts_with_long_lists_of_links_keep_no_other_from_being_asked(tmp_path: Path, kind: str) -> None:
    """They are read piece by piece, and each piece waits for its turn."""
    hosts, listed = ["long0.test", "long1.test"], [f"http://elsewhere.test/{number}" for number in range(8_000)]
    laboratory = beside_large_bodies(tmp_path, hosts, pages=5)
    for name in hosts:
        laboratory.pages[f"http://{name}/"] = sitemap(listed) if kind == "sitemap" else page(links(listed))
    limits = replace(SETTINGS.links, max_links=len(listed))
    crawl = replace(SETTINGS.crawl, concurrency=len(hosts), scope="host")
    laboratory.settings = replace(laboratory.settings, crawl=crawl, links=limits)
    laboratory.waits, laboratory.busy = {}, 0.05
    assert laboratory.run(*seeds_of(hosts)) is Stop.FINISHED
    begins = [each.begin - START for each in laboratory.requests_to("innocent.test")]
    assert len(begins) == 5
    assert begins[0] < LEND_AFTER + 1.5
    assert laboratory.now - START > 3.0


@pytest.mark.parametrize("limit", [10.0, WAIT + 10.0])
def test_a_run_ends_in_time_while_slots_are_lent_and_the_next_goes_on(tmp_path: Path, limit: float) -> None:
    laboratory = beside_large_bodies(tmp_path, LARGE)
    assert laboratory.run(*seeds_of(LARGE), max_time=limit) is Stop.MAX_TIME
    assert laboratory.now - START <= limit + GRACE + 1.0
    assert laboratory.run() is Stop.FINISHED
    urls = [record["url"] for record in laboratory.records()]
    assert len(urls) == len(set(urls)) == PAGES + 2 * len(LARGE)


@pytest.mark.parametrize(
    ("at", "ended"), [(LEND_AFTER + 1.0, 0), (WAIT - 2.0, len(LARGE))], ids=["waiting", "nearly done"]
)
def test_a_signal_while_slots_are_lent_loses_no_visit_and_makes_none_twice(
    tmp_path: Path, at: float, ended: int
) -> None:
    laboratory = beside_large_bodies(tmp_path, LARGE)

    async def terminate(run: Run, job: Job) -> None:
        await asyncio.sleep(at)
        assert job.frontier.leased > SLOTS, "some have lent their slots"
        run.stop()  # as on SIGTERM

    assert laboratory.run(*seeds_of(LARGE), during=terminate) is Stop.INTERRUPTED
    assert laboratory.now - START <= at + GRACE + 1.0
    assert not [each for each in laboratory.asked if each.begin > START + at], "nothing is asked after the signal"
    answered = [each.href for each in laboratory.asked if each.end]
    assert len([href for href in answered if "large" in href]) == ended
    assert sorted(record["url"] for record in laboratory.records()) == sorted(answered)
    before = len(laboratory.asked)
    assert laboratory.run() is Stop.FINISHED
    assert not {each.href for each in laboratory.asked[before:]} & set(answered), "what was answered is not asked again"
    urls = [record["url"] for record in laboratory.records()]
    assert len(urls) == len(set(urls)) == PAGES + 2 * len(LARGE)


def test_max_pages_counts_visits_that_have_lent_their_slots(tmp_path: Path) -> None:
    laboratory = beside_large_bodies(tmp_path, LARGE)
    laboratory.settings = replace(laboratory.settings, crawl=replace(laboratory.settings.crawl, max_pages=5))
    assert laboratory.run(*seeds_of(LARGE)) is Stop.MAX_PAGES
    assert len(laboratory.records()) == 5


def test_only_a_wait_of_some_length_lends_a_slot() -> None:
    told = []

    async def main() -> None:
        slots = Slots(2)
        slots.tell = lambda: told.append(slots.free)
        slots.visits = 2
        for _ in range(10):
            with slots.wait():
                await asyncio.sleep(LEND_AFTER / 2)
        assert not told
        with slots.wait():
            await asyncio.sleep(LEND_AFTER * 2)
            assert slots.free == 1
        assert slots.free == 0
        slots.doubt(True)
        assert slots.free == 1
        slots.doubt(False)
        waiting = [asyncio.create_task(_wait(slots)) for _ in range(3)]
        await asyncio.sleep(LEND_AFTER * 2)
        assert slots.free == 2, "as many as there are, and no more"
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        assert slots.free == 0

    run_virtually(main())
    assert told == [1, 1, 1, 2, 2]


async def _wait(slots: Slots) -> None:
    with slots.wait():
        await asyncio.Event().wait()

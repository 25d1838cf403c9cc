"""A limit on the pages of a whole crawl: its members together fetch as many, and no more, whatever happens to them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.engine.lifecycle import Stop
from tests.cluster.members import SETTINGS, Crawling, Working, with_delay
from tests.cluster.test_members import to_the_end, until_asked
from tests.simulated_web import Answer

HOSTS, EACH = 10, 12


def web() -> dict[str, Answer]:
    """Hosts whose first pages link to all of their pages, and each to the first page of the next host."""
    pages: dict[str, Answer] = {}
    for host in range(HOSTS):
        links = [f"http://h{host}.test/{page}" for page in range(EACH)] + [f"http://h{(host + 1) % HOSTS}.test/0"]
        for page in range(EACH):
            pages[f"http://h{host}.test/{page}"] = "".join(f'<a href="{href}">x</a>' for href in links)
    return pages


def limited(pages: int | None) -> Settings:
    settings = with_delay(SETTINGS, 0.5)
    return replace(settings, crawl=replace(settings.crawl, max_pages=pages))


def crawling_in(directory: Path, limit: int | None) -> Crawling:
    return Crawling(directory, web(), seeds=("http://h0.test/0",), settings=limited(limit))


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("limit", [1, HOSTS * EACH - 1])
def test_as_many_pages_are_fetched_as_the_limit_says(tmp_path: Path, limit: int, members: int) -> None:
    crawling = crawling_in(tmp_path, limit)

    async def test(crawling: Crawling) -> list[Stop]:
        return await to_the_end(*[crawling.begin(f"m{number}", expected=members) for number in range(members)])

    reasons = crawling.live(test)
    assert Stop.MAX_PAGES in reasons
    assert set(reasons) <= {Stop.MAX_PAGES, Stop.FINISHED}
    assert (crawling.recorded().total(), len(crawling.asked)) == (limit, limit)


def test_a_crawl_that_is_over_before_the_limit_has_ended(tmp_path: Path) -> None:
    crawling = crawling_in(tmp_path, HOSTS * EACH + 500)

    async def test(crawling: Crawling) -> list[Stop]:
        return await to_the_end(*[crawling.begin(f"m{number}", expected=2) for number in range(2)])

    assert crawling.live(test) == [Stop.FINISHED] * 2
    assert crawling.recorded() == dict.fromkeys(crawling.pages, 1)


def test_a_higher_limit_goes_on_and_pages_of_a_run_without_one_count(tmp_path: Path) -> None:
    crawling = crawling_in(tmp_path, 20)

    async def alone(crawling: Crawling) -> Stop:
        return (await to_the_end(crawling.begin("m")))[0]

    async def for_a_while(crawling: Crawling) -> None:
        working = crawling.begin("m")
        await until_asked(crawling, 45)
        await working.stop()

    assert crawling.live(alone) is Stop.MAX_PAGES
    assert crawling.recorded().total() == 20
    crawling.settings = limited(None)
    crawling.live(for_a_while)
    fetched = crawling.recorded().total()
    assert fetched >= 40
    crawling.settings = limited(20)
    assert crawling.live(alone) is Stop.MAX_PAGES
    assert crawling.recorded().total() == fetched, "the limit is passed already"
    crawling.settings = limited(70)
    assert crawling.live(alone) is Stop.MAX_PAGES
    assert crawling.recorded().total() == 70


@pytest.mark.parametrize("limits", [(20, None), (None, 20), (20, HOSTS * EACH + 1)])
def test_a_member_with_the_limit_of_an_earlier_run_does_not_hold_up_the_crawl(
    tmp_path: Path, limits: tuple[int | None, int | None]
) -> None:
    crawling = crawling_in(tmp_path, 20)

    async def test(crawling: Crawling) -> list[Stop]:
        members = []
        for number, limit in enumerate(limits):
            crawling.settings = limited(limit)
            members.append(crawling.begin(f"m{number}", expected=2))
        return await to_the_end(*members)

    crawling.live(test)
    assert crawling.recorded().total() in {20, HOSTS * EACH}, "the coordinator's limit holds"


@pytest.mark.parametrize("seed", range(2))
def test_the_limit_holds_through_losses_and_kills(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    crawling = crawling_in(tmp_path, 60)

    async def test(crawling: Crawling) -> list[Stop]:
        working: list[Working] = [crawling.begin(f"m{number}", expected=2) for number in range(2)]
        for round_ in range(4):
            await until_asked(crawling, chance.randint(3, 12) * (round_ + 1))
            if chance.random() < 0.5:
                crawling.holdings.forget()
            victim = chance.randrange(2)
            if not working[victim].task.done():
                await working[victim].kill()
                working[victim] = crawling.begin(f"n{round_}")
        return await to_the_end(*working)

    assert Stop.MAX_PAGES in crawling.live(test)
    assert crawling.recorded().total() == 60
    assert Counter(crawling.recorded().values()) == {1: 60}

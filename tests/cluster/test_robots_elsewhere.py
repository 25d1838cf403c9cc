"""robots.txt that redirects to a host of another partition: one host is asked by one process, with its gap."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import RobotsSettings
from crawler.engine.lifecycle import Stop
from tests.cluster.members import SETTINGS, Crawling
from tests.cluster.test_members import to_the_end, until_asked
from tests.simulated_web import Answers, page, redirect

RULES = "User-agent: *\nDisallow: /private\n"
HOSTS = [f"h{number}.test" for number in range(6)]


def web(of_big: Answers) -> dict[str, Answers]:
    """The robots.txt of all hosts leads to that of a host that has pages of its own."""
    pages: dict[str, Answers] = {"http://big.test/robots.txt": of_big}
    links = "".join(f'<a href="/{name}">x</a>' for name in ("private", "a", "b"))
    for host in (*HOSTS, "big.test"):
        pages[f"http://{host}/"] = links
        pages |= {f"http://{host}/{name}": "<p>text" for name in ("private", "a", "b")}
    for host in HOSTS:
        pages[f"http://{host}/robots.txt"] = redirect("http://big.test/robots.txt")
    return pages


def crawling_in(directory: Path, pages: dict[str, Answers]) -> Crawling:
    settings = replace(SETTINGS, robots=RobotsSettings())
    seeds = tuple(f"http://{host}/" for host in (*HOSTS, "big.test"))
    return Crawling(directory, pages, seeds=seeds, settings=settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [200, 404, 503])
def test_the_owner_of_a_host_asks_it_for_all(tmp_path: Path, status: int) -> None:
    answer = page(RULES if status == 200 else "", status=status)
    crawling = crawling_in(tmp_path, web(answer))

    async def test(crawling: Crawling) -> list[Stop] | None:
        members = [crawling.begin(f"m{number}", expected=2) for number in range(2)]
        if status == 503:  # disallows everything, and is asked again for a long time
            await until_asked(crawling, 3 * len(HOSTS))
            return None
        return await to_the_end(*members)

    assert crawling.live(test) in (None, [Stop.FINISHED] * 2)
    asked = [urlsplit(each.href) for each in crawling.asked]
    assert crawling.shortest_gap() >= crawling.settings.politeness.delay, "also of the host that all redirect to"
    private = {each.hostname for each in asked if each.path == "/private"}
    assert private == ({*HOSTS, "big.test"} if status == 404 else set())
    if status == 200:
        assert len([each for each in asked if each.path == "/b"]) == len(HOSTS) + 1
        assert len([each for each in asked if (each.hostname, each.path) == ("big.test", "/robots.txt")]) <= 3


def test_a_carrier_that_forgets_questions_and_answers_costs_time(tmp_path: Path) -> None:
    crawling = crawling_in(tmp_path, web(page(RULES)))

    async def test(crawling: Crawling) -> list[Stop]:
        members = [crawling.begin(f"m{number}", expected=2) for number in range(2)]
        for count in (2, 4, 7, 10):
            await until_asked(crawling, count)
            crawling.holdings.forget()
        return await to_the_end(*members)

    assert crawling.live(test) == [Stop.FINISHED] * 2
    assert crawling.shortest_gap() >= crawling.settings.politeness.delay
    assert not [each for each in crawling.asked if each.href.endswith("/private")]
    assert len({each.href for each in crawling.asked if each.href.endswith("/b")}) == len(HOSTS) + 1

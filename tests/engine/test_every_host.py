"""Every host gets its turn: crawls of many hosts in virtual time, judged by what the servers were asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings import CrawlSettings, PolitenessSettings, RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Failure, FailureKind
from tests.laboratory import SETTINGS, Laboratory, links

ROBOTS = "/robots.txt"


def site(name: str, pages: int) -> dict[str, str]:
    """A host whose first page links to all others."""
    hrefs = [f"http://{name}/{number}" for number in range(pages)]
    return {hrefs[0]: links(hrefs[1:]), **dict.fromkeys(hrefs[1:], "<p>a page")}


def sites(count: int, pages: int, name: str = "h{0}.test") -> dict[str, str]:
    found: dict[str, str] = {}
    for number in range(count):
        found |= site(name.format(number), pages)
    return found


def seeds(count: int, name: str = "h{0}.test", pages: int = 1) -> list[str]:
    return [f"http://{name.format(number)}/{page}" for number in range(count) for page in range(pages)]


def laboratory(
    directory: Path, pages: dict[str, object], slots: int, *, robots: float | None = None, **politeness: object
) -> Laboratory:
    """``robots``: the seconds for which a robots.txt may be used; by default it is ignored."""
    settings = replace(
        SETTINGS,
        crawl=CrawlSettings(concurrency=slots, scope="any"),
        politeness=PolitenessSettings(**politeness),  # type: ignore[arg-type]
        robots=RobotsSettings(ignore=True) if robots is None else RobotsSettings(ttl=robots),
    )
    return Laboratory(directory, pages, settings)  # type: ignore[arg-type]


def test_a_lap_that_takes_longer_than_a_robots_txt_may_be_used_still_brings_pages(tmp_path: Path) -> None:
    """Two slots of 0.2 s: 10 requests a second for 80 hosts, which are 8 s for one request each."""
    lab = laboratory(tmp_path / "job", dict(sites(80, 3)), 2, robots=2.0)
    assert lab.run(*seeds(80)) is Stop.FINISHED
    pages = [asked.href for asked in lab.asked if not asked.href.endswith(ROBOTS)]
    assert len(pages) == len(set(pages)) == 240
    each = Counter(asked.href.split("/")[2] for asked in lab.asked if asked.href.endswith(ROBOTS))
    assert set(each.values()) <= {1, 2, 3}, "each brings a page at least"


def test_a_host_is_asked_for_a_page_before_others_are_asked_for_robots_txt(tmp_path: Path) -> None:
    lab = laboratory(tmp_path / "job", {}, 2, robots=86_400.0, session_pages=5)
    lab.run(*seeds(60, pages=12), max_time=32.0)
    robots = sum(asked.href.endswith(ROBOTS) for asked in lab.asked)
    assert len(lab.asked) > 300, "the slots were busy all the time"
    assert robots < 0.25 * len(lab.asked), "robots.txt and its connection serve several pages"


@pytest.mark.parametrize("session", [1, 4])
def test_restarts_go_on_with_those_that_have_waited_longest(tmp_path: Path, session: int) -> None:
    """A lap takes about four runs: each begins with the gap, and then has 20 requests a second."""
    hosts, order = 60, list[str]()
    lab = laboratory(tmp_path / "job", {}, 4, session_pages=session)
    for run_number in range(9):
        new = [] if run_number else seeds(hosts, pages=12)
        lab.run(*new, max_time=1.0 + 0.75 * session)
        run = lab.asked[len(order) :]
        order += [asked.href.split("/")[2] for asked in run]
    assert len(order) >= 2 * hosts * session
    lap = order[: round(1.5 * hosts * session)]
    assert len(set(lap)) == hosts, "each before any has its second turn, but for a few at the begin of a run"
    turns = Counter(order)
    assert max(turns.values()) <= 3 * min(turns.values())


def test_every_host_is_asked_before_any_has_its_second_session(tmp_path: Path) -> None:
    """Three runs that together have as many requests as there are hosts, and sessions that are much longer."""
    hosts, order = 100, list[str]()
    lab = laboratory(tmp_path / "job", {}, 4, session_pages=20)
    for run_number in range(3):
        lab.run(*([] if run_number else seeds(hosts, pages=12)), max_time=2.0 if run_number == 0 else 3.6)
        order = [asked.href.split("/")[2] for asked in lab.asked]
    assert len(order) >= hosts + 10
    assert len(set(order[: hosts + 10])) == hosts, (
        "but for a few at the begin of a run, when it is not known how many answer"
    )


def test_a_domain_with_endless_hosts_has_the_turns_of_one_domain(tmp_path: Path) -> None:
    """A spammer names 300 hosts while 4 slots can ask 20 hosts a second; two other sites go on at their pace."""
    spam: dict[str, object] = {}
    for number in range(300):
        more = [f"http://s{other}.spam.test/" for other in range(number + 10, 300, 10)] if number < 10 else []
        spam[f"http://s{number}.spam.test/"] = links(more) + f"page {number}"
    lab = laboratory(tmp_path / "job", {**sites(2, 40), **spam}, 4)
    lab.run(*seeds(2), *(f"http://s{number}.spam.test/" for number in range(10)), max_time=24.0)
    for name in ("h0.test", "h1.test"):
        assert ideal(lab, [name], 24.0) >= 0.95
    assert len({asked.href for asked in lab.asked}) >= 300 + 35, "the spammer has what the others leave"


def ideal(lab: Laboratory, names: list[str], seconds: float, gap: float = 1.0) -> float:
    """The part of what these hosts could have answered that they have answered."""
    asked = [each for each in lab.requests_to(*names) if each.end]
    return len(asked) / (len(names) * seconds / (lab.seconds + gap))


def test_hosts_that_are_dead_take_no_time_from_those_that_answer(tmp_path: Path) -> None:
    """Ten hosts whose pages link to 150 that do not answer within ten seconds."""
    live, dead = [f"h{number}.test" for number in range(10)], [f"d{number}.test" for number in range(150)]
    pages: dict[str, object] = dict(sites(10, 100))
    for number, name in enumerate(live):
        hrefs = [f"http://{name}/{page}" for page in range(1, 100)]
        pages[f"http://{name}/0"] = links(
            hrefs + [f"http://{other}/" for other in dead[number * 15 : number * 15 + 15]]
        )
    lost = Failure(FailureKind.CONNECT_TIMEOUT, "no connection within 10 s", 10.0)
    pages |= {f"http://{name}/": lost for name in dead}
    lab = laboratory(tmp_path / "job", pages, 8)
    lab.slow = dict.fromkeys(dead, 10.0)
    lab.run(*seeds(10), max_time=80.0)
    assert ideal(lab, live, 80.0) >= 0.95
    assert len(lab.requests_to(*dead)) >= 20, "the slots that are left are used"


def test_hosts_just_below_slow_after_take_no_time_from_quick_ones(tmp_path: Path) -> None:
    """25 hosts of 0.2 s need 4.2 slots of 8; 50 hosts of 9 s could use 45."""
    quick, slow = [f"h{number}.test" for number in range(25)], [f"s{number}.test" for number in range(50)]
    lab = laboratory(tmp_path / "job", {**sites(25, 60), **sites(50, 9, "s{0}.test")}, 8)
    lab.slow = dict.fromkeys(slow, 9.0)
    lab.run(*seeds(25), max_time=5.0)
    before = len(lab.requests_to(*quick))
    lab.run(*seeds(50, "s{0}.test"), max_time=40.0)
    done = len([each for each in lab.requests_to(*quick)[before:] if each.end])
    assert done >= 0.95 * 25 * 39.0 / 1.2, "one gap after the restart nobody is asked"
    assert len(lab.requests_to(*slow)) >= 6

"""What shares a gap: a name with all its ports and both schemes, and an address besides. In virtual time, and judged by
a real server's own log."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings import PolitenessSettings, RobotsSettings, SitesSettings, SiteTable
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.frontier import decode_host
from crawler.job.job import Job
from crawler.web.fetch import Failure, FailureKind, Response
from tests.hostile.server import Server, Talk, page
from tests.hostile.server import redirect as redirected
from tests.laboratory import SETTINGS, Asked, Laboratory, links
from tests.program import crawler
from tests.web.fetch.certificates import Authority

ORIGINS = ("http://a.test/", "https://a.test/", "http://a.test:8080/")
NOT_FOUND = Failure(FailureKind.DNS, "name not found", 0.0)


def laboratory(tmp_path: Path, pages: dict[str, Any], **politeness: Any) -> Laboratory:
    polite = replace(SETTINGS, robots=RobotsSettings(), politeness=PolitenessSettings(**politeness))
    return Laboratory(tmp_path / "job", pages, polite)


def site(*origins: str, pages: int = 6) -> dict[str, Any]:
    web: dict[str, Any] = {}
    for origin in origins:
        web[origin] = links([f"{origin}{n}" for n in range(pages)])
        web |= {f"{origin}{n}": f"{origin}{n}" for n in range(pages)}
    return web


def in_order(asked: list[Asked]) -> list[Asked]:
    return sorted(asked, key=lambda each: each.begin)


def apart(asked: list[Asked], gap: float) -> None:
    """No two overlap, and each begins so many seconds after the end of the one before."""
    for one, other in itertools.pairwise(in_order(asked)):
        assert other.begin - one.end >= gap - 1e-6, (one, other)


@pytest.mark.parametrize("robots", [True, False])
def test_both_schemes_and_all_ports_of_a_name_share_its_gap(tmp_path: Path, robots: bool) -> None:
    lab = laboratory(tmp_path, site(*ORIGINS), delay=1.0)
    lab.settings = replace(lab.settings, robots=RobotsSettings(ignore=not robots))
    assert lab.run(*ORIGINS) is Stop.FINISHED
    assert len(lab.asked) == 3 * (7 + robots), "each origin has a queue and a robots.txt of its own"
    apart(lab.asked, 1.0)
    assert lab.now - lab.asked[0].begin < len(lab.asked) * 1.3, "and no time is lost"


def test_each_origin_is_on_its_own_if_that_is_wanted(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, site(*ORIGINS), delay=1.0, host_key="origin")
    assert lab.run(*ORIGINS) is Stop.FINISHED
    for origin in ORIGINS:
        apart([asked for asked in lab.asked if asked.href.startswith(origin)], 1.0)
    assert lab.now - lab.asked[0].begin < len(lab.asked) * 0.5


@pytest.mark.parametrize("rule", ["host", "origin", "domain", "address"])
def test_hosts_that_name_one_group_share_a_gap(tmp_path: Path, rule: str) -> None:
    origins = ("http://a.test/", "https://a.test:8443/", "http://b.test/", "http://c.org/")
    lab = laboratory(tmp_path, site(*origins, pages=3), delay=1.0, host_key=rule)
    tables = (SiteTable(match="*.test", group="library"), SiteTable(match="c.org", group="library", delay=2.0))
    lab.settings = replace(lab.settings, site=SitesSettings(tables))
    assert lab.run(*origins) is Stop.FINISHED
    assert len(lab.asked) == 4 * 5
    apart(lab.asked, 1.0)
    assert lab.now - lab.asked[0].begin < len(lab.asked) * 1.6, "and no time is lost"


def test_hosts_of_other_groups_are_asked_at_the_same_time(tmp_path: Path) -> None:
    origins = ("http://a.test/", "http://b.test/", "http://c.org/")
    lab = laboratory(tmp_path, site(*origins), delay=1.0)
    tables = (SiteTable(match="*.test", group="one"), SiteTable(match="c.org", group="other"))
    lab.settings = replace(lab.settings, site=SitesSettings(tables))
    lab.run(*origins)
    apart([each for each in lab.asked if ".test/" in each.href], 1.0)
    assert max(each.end for each in lab.asked if "c.org" in each.href) - lab.asked[0].begin < 8 * 1.5


def test_the_crawl_delay_of_one_host_holds_its_whole_group(tmp_path: Path) -> None:
    origins = ("http://a.test/", "http://b.test/")
    pages = site(*origins, pages=2) | {"http://b.test/robots.txt": "User-agent: *\nCrawl-delay: 7"}
    lab = laboratory(tmp_path, pages, delay=1.0)
    lab.settings = replace(lab.settings, site=SitesSettings((SiteTable(match="*.test", group="library"),)))
    lab.run(*origins)
    said = next(each.end for each in lab.asked if each.href == "http://b.test/robots.txt")
    apart([each for each in lab.asked if each.end >= said], 7.0)


def test_the_larger_crawl_delay_counts_also_after_a_restart(tmp_path: Path) -> None:
    pages = site(*ORIGINS, pages=3) | {"https://a.test/robots.txt": "User-agent: *\nCrawl-delay: 7"}
    lab = laboratory(tmp_path, pages, delay=1.0)
    assert lab.run(*ORIGINS, max_time=40.0) is Stop.MAX_TIME
    known = next(at for at, each in enumerate(in_order(lab.asked)) if each.href == "https://a.test/robots.txt")
    apart(in_order(lab.asked)[known:], 7.0)
    assert len(lab.asked) > known + 3
    lab.asked.clear()
    lab.pages["http://a.test:9090/"] = "an origin that this run is the first to meet"
    assert lab.run("http://a.test:9090/") is Stop.FINISHED
    assert len(lab.records()) == 13
    apart(lab.asked, 7.0)


@pytest.mark.parametrize("status", [429, 503])
def test_what_holds_one_origin_holds_the_name_also_after_a_restart(tmp_path: Path, status: int) -> None:
    busy = Response(status, {}, None, None, b"", None, "100", 0.2, 0)
    lab = laboratory(tmp_path, {"http://a.test/": busy, "https://a.test/": "here"}, delay=1.0)
    assert lab.run("http://a.test/", max_time=10.0) is Stop.MAX_TIME
    held = max(asked.end for asked in lab.asked)
    lab.asked.clear()
    assert lab.run("https://a.test/", max_time=150.0) is not None
    assert lab.asked
    assert min(asked.begin for asked in lab.asked) >= held + 99.0


@pytest.mark.parametrize("politeness", [{"host_key": "address"}, {"address_delay": 0.5}, {}])
def test_a_new_job_asks_at_once(tmp_path: Path, politeness: dict[str, Any]) -> None:
    lab = laboratory(tmp_path, {"http://a.test/": "here"}, **politeness)
    lab.addresses = {"a.test": "192.0.2.1"}
    began = lab.now
    assert lab.run("http://a.test/") is Stop.FINISHED
    assert lab.asked[0].begin - began < 0.1


def begun_apart(asked: list[Asked], gap: float) -> None:
    """Each is sent so many seconds after the one before, and after the end of each one before."""
    for number, (one, other) in enumerate(itertools.pairwise(in_order(asked)), 1):
        assert other.begin - one.begin >= gap - 1e-6, (one, other)
        ended = [each.end for each in in_order(asked)[:number] if each.end < other.begin - 1e-6]
        assert other.begin - max(ended, default=0.0) >= gap - 1e-6, (one, other)


@pytest.mark.parametrize(
    "politeness",
    [
        {"delay": 0.0, "address_delay": 1.0},
        {"delay": 1.0, "host_key": "address", "per_host": 3},
        {"delay": 1.0, "host_key": "domain", "per_host": 3},
        {"delay": 1.0, "host_key": "address", "per_host": 2, "address_delay": 1.0},
    ],
)
def test_the_gap_counts_from_the_sending_of_a_request(tmp_path: Path, politeness: dict[str, Any]) -> None:
    names = [f"n{number}.example.org" for number in range(4)]
    pages = site(*(f"http://{name}/" for name in names), pages=5)
    lab = laboratory(tmp_path, pages, **politeness)
    lab.settings = replace(lab.settings, robots=RobotsSettings(ignore=True))
    lab.addresses = dict.fromkeys(names, "192.0.2.1")
    lab.seconds, lab.connects = 2.3, itertools.cycle([2.9, 0.0, 1.2, 0.0, 0.0, 0.7, 1.95])
    assert lab.run(*(f"http://{name}/" for name in names)) is Stop.FINISHED
    assert len(lab.records()) == len(lab.asked) == 4 * 6
    begun_apart(lab.asked, 1.0)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_gap_of_a_host_with_several_slots_counts_from_the_sending_of_a_request(
    tmp_path: Path, grouped: bool
) -> None:
    lab = laboratory(tmp_path, site("http://a.test/", pages=20), delay=1.0, per_host=1 if grouped else 4)
    table = SiteTable(match="a.test", per_host=4, group="library")
    lab.settings = replace(lab.settings, site=SitesSettings((table,) * grouped))
    lab.seconds, lab.connects = 2.3, itertools.cycle([2.9, 0.0, 1.2, 0.0, 0.0, 0.7, 1.95])
    assert lab.run("http://a.test/") is Stop.FINISHED
    begun_apart(lab.asked, 1.0)
    assert len(lab.asked) == 22


def test_an_address_has_a_second_gap(tmp_path: Path) -> None:
    names = [f"n{number}.test" for number in range(8)]
    pages = site(*(f"http://{name}/" for name in names), pages=3)
    lab = laboratory(tmp_path, pages, delay=4.0, address_delay=0.5)
    lab.addresses = dict.fromkeys(names[:6], "192.0.2.1") | {names[6]: "192.0.2.2"}
    lab.seconds = 1.5  # answers of one address overlap
    assert lab.run(*(f"http://{name}/" for name in names)) is Stop.FINISHED
    assert len(lab.records()) == 8 * 4
    for name in names:
        apart(lab.requests_to(name), 4.0)
    asked = in_order(lab.requests_to(*names[:6]))
    moments = sorted([each.begin for each in asked] + [each.end for each in asked])
    for each in asked:
        before = [moment for moment in moments if moment < each.begin - 1e-6]
        assert not before or each.begin - before[-1] >= 0.5 - 1e-6
    begins = [each.begin for each in asked]
    assert all(later - sooner >= 0.5 - 1e-6 for sooner, later in itertools.pairwise(begins))
    assert sum(other.begin < one.end for one, other in itertools.pairwise(asked)) > 5


def test_many_names_at_one_address_have_equal_turns_and_no_host_is_overlooked(tmp_path: Path) -> None:
    names = [f"n{number}.test" for number in range(40)]
    lab = laboratory(tmp_path, site(*(f"http://{name}/" for name in names), pages=2), delay=1.0, address_delay=0.5)
    lab.settings = replace(lab.settings, robots=RobotsSettings(ignore=True))
    lab.addresses = dict.fromkeys(names, "192.0.2.1")
    assert lab.run(*(f"http://{name}/" for name in names), max_time=40.0) is Stop.MAX_TIME
    lab.run(max_time=2_000.0)
    assert len(lab.records()) == 120
    begins = [each.begin for each in in_order(lab.asked)]
    assert all(later - sooner >= 0.5 - 1e-6 for sooner, later in itertools.pairwise(begins))


def test_after_an_outage_of_the_name_servers_hosts_of_one_address_still_share_its_gap(tmp_path: Path) -> None:
    names = [f"n{number}.test" for number in range(40)]
    pages = site(*(f"http://{name}/" for name in names), pages=3)
    known = {name: f"192.0.2.{number // 2}" for number, name in enumerate(names)}
    down: list[bool] = []

    class Web(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            return NOT_FOUND if down else super().get(key, default)

    class Names(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            return None if down else super().get(key, default)

    lab = laboratory(tmp_path, Web(pages), delay=1.0, host_key="address")
    lab.addresses = Names(known)
    lab.settings = replace(lab.settings, crawl=replace(lab.settings.crawl, concurrency=15))
    told: list[dict[str, Any]] = []

    async def during(run: Run, job: Job) -> None:
        await asyncio.sleep(1.2)  # some hosts were never asked, nor looked up
        down.append(True)
        await asyncio.sleep(60)
        told.append({**run.stats(), "at": max(asked.begin for asked in lab.asked)})
        down.clear()

    assert lab.run(*(f"http://{name}/" for name in names), during=during) is Stop.FINISHED
    assert told[0]["outage"]["now"]
    assert [record["outcome"] for record in lab.records()] == ["fetched"] * 160, "no host is blamed"
    for name in names:
        stored = decode_host(name, lab.store.get(Family.HOSTS, f"{name}:80".encode()) or b"")
        assert stored.politeness.address == known[name], "it was looked up again"
    for address in set(known.values()):
        mates = [name for name in names if known[name] == address]
        apart([each for each in lab.requests_to(*mates) if each.begin > told[0]["at"]], 1.0)


def test_a_real_server_with_two_ports_and_tls_sees_one_request_at_a_time(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    servers = [Server({}), Server({}), Server({}, tls=authority.server("IP:127.0.0.1"))]
    busy: list[str] = []
    most: list[int] = []

    def slowly(answer: bytes) -> Callable[[Talk], Awaitable[None]]:
        async def answering(talk: Talk) -> None:
            busy.append(talk.path)
            most.append(len(busy))
            await asyncio.sleep(0.02)
            busy.remove(talk.path)  # before the client can know
            await talk.send(answer)

        return answering

    with servers[0], servers[1], servers[2]:
        for server in servers:
            server.listen("127.0.0.1")
        begins = [f"http{'s' * bool(server.tls)}://127.0.0.1:{server.port}/" for server in servers]
        for server, begin in zip(servers, begins, strict=True):
            own = {f"/{n}": page(f"page {n} of {begin}") for n in range(3)}
            own["/"] = page(begin + links([f"/{n}" for n in range(3)]) + links(begins))
            own |= {"/robots.txt": redirected(f"{begins[2]}r"), "/r": page(kind="text/plain")}
            server.pages["127.0.0.1"] = {path: slowly(answer) for path, answer in own.items()}
        (tmp_path / "seeds.txt").write_text(begins[0])
        (tmp_path / "settings.toml").write_text(f'fetch.ca_file = "{authority.file}"\npoliteness.delay = 0.03\n')
        ran = crawler(
            *(
                "crawl",
                tmp_path / "seeds.txt",
                "--job",
                tmp_path / "job",
                "--allow-private",
                "--scope",
                "any",
                "--quiet",
            ),
            *("--config", tmp_path / "settings.toml"),
        )
    assert ran.code == 0, ran.err
    starts = sorted(asked.start for server in servers for asked in server.asked)
    assert len(starts) == 3 * 4 + 3 * 2, "pages, and for each origin a robots.txt and what it redirects to"
    assert set(most) == {1}
    assert all(later - sooner >= 0.05 for sooner, later in itertools.pairwise(starts))


def test_no_port_is_called_ready_while_another_holds_the_name(tmp_path: Path) -> None:
    """At every moment of a crawl, each port that is called ready may be asked."""
    lab = laboratory(tmp_path, site(*ORIGINS, pages=3), delay=3.0)
    busy = Response(429, {}, None, None, b"", None, "40", 0.2, 0)
    lab.pages["http://a.test:8080/1"] = busy
    states: list[tuple[float, dict[str, str]]] = []

    async def look(run: Run, job: Job) -> None:
        while True:
            now = lab.now + asyncio.get_running_loop().time()
            rows = (
                job.frontier.describe(name, now, run.serving) for name in ("a.test:80", "a.test:443", "a.test:8080")
            )
            states.append((now, {row.host: row.state.value for row in rows if row is not None}))
            await asyncio.sleep(0.5)

    assert lab.run(*ORIGINS, max_time=60.0, during=look) is Stop.MAX_TIME
    assert len(states) > 50
    for at, found in states:
        held = any(asked.begin < at < asked.end + 3.0 - 1e-6 for asked in lab.asked)
        assert not (held and "ready" in found.values()), (at, found)
    throttled = next(asked for asked in lab.asked if asked.href == "http://a.test:8080/1")
    during = [found for at, found in states if throttled.end < at < throttled.end + 40.0]
    assert during
    assert {state for found in during for state in found.values()} <= {"waiting", "idle", "queued"}

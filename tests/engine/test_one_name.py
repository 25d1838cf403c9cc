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

from crawler.base.settings.parts import PolitenessSettings, RobotsSettings, SitesSettings, SiteTable
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Response
from tests.hostile.server import Server, Talk, page
from tests.hostile.server import redirect as redirected
from tests.laboratory import SETTINGS, Asked, Laboratory, apart, in_order, links
from tests.program import crawler
from tests.web.fetch.certificates import Authority

ORIGINS = ("http://a.test/", "https://a.test/", "http://a.test:8080/")


def laboratory(tmp_path: Path, pages: dict[str, Any], **politeness: Any) -> Laboratory:
    polite = replace(SETTINGS, robots=RobotsSettings(), politeness=PolitenessSettings(**politeness))
    return Laboratory(tmp_path / "job", pages, polite)


def site(*origins: str, pages: int = 6) -> dict[str, Any]:
    web: dict[str, Any] = {}
    for origin in origins:
        web[origin] = links([f"{origin}{n}" for n in range(pages)])
        web |= {f"{origin}{n}": f"{origin}{n}" for n in range(pages)}
    return web


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


@pytest.mark.parametrize("rule", ["host", "address"])
def test_hosts_that_name_one_group_share_a_gap(tmp_path: Path, rule: str) -> None:
    origins = ("http://a.test/", "https://a.test:8443/", "http://b.test/", "http://c.org/")
    lab = laboratory(tmp_path, site(*origins, pages=3), delay=1.0, host_key=rule)
    tables = (SiteTable(match="*.test", group="library"), SiteTable(match="c.org", group="library", delay=2.0))
    lab.settings = replace(lab.settings, site=SitesSettings(tables))
    assert lab.run(*origins) is Stop.FINISHED
    assert len(lab.asked) == 4 * 5
    apart(lab.asked, 1.0)
    assert lab.now - lab.asked[0].begin < len(lab.asked) * 1.6, "and no time is lost"


@pytest.mark.parametrize("status", [429])
def test_what_holds_one_origin_holds_the_name_also_after_a_restart(tmp_path: Path, status: int) -> None:
    busy = Response(status, {}, None, None, b"", None, "100", 0.2, 0)
    lab = laboratory(tmp_path, {"http://a.test/": busy, "https://a.test/": "here"}, delay=1.0)
    assert lab.run("http://a.test/", max_time=10.0) is Stop.MAX_TIME
    held = max(asked.end for asked in lab.asked)
    lab.asked.clear()
    assert lab.run("https://a.test/", max_time=150.0) is not None
    assert lab.asked
    assert min(asked.begin for asked in lab.asked) >= held + 99.0


def begun_apart(asked: list[Asked], gap: float) -> None:
    """Each is sent so many seconds after the one before, and after the end of each one before."""
    for number, (one, other) in enumerate(itertools.pairwise(in_order(asked)), 1):
        assert other.begin - one.begin >= gap - 1e-6, (one, other)
        ended = [each.end for each in in_order(asked)[:number] if each.end < other.begin - 1e-6]
        assert other.begin - max(ended, default=0.0) >= gap - 1e-6, (one, other)


@pytest.mark.parametrize(
    "politeness",
    [
        {"delay": 1.0, "host_key": "address", "per_host": 3},
        {"delay": 1.0, "host_key": "domain", "per_host": 3},
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

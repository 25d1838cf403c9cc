"""Requests of pages that a browser renders, without one: each is made like a page, and no page waits while it holds a
host."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import (
    BrowserSettings,
    FetchSettings,
    PolitenessSettings,
    RobotsSettings,
    ScopeSettings,
    Settings,
)
from crawler.engine.lifecycle import Stop
from crawler.engine.rendering.sub_requests import PageNetwork, SubRequests
from crawler.engine.visit import Visitor
from crawler.job.job import Job
from crawler.web.browser.rendered import Answer, Budget, Failed, Kind, Refusal, Refused, SubRequest
from crawler.web.fetch import Failure, FailureKind, Response
from tests.laboratory import SETTINGS, Laboratory, links

Asks = Callable[[str, SubRequests], Coroutine[Any, Any, None]]
DEFAULT = Budget()
PAGE, A, B = "http://page.test/", "http://a.test/", "http://b.test/"


def wanted(url: str, kind: Kind = Kind.SCRIPT, **more: Any) -> SubRequest:
    return SubRequest(url, more.pop("method", "GET"), kind, more.pop("headers", {}), **more)


def answer(body: str = "x", status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    location, after = named.get("Location"), named.get("Retry-After")
    return Response(status, named, "text/plain", None, body.encode(), location, after, 0.0, len(body))


@contextlib.contextmanager
def rendering(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, asks: Asks, budget: Budget = DEFAULT
) -> Iterator[None]:
    """Pages ask for what they want after their hosts are given back, as if a browser rendered them."""
    networks: dict[Job, PageNetwork] = {}
    plain = Visitor._finish_page

    async def finish(self: Visitor, lease: Any, finished: Any, body: bytes) -> None:
        if self._job not in networks:
            networks[self._job] = PageNetwork(self._robots, self._discovery, settings, None)
        self._job.frontier.answered(lease, finished.request, self._context.clock())
        with self._context.slots.lent():
            page = finished.record.entry.href
            await asks(page, networks[self._job].for_page(page, budget))
        await plain(self, lease, finished, body)

    with monkeypatch.context() as patch:
        patch.setattr(Visitor, "_finish_page", finish)
        yield


def laboratory(directory: Path, pages: dict[str, Any], **politeness: Any) -> Laboratory:
    settings = replace(SETTINGS, robots=RobotsSettings(), politeness=PolitenessSettings(**politeness))
    return Laboratory(directory, pages, replace(settings, browser=BrowserSettings(third_parties="any")))


def apart(lab: Laboratory, *names: str, gap: float) -> None:
    asked = sorted(lab.requests_to(*names), key=lambda each: each.begin)
    for one, other in itertools.pairwise(asked):
        assert other.begin - one.end >= gap - 1e-6, (one, other)


@pytest.mark.parametrize(("host_key", "delay"), [("host", 0.5), ("host", 0.0), ("domain", 0.5), ("address", 0.5)])
def test_pages_that_need_each_others_hosts_all_come_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host_key: str, delay: float
) -> None:
    names = [f"{'abcd'[n % 4]}{n}.{'xyz'[n % 3]}.test" for n in range(20)]
    pages: dict[str, Any] = {}
    for name in names:
        pages |= {f"http://{name}/": links([f"/{n}" for n in range(3)]), f"http://{name}/robots.txt": ""}
        pages |= {f"http://{name}/{n}": "x" for n in range(3)} | {f"http://{name}/api": answer()}
    lab = laboratory(tmp_path, pages, host_key=host_key, delay=delay, per_host=1)
    lab.addresses = {name: f"192.0.2.{n % 7}" for n, name in enumerate(names)}
    answers: list[Any] = []

    async def asks(page: str, requests: SubRequests) -> None:
        others = [wanted(f"http://{name}/api?{page}", Kind.DATA) for name in names]
        if page.endswith("/"):
            answers.extend(await asyncio.gather(*map(requests.ask, others)))

    with rendering(monkeypatch, lab.settings, asks):
        assert lab.run(*(f"http://{name}/" for name in names)) is Stop.FINISHED
    assert [record["outcome"] for record in lab.records()] == ["fetched"] * 80
    assert len(answers) == 400
    assert {each.status for each in answers} == {404}
    keys = {"host": str, "domain": lambda name: name.split(".", 1)[1], "address": lab.addresses.__getitem__}
    for key in {keys[host_key](name) for name in names}:
        apart(lab, *(name for name in names if keys[host_key](name) == key), gap=delay)


SEVERAL: list[tuple[dict[str, Any], list[SubRequest], list[Any], list[str]]] = [
    # pages, what one page asks for in this order, what comes of it, what its servers are asked for besides the page
    ({f"{A}s": answer()}, [wanted(f"{A}s")], [200], [f"{A}robots.txt", f"{A}s"]),
    ({f"{A}robots.txt": "User-agent: *\nDisallow: /s"}, [wanted(f"{A}s")], [Refusal.ROBOTS], [f"{A}robots.txt"]),
    ({}, [wanted(f"{A}s", Kind.IMAGE), wanted(f"{A}s", method="POST")], [Refusal.TYPE, Refusal.METHOD], []),
    ({}, [wanted("ftp://a.test/"), wanted("http://a.test:25/")], [Refusal.OWN_RULE] * 2, []),
    ({}, [wanted("http://169.254.169.254/")], [Refusal.OWN_RULE], []),
    ({}, [wanted(f"{A}out/x")], [Refusal.EXCLUDED], []),
    ({f"{A}s": answer(Cache_Control="max-age=9")}, [wanted(f"{A}s")] * 3, [200] * 3, [f"{A}robots.txt", f"{A}s"]),
    (
        {f"{A}s": lambda sent: answer(status=304 if "if-none-match" in sent else 200, ETag='"1"')},
        [wanted(f"{A}s", Kind.DATA)] * 2,
        [200] * 2,
        [f"{A}robots.txt", f"{A}s", f"{A}s"],
    ),
    ({f"{A}s": answer(status=302, Location=B)}, [wanted(f"{A}s")], [302], [f"{A}robots.txt", f"{A}s"]),
    (
        {f"{A}s": answer(status=429, Retry_After="600")},
        [wanted(f"{A}s"), wanted(f"{A}t"), wanted(f"{B}t")],
        [429, Refusal.HELD, 404],
        [f"{A}robots.txt", f"{A}s", f"{B}robots.txt", f"{B}t"],
    ),
    ({f"{A}robots.txt": answer(status=503)}, [wanted(f"{A}s")] * 2, [Refusal.HELD] * 2, [f"{A}robots.txt"] * 2),
    ({f"{A}s": answer("x" * 50)}, [wanted(f"{A}s")] * 2, [200, Refusal.BUDGET], [f"{A}robots.txt", f"{A}s"]),
    (
        {f"{A}s": Failure(FailureKind.CUT_OFF, "x", 0.0, kept=True)},
        [wanted(f"{A}s")],
        [Failed],
        [f"{A}robots.txt", f"{A}s", f"{A}s"],
    ),
    ({}, [wanted(f"{A}s", Kind.DATA), wanted(A, Kind.PREFLIGHT)], [404, 204], [f"{A}robots.txt", f"{A}s"]),
]


@pytest.mark.parametrize(("pages", "asked", "came", "seen"), SEVERAL)
def test_what_comes_of_a_request(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pages: dict[str, Any],
    asked: list[SubRequest],
    came: list[Any],
    seen: list[str],
) -> None:
    lab = laboratory(tmp_path, {f"{A}robots.txt": "", f"{B}robots.txt": "", PAGE: "x"} | pages)
    lab.settings = replace(lab.settings, scope=ScopeSettings(exclude=("*/out/*",)), fetch=FetchSettings(max_body=64))
    answers: list[Any] = []

    async def asks(page: str, requests: SubRequests) -> None:
        answers.extend([await requests.ask(each) for each in asked])
        assert sum(requests.counts.refused.values()) == sum(isinstance(each, Refused) for each in answers)
        assert not requests.interrupted

    with rendering(monkeypatch, lab.settings, asks, Budget(requests=3, bytes=40)):
        assert lab.run(PAGE) is Stop.FINISHED
    assert [getattr(each, "status", getattr(each, "why", type(each))) for each in answers] == came
    assert [each.href for each in lab.asked if each.href[:17] != PAGE[:17]] == seen
    apart(lab, "a.test", gap=1.0)
    assert len(lab.records()) == 1


def test_an_unknown_robots_txt_and_a_shared_script_are_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"http://p{n}.test/" for n in range(6)]
    pages: dict[str, Any] = dict.fromkeys(names, "x") | {f"{A}robots.txt": "User-agent: *\nDisallow: /no"}
    lab = laboratory(tmp_path, pages | {f"{A}s": answer(Cache_Control="max-age=99")}, delay=0.5)

    async def asks(page: str, requests: SubRequests) -> None:
        both = await asyncio.gather(requests.ask(wanted(f"{A}s")), requests.ask(wanted(f"{A}no")))
        assert [type(each) for each in both] == [Answer, Refused]

    with rendering(monkeypatch, lab.settings, asks):
        lab.run(*names)
    assert [each.href for each in lab.requests_to("a.test")] == [f"{A}robots.txt", f"{A}s"]


@pytest.mark.parametrize(("delay", "per_host"), [(0.0, 1), (1.0, 1), (1.0, 3)])
def test_pages_of_a_host_and_requests_of_others_share_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: float, per_host: int
) -> None:
    pages: dict[str, Any] = {A: links([f"{A}{n}" for n in range(30)]), PAGE: "x", f"{A}robots.txt": ""}
    lab = laboratory(tmp_path, pages | {f"{A}{n}": "x" for n in range(30)}, delay=delay, per_host=per_host)

    async def asks(page: str, requests: SubRequests) -> None:
        if page == PAGE:
            await asyncio.sleep(3.0)
            for n in range(20):
                await requests.ask(wanted(f"{A}api{n}"))

    with rendering(monkeypatch, lab.settings, asks):
        lab.run(A, PAGE)
    asked = [each.href for each in lab.requests_to("a.test")]
    apart(lab, "a.test", gap=delay)
    shared = asked[asked.index(f"{A}api0") : asked.index(f"{A}api19")]
    assert 15 <= sum("api" not in href for href in shared) <= 25


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.9, 1.1, 1.3, 2.1, 2.5, 4.0])
def test_a_page_that_is_given_up_gives_all_leases_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    lab = laboratory(tmp_path, {PAGE: "x", f"{A}robots.txt": "", f"{B}robots.txt": ""})

    async def asks(page: str, requests: SubRequests) -> None:
        tasks = [asyncio.ensure_future(requests.ask(wanted(f"{at}{n}"))) for n in range(4) for at in (A, B)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        frontier = requests._network.job.frontier
        assert set(frontier.busy_hosts) == {"page.test:80"}
        hosts = [host for name in ("a.test:80", "b.test:80") if (host := frontier.known(name)) is not None]
        assert not any(host.side_request or host.leased or host.answered or host.inside for host in hosts)
        for at in (A, B):
            assert isinstance(await requests.ask(wanted(f"{at}last")), Answer)

    with rendering(monkeypatch, lab.settings, asks):
        assert lab.run(PAGE) is Stop.FINISHED
    apart(lab, "a.test", gap=0.0)
    assert [each.href for each in lab.asked].count(f"{A}last") == 1

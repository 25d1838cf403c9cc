"""Requests of pages that a browser renders, without one: each is made like a page, and no page waits while it holds a
host."""

# ruff: noqa: SLF001 -- the browser is played in the place of a visit
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.load import settings_from
from crawler.engine.lifecycle import Stop
from crawler.engine.membership import Membership
from crawler.engine.rendering.sub_requests import PageNetwork, SubRequests
from crawler.engine.visit import Visitor
from crawler.job.job import Job
from crawler.web.browser.rendered import Answer, Kind, Refusal, SubRequest
from crawler.web.fetch import Failure, FailureKind, Response
from tests.laboratory import SETTINGS, Laboratory, apart, links

PAGE, A, B = "http://page.test/", "http://a.test/", "http://b.test/"
ROBOTS, S = f"{A}robots.txt", f"{A}s"


def wanted(url: str, kind: Kind = Kind.SCRIPT, method: str = "GET") -> SubRequest:
    return SubRequest(url, method, kind, {})


def answer(status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(
        status, named, "text/plain", None, b"x" * 30, named.get("Location"), named.get("Retry-After"), 0.0, 30
    )


class Rendering(Laboratory):
    """Pages ask for what they want after their hosts are given back, as if a browser rendered them."""

    def render(
        self, patch: pytest.MonkeyPatch, asks: Callable[[str, SubRequests], Awaitable[None]], *seeds: str
    ) -> list[str]:
        """Returns what was asked of other hosts than that of PAGE."""
        networks: dict[Job, PageNetwork] = {}
        plain = Visitor._page

        async def read(visitor: Visitor, lease: Any, draft: Any, body: bytes, **how: Any) -> None:
            job, context, href = visitor._job, visitor._context, draft.record.entry.href
            if job not in networks:
                networks[job] = PageNetwork(visitor.robots, visitor._discovery, self.settings, None)
            job.frontier.answered(lease, draft.request, context.clock())
            with context.slots.lent():
                await asks(href, SubRequests(networks[job], href))
            await plain(visitor, lease, draft, body, **how)

        patch.setattr(Visitor, "_page", read)
        assert self.run(*seeds) is Stop.FINISHED
        return [each.href for each in self.asked if not each.href.startswith(PAGE)]


def laboratory(directory: Path, pages: dict[str, Any], **tables: Any) -> Rendering:
    settings = settings_from({"browser": {"third_parties": "any"}, "crawl": {"scope": "any"}} | tables)
    return Rendering(directory, pages, replace(settings, durability=SETTINGS.durability))


@pytest.mark.parametrize(("host_key", "delay"), [("host", 0.5), ("host", 0.0), ("domain", 0.5), ("address", 0.5)])
def test_pages_that_need_each_others_hosts_all_come_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host_key: str, delay: float
) -> None:
    names = [f"{'abcd'[n % 4]}{n}.{'xyz'[n % 3]}.test" for n in range(20)]
    pages: dict[str, Any] = {f"http://{name}/shared": answer(Cache_Control="max-age=999") for name in names}
    for name in names:
        pages |= {f"http://{name}/{n}": "x" for n in range(3)} | {f"http://{name}/": links(["/0", "/1", "/2"])}
        pages |= {f"http://{name}/robots.txt": "User-agent: *\nDisallow: /no"}
    lab = laboratory(tmp_path, pages, politeness={"host_key": host_key, "delay": delay})
    lab.addresses = {name: f"192.0.2.{n % 7}" for n, name in enumerate(names)}
    came: list[Any] = []

    async def asks(page: str, requests: SubRequests) -> None:
        urls = [f"http://{name}/{path}" for name in names[:10] for path in ("shared", "no", f"?{page}")]
        if page.endswith("/"):
            came.extend(await asyncio.gather(*map(requests.ask, map(wanted, urls))))

    asked = lab.render(monkeypatch, asks, *(f"http://{name}/" for name in names))
    assert [record["outcome"] for record in lab.records()] == ["fetched"] * 80
    whats = [each if isinstance(each, Refusal) else each.status for each in came]
    assert (whats.count(404), whats.count(Refusal.ROBOTS)) == (200, 200)
    assert len(asked) == 80 + 20 + 10 + 200  # pages, robots.txt, what is shared, what is not
    keys = {"host": str, "domain": lambda name: name.split(".", 1)[1], "address": lab.addresses.__getitem__}
    for key in {keys[host_key](name) for name in names}:
        apart(lab.requests_to(*(name for name in names if keys[host_key](name) == key)), delay)


HELD, OWN, BUDGET = Refusal.HELD, Refusal.OWN_RULE, Refusal.BUDGET
SITE = {"site": [{"match": "a.test", "ignore_robots": True}]}
NEWS, TOO_OLD = answer(ETag="1"), Failure(FailureKind.CUT_OFF, "x", 0.0, kept=True)
OLD = replace(NEWS, status=304, received=0)
CASES: list[tuple[dict[str, Any], dict[str, Any], list[SubRequest], list[Any], int]] = [
    # settings, pages, what one page asks for, what comes of it, how often other servers than its own are asked
    ({}, {}, [wanted(S)], [404], 2),
    ({}, {ROBOTS: "User-agent: *\nDisallow: /s"}, [wanted(S)] * 2, [Refusal.ROBOTS] * 2, 1),
    (SITE, {ROBOTS: "User-agent: *\nDisallow: /s"}, [wanted(S)], [404], 1),
    ({}, {}, [wanted(S, Kind.OTHER), wanted(S, method="POST")], [Refusal.TYPE, Refusal.METHOD], 0),
    ({}, {}, [wanted("ftp://a.test/"), wanted("http://a.test:25/"), wanted("http://[::1]/")], [OWN] * 3, 0),
    ({"scope": {"exclude": ["*/s"]}}, {}, [wanted(S)], [Refusal.EXCLUDED], 0),
    ({}, {S: answer(Cache_Control="max-age=9")}, [wanted(S)] * 3, [200] * 3, 2),
    ({}, {S: lambda sent: OLD if "if-none-match" in sent else NEWS}, [wanted(S, Kind.DATA)] * 3, [200] * 3, 4),
    ({"budget": {"host_bytes": 20}}, {S: answer()}, [wanted(S), wanted(A)], [200, BUDGET], 2),
    ({}, {S: answer(302, Location=B)}, [wanted(S)], [302], 2),
    ({}, {S: answer(429, Retry_After="600")}, [wanted(S), wanted(S), wanted(B)], [429, HELD, 404], 4),
    ({}, {S: answer(429, Retry_After="20")}, [wanted(S), wanted(A)], [429, 404], 3),
    ({}, {ROBOTS: answer(503, Retry_After="600")}, [wanted(S)] * 2, [HELD] * 2, 1),
    ({}, {S: TOO_OLD}, [wanted(S)], [type(None)], 3),
    ({}, {S: replace(answer(401), unsigned=True)}, [wanted(S, method="HEAD")], [401], 3),
    ({}, {}, [wanted(S, Kind.PREFLIGHT)], [204], 0),
    ({}, {}, [wanted("http://elsewhere.test/")], [Refusal.PARTITION], 0),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "pages", "asked", "came", "seen"), CASES)
def test_what_comes_of_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: Any, pages: Any, asked: Any, came: Any, seen: int
) -> None:
    lab = laboratory(tmp_path, {ROBOTS: "", f"{B}robots.txt": "", PAGE: "x"} | pages, **tables)
    answers: list[Any] = []

    async def asks(page: str, requests: SubRequests) -> None:
        elsewhere = Membership(lambda: True, lambda: True, is_elsewhere=lambda href: "elsewhere" in href)
        requests._network.robots.redirect.member = elsewhere
        answers.extend([await requests.ask(each) for each in asked])
        assert sum(requests.counts[why] for why in Refusal) == sum(isinstance(each, Refusal) for each in answers)
        assert not requests.interrupted

    assert len(lab.render(monkeypatch, asks, PAGE)) == seen
    assert [each if isinstance(each, Refusal) else getattr(each, "status", type(each)) for each in answers] == came
    apart(lab.requests_to("a.test"), 1.0)


@pytest.mark.parametrize(("delay", "per_host"), [(0.0, 1), (1.0, 1), (1.0, 3)])
def test_pages_of_a_host_and_requests_of_others_share_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: float, per_host: int
) -> None:
    pages: dict[str, Any] = {f"{A}{n}": "x" for n in range(40)} | {A: links([f"/{n}" for n in range(40)]), PAGE: "x"}
    lab = laboratory(tmp_path, pages, politeness={"delay": delay, "per_host": per_host})

    async def asks(page: str, requests: SubRequests) -> None:
        for n in range(20 if page == PAGE else 0):
            await requests.ask(wanted(f"{A}api{n}"))

    asked = lab.render(monkeypatch, asks, A, PAGE)
    apart(lab.requests_to("a.test"), delay)
    shared = asked[asked.index(f"{A}api1") : asked.index(f"{A}api19")]
    assert 10 <= sum("api" not in href for href in shared) <= 25


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.9, 1.1, 1.3, 2.1, 2.5, 4.0])
def test_a_page_that_is_given_up_gives_all_leases_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    lab = laboratory(tmp_path, {PAGE: "x", ROBOTS: "", f"{B}robots.txt": ""})

    async def asks(page: str, requests: SubRequests) -> None:
        tasks = [asyncio.ensure_future(requests.ask(wanted(f"{at}{n}"))) for n in range(4) for at in (A, B)]
        await asyncio.sleep(seconds)
        assert [task.cancel() for task in tasks]
        await asyncio.gather(*tasks, return_exceptions=True)
        frontier = requests._network.job.frontier
        assert set(frontier.busy_hosts) == {"page.test:80"}
        hosts = filter(None, map(frontier.known, ("a.test:80", "b.test:80")))
        assert not any(host.side_request or host.leased or host.answered or host.inside for host in hosts)
        assert all([isinstance(await requests.ask(wanted(f"{at}last")), Answer) for at in (A, B)])

    assert lab.render(monkeypatch, asks, PAGE).count(f"{A}last") == 1

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

from crawler.base.settings.parts import BrowserSettings, PolitenessSettings, RobotsSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.engine.rendering.sub_requests import PageNetwork, SubRequests
from crawler.engine.visit import Visitor
from crawler.job.job import Job
from crawler.web.browser.rendered import Budget, Kind, SubRequest
from crawler.web.fetch import Response
from tests.laboratory import SETTINGS, Laboratory, links

Asks = Callable[[str, SubRequests], Coroutine[Any, Any, None]]
PAGE, A, B = "http://page.test/", "http://a.test/", "http://b.test/"


def wanted(url: str, kind: Kind = Kind.SCRIPT, **more: Any) -> SubRequest:
    return SubRequest(url, more.pop("method", "GET"), kind, more.pop("headers", {}), **more)


def answer(body: str = "x", status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    location, after = named.get("Location"), named.get("Retry-After")
    return Response(status, named, "text/plain", None, body.encode(), location, after, 0.0, len(body))


@contextlib.contextmanager
def rendering(monkeypatch: pytest.MonkeyPatch, settings: Settings, asks: Asks) -> Iterator[None]:
    """Pages ask for what they want after their hosts are given back, as if a browser rendered them."""
    networks: dict[Job, PageNetwork] = {}
    plain = Visitor._finish_page

    async def finish(self: Visitor, lease: Any, finished: Any, body: bytes) -> None:
        if self._job not in networks:
            networks[self._job] = PageNetwork(self._robots, self._discovery, settings, None)
        self._job.frontier.answered(lease, finished.request, self._context.clock())
        with self._context.slots.lent():
            page = finished.record.entry.href
            await asks(page, networks[self._job].for_page(page, Budget()))
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

"""The rate: what counts as a request, and that none is faster. In virtual time."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings, RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.engine.rate import Rate
from crawler.engine.run import Run
from crawler.job.job import Job
from crawler.web.fetch import Failure, FailureKind, Response
from tests.laboratory import SETTINGS, Asked, Laboratory, links
from tests.simulated_web import redirect
from tests.virtual import run_virtually

POLL = 0.02  # seconds that the throttler may be late, at each period

NOT_FOUND = Failure(FailureKind.DNS, "name not found", 0.0)


@pytest.fixture(autouse=True)
def _time_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The throttler asks the module ``time``, and these loops have a time of their own."""
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr("asyncio_throttle.throttler.time", clock)


def assert_never_faster(times: list[float], rate: float) -> None:
    """No window of a period has more than the requests of a period."""
    most = max(1, round(rate / 10))
    for first, last in zip(times, times[most:], strict=False):
        assert last - first >= most / rate - 1e-6, (first, last)


@pytest.mark.parametrize("rate", [0.5, 7.0, 40.0])
def test_no_period_has_more_turns_and_none_is_lost(rate: float) -> None:
    async def turns() -> list[float]:
        limit, times = Rate(rate), []

        async def one() -> None:
            await limit.turn()
            times.append(asyncio.get_running_loop().time())

        given_up = asyncio.ensure_future(limit.turn())
        waiting = [asyncio.ensure_future(one()) for _ in range(30)]
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(*waiting)
        return times

    times = run_virtually(turns())
    assert_never_faster(times, rate)
    assert times[-1] - times[0] <= 30 / rate + 30 * POLL


def laboratory(tmp_path: Path, pages: dict[str, object], **politeness: object) -> Laboratory:
    polite = PolitenessSettings(**politeness)  # type: ignore[arg-type]
    settings = replace(SETTINGS, robots=RobotsSettings(), politeness=polite)
    return Laboratory(tmp_path / "job", pages, settings, {f"h{n}.test": f"192.0.2.{n}" for n in range(12)})  # type: ignore[arg-type]


def begun(asked: list[Asked]) -> list[float]:
    return sorted(each.begin for each in asked)


LOST = "<h1>Not found</h1>" + links(["lost/", "gone/", "/p1"])


def test_every_request_keeps_the_gap_and_the_rate_whatever_its_cause(tmp_path: Path) -> None:
    """Pages of several origins, robots.txt and where it redirects to, sitemaps, probes for soft 404s and in outages."""
    home, secure = "http://a.test/", "https://a.test/"
    others = [f"http://h{number}.test/" for number in range(9)]
    pages: dict[str, Any] = {
        **{other: links([f"{other}{n}" for n in range(8)]) for other in others},
        **{f"{other}{n}": f"{n} of {other}" for other in others for n in range(8)},
        home: links([*(f"/p{n}" for n in range(1, 8)), "/missing/", secure]),
        **{f"{home}p{n}": f"page {n}" + links([f"/p{n % 7 + 1}", "broken/"]) for n in range(1, 8)},
        f"{home}robots.txt": redirect(f"{secure}robots.txt"),
        f"{secure}robots.txt": f"Sitemap: {secure}map.xml",
        f"{secure}map.xml": Response(
            200,
            {},
            "text/xml",
            None,
            f"<urlset><url><loc>{secure}deep</loc></url></urlset>".encode(),
            None,
            None,
            0.2,
            60,
        ),
        secure: "the same, safely",
        f"{secure}deep": "listed only",
        "http://h0.test/robots.txt": redirect("http://h1.test/common.txt"),
        "http://h1.test/common.txt": "",
    }
    line: list[Failure] = []

    class Web(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            if line:
                return line[0]
            return super().get(key) or (LOST if key.startswith(home) else default)

    rate = 15.0
    told: list[int] = []
    lab = laboratory(tmp_path, Web(pages), delay=1.0, rate=rate)

    async def during(run: Run, job: Job) -> None:
        await asyncio.sleep(6)  # each host has answered
        line.append(NOT_FOUND)
        await asyncio.sleep(20)
        line.clear()
        told.append(run.stats()["outage"]["probes"])

    assert lab.run(home, *others, during=during) is Stop.FINISHED
    rows = lab.records()
    hrefs = [asked.href for asked in lab.asked]
    assert sum(bool(row.get("probe")) for row in rows) == 1, "a probe for soft 404s"
    assert sum(told) > 2, "probes in an outage"
    assert {f"{secure}map.xml", f"{secure}deep", "http://h1.test/common.txt"} <= set(hrefs)
    for name in ("a.test", *(f"h{number}.test" for number in range(9))):
        asked = sorted(lab.requests_to(name), key=lambda each: each.begin)
        assert all(later.begin - sooner.end >= 1.0 - 1e-6 for sooner, later in itertools.pairwise(asked))
    assert_never_faster(begun(lab.asked), rate)

"""Crawls that visit their pages again: on a virtual clock, over kills and losses of power, and after damage."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.base.disk import RealDisk
from crawler.base.kv import Family
from crawler.base.settings.parts import (
    CrawlSettings,
    DurabilitySettings,
    PolitenessSettings,
    RecrawlSettings,
    RobotsSettings,
    SeenSettings,
    Settings,
)
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.frontier.page import unpack_page
from crawler.job.job import Job
from crawler.job.metrics.catalogue import Counters
from crawler.job.platform import Platform
from crawler.job.records import decode_counters
from crawler.job.store.rocks import RocksStore
from crawler.web.fetch import Failure, FailureKind, Response
from tests.driving import Driven
from tests.durability.power import NEVER, Inline
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore
from tests.jobs import change, explain, findings, repair, rows, store_of, verify
from tests.program import crawler, running, wait_until
from tests.simulated_web import Answers, SimulatedWeb, page, redirect
from tests.site import Site, linked, tree
from tests.virtual import run_virtually

START = 1_700_000_000.0
RECRAWL = RecrawlSettings(enabled=True, policy="adaptive", mean_interval=8.0, min_interval=2.0, max_interval=128.0)


QUICK = RecrawlSettings(enabled=True, mean_interval=1.0, min_interval=0.5, max_interval=4.0)


def settings(max_time: float, sync_interval: float = 5.0, recrawl: RecrawlSettings = RECRAWL) -> Settings:
    return Settings(
        crawl=CrawlSettings(max_time=max_time, concurrency=6),
        politeness=PolitenessSettings(delay=0.0, per_host=6),
        robots=RobotsSettings(ignore=True),
        seen=SeenSettings(capacity=64),
        recrawl=recrawl,
        durability=DurabilitySettings(sync_interval=sync_interval, checkpoint_interval=NEVER),
    )


def with_etag(text: Callable[[], str]) -> Callable[[Mapping[str, str]], Response]:
    """A page that answers a conditional request with 304 as long as its text is the same."""

    def answer(headers: Mapping[str, str]) -> Response:
        etag = f'"{hash(text())}"'
        if headers.get("If-None-Match") == etag:
            return Response(304, {"ETag": etag}, None, None, b"", None, None, 0.0, 0)
        whole = page(text())
        return Response(200, {"ETag": etag}, "text/html", "utf-8", whole.body, None, None, 0.0, whole.received)

    return answer


async def seeds(*hrefs: str) -> AsyncIterator[list[str]]:
    yield list(hrefs)


async def crawl(
    directory: Path, web: Mapping[str, Answers], asked: list[tuple[float, str]], how: Settings, *begin_at: str
) -> Counters:
    """A run on a virtual clock, which carries on where the last request left it."""
    begin = asked[-1][0] if asked else START

    def clock() -> float:
        return begin + asyncio.get_running_loop().time()

    async def before(href: str) -> None:
        asked.append((clock(), href))

    job = Job(directory, how, clock(), Platform(RealDisk(), RocksStore, Inline))
    try:
        driven = Driven(job, SimulatedWeb(web, before), how, clock, seeds(*(begin_at or ("http://h.test/",))))
        assert await driven.to_the_end() is Stop.MAX_TIME
        await job.checkpoint(clock())
        return job.counters
    finally:
        job.close()


def test_what_changes_often_is_visited_often_and_a_304_costs_no_body(tmp_path: Path) -> None:
    asked: list[tuple[float, str]] = []

    def news() -> str:
        return f"version {asked[-1][0] // 4:.0f}"

    web: dict[str, Answers] = {
        "http://h.test/": linked(["/fast", "/still", "/silent", "/moved", "/gone"]),
        "http://h.test/fast": with_etag(news),
        "http://h.test/still": with_etag(lambda: "still"),
        "http://h.test/silent": "always the same, and no validator",
        "http://h.test/moved": redirect("/still"),
        "http://h.test/gone": Failure(FailureKind.TLS, "no certificate", 0.0),
    }
    counters = run_virtually(crawl(tmp_path / "job", web, asked, settings(600.0)))
    visits = Counter(href for _, href in asked)
    assert visits["http://h.test/fast"] > 5 * visits["http://h.test/still"]
    for name in ("", "still", "silent", "moved", "gone"):
        assert 5 <= visits[f"http://h.test/{name}"] <= 16, "8 s, growing by 0.4 to 128 s, within 600 s"
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(tmp_path / "job"):
        found[row["url"]].append(row)
    for records in found.values():
        assert [row.get("visit", 1) for row in records] == list(range(1, len(records) + 1))
        assert "changed" not in records[0]
    assert all(row["status"] == 304 and row["bytes"] == 0 for row in found["http://h.test/still"][1:])
    assert all(row["outcome"] == "fetched" and row["changed"] is False for row in found["http://h.test/still"][1:])
    assert not any(row["changed"] for row in found["http://h.test/silent"][1:])
    assert {row["outcome"] for row in found["http://h.test/moved"]} == {"redirect"}
    assert {row["changed"] for row in found["http://h.test/gone"][1:]} == {None}
    changes = [row["changed"] for row in found["http://h.test/fast"][1:]]
    assert 0.5 < changes.count(True) / len(changes) <= 1.0
    assert counters.revisits_changed == changes.count(True)
    assert counters.revisits_not_modified == sum(row["status"] == 304 for row in rows(tmp_path / "job"))
    assert (counters.urls_admitted, counters.pages_scheduled + counters.revisits_pending) == (6, 6)
    assert counters.revisits == sum(visits.values()) - 6 + counters.pending
    checked = verify(tmp_path / "job")
    assert checked.code == 0, checked


def test_conditions_that_a_server_cannot_take_and_a_304_that_nobody_asked_for(tmp_path: Path) -> None:
    asked: list[tuple[float, str]] = []
    sent: list[bool] = []
    not_modified = Response(304, {}, None, None, b"", None, None, 0.0, 0)

    def fails(headers: Mapping[str, str]) -> Response:
        sent.append("If-None-Match" in headers)
        return Response(412, {}, None, None, b"", None, None, 0.0, 0) if sent[-1] else with_etag(str)({})

    web: dict[str, Answers] = {
        "http://h.test/": linked(["/412", "/304"]),
        "http://h.test/412": fails,
        "http://h.test/304": lambda _: not_modified,
    }
    counters = run_virtually(crawl(tmp_path / "job", web, asked, settings(40.0)))
    found = [row for row in rows(tmp_path / "job") if row["url"].endswith("/412")]
    assert len(found) > 2
    assert {row["status"] for row in found} == {200}
    assert sent == [False, *[True, False] * (len(found) - 1)]
    assert counters.revisits_not_modified == counters.revisits_changed == 0


def test_a_page_that_is_gone_is_not_visited_for_ever(tmp_path: Path) -> None:
    asked: list[tuple[float, str]] = []
    absent = Response(404, {}, "text/html", "utf-8", b"", None, None, 0.0, 0)
    removed = page("for a while")

    def comes_and_goes(headers: Mapping[str, str]) -> Response:
        return removed if asked[-1][0] < START + 30 else absent

    web: dict[str, Answers] = {
        "http://h.test/": linked(["/never", "/removed"]),
        "http://h.test/never": lambda _: absent,
        "http://h.test/removed": comes_and_goes,
    }
    counters = run_virtually(crawl(tmp_path / "job", web, asked, settings(600.0)))
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(tmp_path / "job"):
        found[row["url"]].append(row)
    never, once = found["http://h.test/never"], found["http://h.test/removed"]
    assert [(row["status"], row.get("gone", False)) for row in never] == [(404, False), (404, False), (404, True)]
    assert [row["status"] for row in once][-4:] == [200, 404, 404, 404]
    assert [row.get("gone", False) for row in once] == [False] * (len(once) - 1) + [True]
    assert not any("gone" in row for row in found["http://h.test/"])
    assert counters.pages_scheduled + counters.revisits_pending == 1
    checked = verify(tmp_path / "job")
    assert checked.code == 0, checked


def test_a_link_that_a_page_gets_later_is_found_and_the_schedule_survives(tmp_path: Path) -> None:
    asked: list[tuple[float, str]] = []
    web: dict[str, Answers] = {"http://h.test/": linked(["/a"]), "http://h.test/a": "x", "http://h.test/b": "y"}
    run_virtually(crawl(tmp_path / "job", web, asked, settings(15.0)))
    with store_of(tmp_path / "job") as store:
        known = [unpack_page(value) for _, value in store.scan(Family.PAGES, b"")]
    web["http://h.test/"] = linked(["/a", "/b"])
    seen = len(asked)
    run_virtually(crawl(tmp_path / "job", web, asked, settings(100.0)))
    later = asked[seen:]
    timed = [kept for kept in known if kept.due is not None]
    assert timed
    for kept in timed:
        next_visit = next(at for at, href in later if href == kept.entry.href)
        assert kept.due <= next_visit + 0.001 <= kept.due + 1.5
    assert "http://h.test/b" in {href for _, href in later}
    assert verify(tmp_path / "job").code == 0
    schedule = explain(tmp_path / "job", "http://h.test/a")["schedule"]
    assert schedule["visits"] > 1
    assert schedule["changes"] == 0
    assert schedule["interval"] > 0


def test_a_real_server_is_asked_whether_a_page_has_changed(tmp_path: Path) -> None:
    asked: list[Mapping[str, str]] = []

    async def dated(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers)
        if request.headers.get("If-Modified-Since") == "Mon, 01 Jan 2024 00:00:00 GMT":
            return web.Response(status=304)
        headers = {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        return web.Response(text="<a href=/x>x</a>", content_type="text/html", headers=headers)

    with Site({"/": dated}) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        (tmp_path / "often.toml").write_text("[recrawl]\nmean_interval = 0.1\nmin_interval = 0.1\nmax_interval = 0.4\n")
        words = (tmp_path / "seeds.txt", "--job", tmp_path / "job", "--config", tmp_path / "often.toml", "--recrawl")
        assert crawler(*words, "--allow-private", "--delay", "0", "--quiet", "--max-pages", "5").code == 0
    first, *later = [row for row in rows(tmp_path / "job") if row["url"] == site.url("/")]
    assert (first["status"], first["bytes"] > 0) == (200, True)
    assert later
    assert {(row["status"], row["bytes"], row["changed"]) for row in later} == {(304, 0, False)}
    assert "If-Modified-Since" not in asked[0]


def test_kills_keep_the_schedule_and_no_visit_is_written_twice(tmp_path: Path) -> None:
    with Site(tree(12), latency=0.005) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        (tmp_path / "often.toml").write_text(
            "[recrawl]\nmean_interval = 0.3\nmin_interval = 0.2\nmax_interval = 1.0\n"
            "[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.2\n"
        )
        words = (tmp_path / "seeds.txt", "--job", tmp_path / "job", "--config", tmp_path / "often.toml", "--recrawl")
        often = (*words, "--allow-private", "--delay", "0", "--per-host", "4", "--quiet")
        for _ in range(2):
            before = len(site.asked)
            with running(*often) as process:
                wait_until(lambda before=before: len(site.asked) > before + 30, "revisits")  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
                process.wait()
        assert crawler(*often, "--max-time", "1").code == 0
    checked = verify(tmp_path / "job")
    assert checked.code == 0, checked
    visits: dict[str, list[int]] = defaultdict(list)
    for row in rows(tmp_path / "job"):
        visits[row["url"]].append(row.get("visit", 1))
    assert set(visits) == {site.url(path) for path in tree(12)}
    for numbers in visits.values():
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("seed", range(4))
def test_losses_of_power_leave_every_page_queued_or_scheduled(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = [f"http://h{number % 3}.test/{number}" for number in range(12)]
    pages: dict[str, Answers] = {name: linked(chance.choices(names, k=4)) for name in names}
    store, begun = FaultyStore(), START

    def clock() -> float:
        return begun + asyncio.get_running_loop().time()

    async def run(disk: FaultyDisk, cut_at: int | None) -> None:
        nonlocal begun
        crawl: Run | None = None

        async def before(href: str) -> None:
            assert crawl is not None
            if cut_at is not None and len(web.asked) >= cut_at:
                raise PowerCutError
            fate = chance.random()
            if fate < 0.1:
                await crawl.job.sync()
            elif fate < 0.14:
                await crawl.job.checkpoint(0.0)
            if len(web.asked) >= 150:
                crawl.stop()

        web = SimulatedWeb(pages, before)
        how = settings(NEVER, NEVER, QUICK)
        job = Job(tmp_path / "job", how, clock(), Platform(disk, lambda _: store, Inline))
        try:
            crawl = (driven := Driven(job, web, how, clock, seeds(*names))).run
            await driven.to_the_end()
            await job.checkpoint(0.0)
            await job.sync()
        finally:
            begun = clock()
            job.close()

    for _ in range(4):
        disk = FaultyDisk(chance)
        with pytest.raises(PowerCutError):
            run_virtually(run(disk, chance.randrange(3, 120)))
        disk.lose_power()
        store = store.lose_power(chance)
    run_virtually(run(FaultyDisk(chance), None))
    value = store.get(Family.META, b"counters")
    assert value is not None
    counters = decode_counters(value)
    lines = [json.loads(line) for line in (tmp_path / "job" / "pages.jsonl").read_text().splitlines()]
    assert findings(tmp_path / "job", store, counters) == []
    assert counters.done == len(lines)
    assert counters.pending == len(store.scan(Family.PENDING, b""))
    assert counters.urls_admitted == len(names)
    assert counters.pages_scheduled + counters.pending == len(names), "each once"
    assert {line["url"] for line in lines} == set(names)


def test_damage_is_named_and_repaired(tmp_path: Path) -> None:
    asked: list[tuple[float, str]] = []
    web: dict[str, Answers] = {f"http://h.test/{n or ''}": linked([f"/{n + 1}"]) for n in range(6)}
    job = tmp_path / "job"
    run_virtually(crawl(job, web, asked, settings(60.0)))
    records = (job / "pages.jsonl").read_bytes()
    assert len(records.splitlines()) > 12

    def mended(kind: str) -> None:
        assert verify(job).find(kind)
        done = repair(job)
        assert done.code == 0, done
        assert verify(job).findings == []
        assert (job / "pages.jsonl").read_bytes() == records

    change(job, Family.DUE, lambda found: (found[0][0], None))
    mended("schedule-differs")
    change(job, Family.PAGES, lambda found: (found[2][0], found[2][1][:20]))
    mended("row-damaged")
    change(job, Family.META, lambda _: (b"counters", None))
    mended("generation-ahead")
    change(job, Family.DUE, lambda found: (bytes(7) + found[0][0][7:], b""))
    mended("schedule-differs")
    assert run_virtually(crawl(job, web, asked, settings(60.0))).pages_fetched > len(records.splitlines()), "it goes on"
    assert verify(job).code == 0

"""One worker over several runs, and what says that a crawl is over."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from aiohttp import web
from msgspec.structs import replace

from crawler.base.settings.parts import CrawlSettings, FetchSettings, PolitenessSettings, RobotsSettings, Settings
from crawler.engine.ending import Ending
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.job.found import Found
from crawler.job.inbox import Answer, Inbox
from crawler.job.job import Job
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.fetch import Fetcher
from tests.laboratory import SETTINGS, links

CONCURRENCY = 2
RATE = 40.0
PAGES = 25
POLITE = PolitenessSettings(delay=0.0, per_host=8)
BOTH = Settings(
    crawl=CrawlSettings(concurrency=CONCURRENCY),
    politeness=POLITE,
    fetch=FetchSettings(allow_private=True),
    robots=RobotsSettings(ignore=True),
)


@dataclass
class Load:
    """What two sites bear together."""

    now: int = 0
    most: int = 0
    begun: list[tuple[float, str]] = field(default_factory=list)


async def serve(name: str, load: Load) -> tuple[web.AppRunner, str]:
    """A site of ``PAGES`` pages on loopback; its runner and its address."""

    async def answer(request: web.Request) -> web.Response:
        load.begun.append((time.monotonic(), name))
        load.now += 1
        load.most = max(load.most, load.now)
        await asyncio.sleep(0.02)
        load.now -= 1
        return web.Response(text=links([f"/{n}" for n in range(1, PAGES)]), content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return runner, f"http://{host}:{port}/"


async def only(*urls: str) -> AsyncIterator[list[str]]:
    yield list(urls)


async def test_one_worker_drives_two_runs_to_their_ends_with_one_concurrency_and_one_rate(tmp_path: Path) -> None:
    load = Load()
    sites = [await serve(name, load) for name in "ab"]
    jobs = [Job(tmp_path / name, BOTH, time.time()) for name in "ab"]
    try:
        async with Fetcher(BOTH.fetch, concurrency=CONCURRENCY, per_host=8) as fetcher:
            worker = Worker(fetcher, replace(BOTH, politeness=replace(BOTH.politeness, rate=RATE)), time.time)
            runs = [Run(job, BOTH, worker.context, only(url)) for job, (_, url) in zip(jobs, sites, strict=True)]
            await worker.drive(*runs)
    finally:
        for job in jobs:
            job.close()
        for runner, _ in sites:
            await runner.cleanup()
    assert [run.life.reason for run in runs] == [Stop.FINISHED, Stop.FINISHED]
    for name, (_, url) in zip("ab", sites, strict=True):
        records = [json.loads(line) for line in (tmp_path / name / "pages.jsonl").read_bytes().splitlines()]
        assert {record["url"] for record in records} == {url, *(f"{url}{n}" for n in range(1, PAGES))}
        assert {record["outcome"] for record in records} == {"fetched"}
    assert load.most == CONCURRENCY
    assert len(load.begun) == 2 * PAGES
    lasted = load.begun[-1][0] - load.begun[0][0]
    assert lasted >= (2 * PAGES - 5) / RATE, "one rate for both: each alone would take half the time"
    turns = [name for _, name in load.begun]
    changes = sum(one != other for one, other in pairwise(turns))
    assert changes > PAGES // 2, f"they take turns: {''.join(turns)}"


async def test_a_crawl_is_over_when_nothing_that_lasts_is_left(tmp_path: Path) -> None:
    with closing(Job(tmp_path / "job", SETTINGS, 0.0)) as job:
        inbox = Inbox(job.directory, job.disk)
        ending = Ending(job, inbox.waiting, finite=True, endless=False)
        assert not ending.is_reached(), "the seeds are not read"
        ending.seeds_read = True
        assert ending.is_reached()
        name = inbox.deposit(["http://h.test/"], seed=True, answer=False)
        assert not ending.is_reached(), "something lies in the inbox"
        inbox.close_batch(inbox.read(name), Answer())
        assert ending.is_reached()
        (url,) = [each for each in [Canonicaliser().canonicalise("http://h.test/")] if isinstance(each, Canonical)]
        job.admit(Found([url], 0))
        assert not ending.is_reached(), "a URL is pending"
        lease = job.frontier.take(0.0)
        assert lease is not None
        assert not ending.is_reached(), "it is in flight: another run would fetch it"
        assert not Ending(job, inbox.waiting, finite=True, endless=True).is_reached()

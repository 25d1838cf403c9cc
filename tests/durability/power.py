"""Simulated power losses: one whole life of a small crawl, cut off again and again, from a single seed.

Everything runs in this process without sockets: a table of pages for the web, ``FaultyDisk`` and ``FaultyStore`` for
what lies below. Syncs and checkpoints come at random pages, cuts at random calls of the disk or at random pages.
"""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.settings.parts import (
    CrawlSettings,
    DurabilitySettings,
    OutputSettings,
    PolitenessSettings,
    RobotsSettings,
    SeenSettings,
    Settings,
)
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.web.fetch import RawExchange, Response
from tests.chance import CHANCE
from tests.driving import Driven
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore
from tests.outputs import bodies_of, edges_of, records
from tests.simulated_web import SimulatedWeb, page, redirect
from tests.virtual import run_virtually

NEVER = 1e9


class Inline(Executor):
    """Runs at once what others run in a thread: the order of things is then a matter of the seed alone."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # whatever it is belongs to who waits for it
            future.set_exception(error)
        return future


# Slices of 16 URLs and more: a life of this small site seals several of them.
SETTINGS = Settings(
    crawl=CrawlSettings(concurrency=6),
    politeness=PolitenessSettings(delay=0.0, per_host=6),
    robots=RobotsSettings(ignore=True),
    seen=SeenSettings(capacity=16),
    durability=DurabilitySettings(sync_interval=NEVER, checkpoint_interval=NEVER),
)


# Files of a few pages each.
KEEPING = replace(SETTINGS, output=OutputSettings(("links", "bodies"), 900, 1500))


def small_web(chance: random.Random) -> dict[str, Any]:
    """Some tens of pages on a few hosts, with redirects, dead ends and links that come many times."""
    names = [f"http://h{chance.randrange(4)}.test/{number}" for number in range(chance.randint(20, 70))]
    web: dict[str, Any] = {}
    for number, name in enumerate(names):
        if number and chance.random() < 0.1:
            web[name] = redirect(names[(number + 1) % len(names)])
            continue
        targets = names[3 * number + 1 : 3 * number + 4] + chance.choices(names, k=3)
        web[name] = "".join(f'<a href="{target}">x</a>' for target in [*targets, "/missing"])
    return web


@dataclass
class Life:
    """How a crawl went that lost its power ``cuts`` times."""

    cuts: int
    missing: set[str]
    twice: list[str]
    asked: int
    finished: int


def live(seed: int, most_cuts: int = 4, settings: Settings = SETTINGS) -> Life:
    """One life; the same seed gives the same life."""
    chance = random.Random(seed)
    CHANCE.seed(seed)
    web = small_web(chance)
    directory = Path(tempfile.mkdtemp(prefix="power-"))
    try:
        return _live(chance, web, directory, most_cuts, settings)
    finally:
        shutil.rmtree(directory)


def _live(chance: random.Random, web: dict[str, Any], directory: Path, most_cuts: int, settings: Settings) -> Life:
    store = FaultyStore()
    asked: list[str] = []
    cuts = 0
    ticks = itertools.count()
    job_directory = directory / "job"
    while True:
        last = cuts == most_cuts
        by_page = None if last or chance.random() < 0.5 else chance.randrange(1, 40)
        by_call = None if last or by_page is not None else chance.randrange(1, 160)
        disk = FaultyDisk(chance, cut_after=by_call)
        try:
            run = _run(chance, web, job_directory, disk, store, by_page, asked, lambda: next(ticks) * 0.001, settings)
            run_virtually(run)
            break
        except PowerCutError:
            cuts += 1
            disk.lose_power()
            store = store.lose_power(chance)
    if settings.output.keep:
        edges = {url: {row["to"] for row in rows} for url, rows in edges_of(job_directory).items()}
        assert edges == edges_in(web)
        bodies = {url: body for url, body in bodies_of(job_directory).items() if url in web}
        assert bodies == {url: web[url].encode() for url in reachable(web) if isinstance(web.get(url), str)}
    rows = [record["url"] for record in records(job_directory)]
    twice = [url for url, times in Counter(rows).items() if times > 1]
    return Life(cuts, reachable(web) ^ set(rows), twice, len(asked), len(rows))


async def _run(
    chance: random.Random,
    web: dict[str, Any],
    directory: Path,
    disk: FaultyDisk,
    store: FaultyStore,
    cut_at_page: int | None,
    asked: list[str],
    clock: Callable[[], float],
    settings: Settings,
) -> None:
    crawl: Run | None = None

    async def before(href: str) -> None:
        asked.append(href)
        assert crawl is not None
        if cut_at_page is not None and len(simulated.asked) >= cut_at_page:
            raise PowerCutError
        fate = chance.random()
        if fate < 0.08:
            await crawl.job.sync()
        elif fate < 0.12:
            await crawl.job.checkpoint(0.0)
        elif fate < 0.2:
            for step in crawl.job.files.outputs.pages.compression():
                step()

    simulated = SimulatedWeb({url: on_the_wire(answer) for url, answer in web.items()}, before)
    with closing(Job(directory, settings, clock(), Platform(disk, lambda _: store, Inline))) as job:
        driven = Driven(job, simulated, settings, clock, seeds(next(iter(web))))
        crawl = driven.run
        assert await driven.to_the_end() is Stop.FINISHED
        await job.checkpoint(0.0)
        await job.sync()
        await job.compress_rest(lambda: False)


def on_the_wire(answer: Any) -> Response:
    """The answer with the sign that outputs hold it."""
    made = page(answer) if isinstance(answer, str) else answer
    return replace(made, raw=RawExchange(b"", b"", made.body or b""))


async def seeds(first: str) -> AsyncIterator[list[str]]:
    # One seed on each host, so that the scope holds them all; the hosts' own start pages do not exist.
    yield [first, *(f"http://h{host}.test/start" for host in range(4))]


def edges_in(web: dict[str, object]) -> dict[str, set[str]]:
    """The edges of the pages that a whole crawl of this web finishes."""
    found: dict[str, set[str]] = {}
    canonicaliser = Canonicaliser()
    for href in reachable(web) & web.keys():
        targets = _targets(web[href])
        if urls := canonicaliser.outlinks(href, targets)[0]:
            found[href] = {url.href for url in urls}
    return found


def _targets(answer: object) -> list[str]:
    if isinstance(answer, str):
        return [part.split('"')[0] for part in answer.split('href="')[1:]]
    location = getattr(answer, "location", None)
    return [] if location is None else [location]


def reachable(web: dict[str, object]) -> set[str]:
    """Every URL that a whole crawl of this web finishes."""
    canonicaliser = Canonicaliser()
    todo = [next(iter(web)), *(f"http://h{host}.test/start" for host in range(4))]
    found = set(todo)
    while todo:
        href = todo.pop()
        for url in canonicaliser.outlinks(href, _targets(web.get(href)))[0]:
            if url.href not in found:
                found.add(url.href)
                todo.append(url.href)
    return found

"""One run from opening the job to closing it, whatever ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawler.clock import SteadyClock
from crawler.dashboard import Dashboard, access_of, keep_token, spoken_of
from crawler.engine.lifecycle import State, Stop
from crawler.engine.run import Run
from crawler.engine.worker import Worker, WorkerSettings
from crawler.fetch import Fetcher
from crawler.job.history_file import load_course
from crawler.job.job import Job
from crawler.job.run_settings import write_run
from crawler.metrics import Kind
from crawler.service.command_files import obey
from crawler.service.commands import performing
from crawler.service.control import Perform, control_routes
from crawler.service.crawl_api import CrawlApi
from crawler.service.status_reporter import StatusReporter, View
from crawler.settings import Settings

log = logging.getLogger("crawler")


@dataclass(frozen=True, slots=True)
class Result:
    """How the run ended."""

    reason: Stop | None
    stats: dict[str, Any]
    seeds_fetched: int
    last_seed_error: str | None


async def run_crawl(
    directory: Path,
    settings: Settings,
    seeds: AsyncIterator[list[str]],
    view: View | None,
    *,
    finite: bool = True,
) -> Result:
    """Crawl in the job directory until it is done or stopped, then write a last generation. ``finite`` seeds are read
    to their end also where a limit is reached before.

    Raises what ``Job`` raises when the job cannot be opened, OSError when the dashboard's port is taken or the disk
    fails, and any bug: the state is then checkpointed as far as it is whole, and the job can be run again."""
    _allow_files(settings.crawl.concurrency)
    clock = SteadyClock()
    crawl: Run | None = None

    def stats() -> dict[str, Any]:
        return {} if crawl is None else crawl.stats()

    course = load_course(directory, clock())
    access = None if settings.dashboard.listen is None else access_of(settings.dashboard, directory)
    api = CrawlApi(lambda: crawl, settings, clock)
    perform = performing(lambda: crawl, course.events, clock)
    dashboard: Dashboard | None = None
    address: str | None = None
    addresses: list[str] = []
    if access is not None:
        routes = [*api.routes(), *control_routes(perform)]
        dashboard = Dashboard(settings.dashboard, stats, clock, routes, access, course)
        address = await dashboard.start()
        addresses = spoken_of(settings.dashboard, access, address)
    try:
        job = Job(directory, settings, clock(), anchor=clock.anchor)
        job.events = course.events
        try:
            if access is not None and access.token is not None:
                keep_token(settings.dashboard, directory, access.token)
            write_run(job.disk, directory, settings)
            async with Fetcher(
                settings.fetch,
                concurrency=settings.crawl.concurrency,
                per_host=settings.politeness.per_host,
            ) as fetcher:
                worker = Worker(fetcher, WorkerSettings.of(settings), clock)
                crawl = Run(job, settings, worker.context, seeds, finite=finite)
                spare_the_collector()
                course.observe(clock(), crawl.stats())
                course.events.add(clock(), Kind.RUN, "carried on" if job.resumed else "begun")
                if view is not None:
                    crawl.keeper.tell_notes(view.say)
                    for line in addresses:
                        view.say(line)
                shown = StatusReporter(directory, course, clock, view, address)
                return await _guarded(crawl, worker, shown, perform, clock)
        finally:
            await api.close()
            job.close()
    finally:
        if dashboard is not None:
            await dashboard.stop()


async def _guarded(
    crawl: Run,
    worker: Worker,
    shown: StatusReporter,
    perform: Perform,
    clock: Callable[[], float],
) -> Result:
    job = crawl.job
    showing = asyncio.create_task(shown.keep(crawl))
    obeying = asyncio.create_task(obey(job.directory, perform))
    try:
        with _signals(crawl):
            try:
                await worker.drive(crawl)
            finally:
                # Also after a bug: what was done is worth keeping, if memory and store still agree.
                if job.whole:
                    # Who asks an ended crawl should not wait for a replay each time; who stops one should not wait now.
                    await job.checkpoint(clock(), whole=crawl.life.state is State.ENDED)
                    await job.sync()
        stats = crawl.stats()
        shown.end(stats)
        return Result(crawl.life.reason, stats, job.counters.seeds_fetched, crawl.last_seed_error)
    except Exception as error:
        # What was seen up to now says what led there; that it cannot be kept must not hide what went wrong.
        with contextlib.suppress(Exception):
            job.events.add(clock(), Kind.ERROR, f"the crawl is stopped by an error: {type(error).__name__}")
            shown.end(crawl.stats())
        raise
    finally:
        obeying.cancel()
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing
        shown.take_away()
        with contextlib.suppress(asyncio.CancelledError):
            await obeying


def spare_the_collector() -> None:
    """Take what lives as long as the process (modules, settings, the hosts of a job that is carried on) out of the
    garbage collector's sight. Each of its full passes walks all that it sees, while the event loop stands still."""
    gc.collect()
    gc.freeze()


def _allow_files(concurrency: int) -> None:
    """Raise the soft limit on open files to what connections and RocksDB may need, as far as the hard one allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8 * concurrency + 4_096
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


@contextlib.contextmanager
def _signals(crawl: Run) -> Iterator[None]:
    """The first SIGINT or SIGTERM stops in order; a second SIGINT leaves at once, the journal stands for the rest."""

    interrupts = 0

    def interrupted() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            os.write(2, b"crawler: left at once; the same command replays the journal\n")
            os._exit(130)
        log.warning("interrupted: finishing what is in flight, once more leaves at once")
        crawl.stop(Stop.INTERRUPTED)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, crawl.stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)

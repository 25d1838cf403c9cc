"""``crawler SEEDS --partitions N``: a crawl by several processes, which this process starts and supervises."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from crawler.base.carrier.local_server import LocalServer
from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import Carrier
from crawler.base.clock import SteadyClock, boot_time
from crawler.base.disk import RealDisk, private_opener
from crawler.base.same_program import words_of
from crawler.base.say import say
from crawler.base.settings.live import merge
from crawler.base.settings.load import as_tables
from crawler.base.settings.parts import DashboardSettings, Settings
from crawler.cli.browser import open_in_browser
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.named_seeds import NamedSeeds
from crawler.cli.options import STDOUT
from crawler.cli.reporting import finish, report_end, shown_run, way_on
from crawler.cluster.agreement import check_present, joined, keep_present, keep_settings, shared_tables
from crawler.cluster.crawl_directory import partitions_of
from crawler.cluster.drain_file import is_asked
from crawler.cluster.seats import SEEDED
from crawler.cluster.stored_crawl import find_stored
from crawler.cluster.time_left import TimeLeft
from crawler.cluster.worker_channel import Instructions, Refusal
from crawler.cluster.worker_supervisor import Outcome, Plan, Supervisor
from crawler.engine.lifecycle import State, Stop
from crawler.inspect.crawl_reader import stats_of
from crawler.inspect.known_urls import open_known
from crawler.job.bucket.address import open_objects
from crawler.job.bucket.objects import BucketDown, BucketError
from crawler.job.bucket.ownership import has_last_word, read_here
from crawler.job.crawl_file import CrawlFile, holds_crawl, partition_directories
from crawler.job.job_lock import JobLock
from crawler.job.metrics.pooled_stats import ABSENT, ELSEWHERE
from crawler.service.background import background
from crawler.service.crawl_progress import CrawlProgress
from crawler.service.dashboard.live_server import Dashboard
from crawler.service.dashboard.token import TOKEN, access_of, keep_token, spoken_of
from crawler.service.ending_signals import stopping_signals
from crawler.service.facade import Result
from crawler.service.file_limit import check_files
from crawler.service.file_source import source_of
from crawler.service.job_survey import UNREADABLE
from crawler.service.notices import Notices
from crawler.service.opening import bucket_of
from crawler.service.progress.supervisor import environment_of_another, keep_reporting
from crawler.service.reloading import Configuration, ConfigurationError
from crawler.service.shown_source import ShownSource
from crawler.service.source import INTERVAL

if TYPE_CHECKING:
    from crawler.service.progress.live_line import Progress

log = logging.getLogger("crawler")

SPOOLED = "seeds-{}.txt"  # seeds from standard input and pipes, in the directory of the crawl
_PIECE = 2**20  # bytes
_UNSEEN = 5.0  # seconds between two looks at the statistics if they are not shown
_LEAVING = 10.0  # seconds for manually added workers to notice the end of the crawl and leave


def _check_possible(arguments: argparse.Namespace, settings: Settings) -> None:
    """Raise UsageError for options that a partitioned crawl does not support, and JobError for an unusable seen-set."""
    partitions = settings.partitions
    if STDOUT in getattr(arguments, "output", ()):
        raise UsageError("--output -: several processes cannot write records to standard output: read the files")
    if getattr(arguments, "keep_open", False):
        raise UsageError(f"--keep-open: leave it out, and use `crawler dashboard {arguments.job}` after the crawl")
    is_stored = settings.crawl.store is not None or read_here(arguments.job) is not None
    if partitions.engine is not None and partitions.crawl is None and not is_stored:
        raise UsageError("--engine needs --crawl NAME: several crawls may share an engine")
    with open_known(settings.crawl.known, arguments.job):  # refused here, before anything is changed
        pass


def run_partitioned(arguments: argparse.Namespace, configuration: Configuration, seeds: NamedSeeds) -> int:
    """Start or resume a partitioned crawl, and return the exit code. Raises UsageError."""
    _check_possible(arguments, configuration.settings)
    directory: Path = arguments.job
    with shown_run(arguments, "the engine") as view:
        check_files(partitions_of(directory, configuration.settings))
        shown = _shown(arguments, configuration.settings.dashboard, view)
        outcome, stats = asyncio.run(_notified(directory, configuration, seeds, view, shown))
    # A worker in another directory may have fetched the seeds, and may own all partitions that had them.
    others = {each["partition"] for each in stats.get("partitions", ()) if each["state"] in (ABSENT, ELSEWHERE)}
    if outcome.reason is Stop.FINISHED and (SEEDED in others or not stats):
        say(sys.stderr, "the crawl has ended, but this command has read no seeds: if it has new ones, run it again")
    seeds_fetched = bool(outcome.seeds_fetched or stats.get("pages_fetched", 0) or others or not stats)
    result = Result(outcome.reason, stats, None, int(seeds_fetched), outcome.last_seed_error)
    fail_on_limit = configuration.settings.crawl.fail_on_limit
    code = report_end(result, directory, arguments.quiet, fail_on_limit, outcome.drained)
    if code in (Exit.OK, Exit.INTERRUPTED) and _has_last_word(directory):
        code = Exit.FAILED
    return finish(arguments, configuration.settings, result, code)


def _has_last_word(directory: Path) -> bool:
    """Return True if this directory may have steps that the crawl's store, if any, lacks."""
    try:
        here = read_here(directory)
        objects = None if here is None else open_objects(here.address, reading=True)
        return objects is not None and any(has_last_word(objects, each) for each in partition_directories(directory))
    except (BucketDown, BucketError):
        return True  # each worker has already reported this error


async def _shown(arguments: argparse.Namespace, settings: DashboardSettings, view: Progress | None) -> None:
    """If a dashboard is wanted, serve it from the files of the crawl until cancelled."""
    directory: Path = arguments.job
    if settings.listen is None:
        return
    try:
        while not partition_directories(directory):  # noqa: ASYNC110, another process creates them
            await asyncio.sleep(INTERVAL)
        source, access = await asyncio.to_thread(source_of, directory, SteadyClock()), access_of(settings, directory)
        keep_token(settings, directory, access.token)
        async with contextlib.aclosing(ShownSource(source, {"token_file": TOKEN})) as page:
            board = Dashboard(settings, page.feed, page.routes, access)
            address = await board.start()
            if view is not None:
                view.say(spoken_of(settings, access, address))
            if arguments.open:
                open_in_browser(access.link(address), directory)
            try:
                await page.keep()
            finally:
                source.take(await asyncio.to_thread(source.read))  # so that the page shows how the crawl ended
                await board.stop()
    except UNREADABLE as error:
        log.warning("the dashboard cannot be served: %s; `crawler dashboard %s` serves it too", error, directory)


async def _notified(
    directory: Path,
    configuration: Configuration,
    seeds: NamedSeeds,
    view: Progress | None,
    shown: Coroutine[Any, Any, None],
) -> tuple[Outcome, dict[str, Any]]:
    """Run the crawl with notices, and ``shown`` in the background. Raises UsageError and FailedError if a worker has
    failed for good."""
    notices = Notices(configuration.settings.notify, directory, SteadyClock())
    async with notices.delivering(), background(shown):
        outcome, stats = await _whole(directory, configuration, seeds, view, notices)
        if (failed := outcome.failed) is not None:
            if failed.final:
                raise UsageError(failed.text)
            raise FailedError(failed.text if failed.damaged else f"stopped: {failed.text}; {way_on(directory)}")
        if stats:
            notices.end(outcome.reason, stats)
        return outcome, stats


async def _joined(
    directory: Path, settings: Settings, clock: SteadyClock, stack: contextlib.AsyncExitStack
) -> tuple[Carrier, str | None, CrawlFile]:
    """Start or join the crawl. Returns the crawl's carrier (which ``stack`` closes), the URL of the carrier if the
    carrier is a server, and the crawl's file."""
    name, engine, disk = settings.partitions.crawl or "", settings.partitions.engine, RealDisk()
    if holds_crawl(directory):
        JobLock(directory).release()  # refuses a second command before it changes the store
    objects, stored = bucket_of(directory, settings), None
    if objects is not None:
        stored = await asyncio.to_thread(find_stored, objects, directory, settings, begins=True)
        name, engine = stored.crawl.name, stored.shape.engine or None
    carrier: Carrier = MemoryCarrier() if engine is None else await open_carrier(engine, name)
    stack.push_async_callback(carrier.close)
    where = str(directory) if engine is None else engine
    if engine is not None:
        await check_present(carrier, clock, where)
    join = joined if stored is None else stored.join
    crawl = await join(carrier, disk, directory, settings, where)
    if engine is not None and stored is None:
        log.warning("no other machine can join without --store, which cannot be added later")
    keep_settings(disk, directory, shared_tables(settings))
    return carrier, engine, crawl


async def _whole(
    directory: Path, configuration: Configuration, seeds: NamedSeeds, view: Progress | None, notices: Notices
) -> tuple[Outcome, dict[str, Any]]:
    settings, clock = configuration.settings, SteadyClock()
    began = clock()
    async with contextlib.AsyncExitStack() as stack:
        carrier, engine, crawl = await _joined(directory, settings, clock, stack)
        lock = JobLock(directory)
        stack.callback(lock.release)
        server = LocalServer(directory, carrier) if isinstance(carrier, MemoryCarrier) else None
        if server is not None:
            await server.start()
            stack.push_async_callback(server.close)
            engine = f"unix:{server.path.absolute()}"
        files = await asyncio.to_thread(_spooled, directory, seeds)
        given = _Given(configuration, seeds.urls, files)
        present = asyncio.create_task(keep_present(carrier, crawl, lambda: given.settings, clock))
        stack.callback(present.cancel)
        progress = CrawlProgress(directory, crawl)
        if given.processes > crawl.partitions:
            log.warning(
                "%d processes for %d partitions: starting only %d processes", given.processes, *2 * (crawl.partitions,)
            )
            given.processes = crawl.partitions
        plan = _plan(directory, crawl, str(engine), given, progress)
        supervisor = Supervisor(plan, view.say if view is not None else log.warning)
        time = TimeLeft(carrier, settings.crawl.max_time, boot_time)
        ending = asyncio.create_task(time.keep(partial(supervisor.stop, Stop.MAX_TIME)))
        stack.callback(ending.cancel)
        outcome = await _watched(supervisor, progress, view, notices)
        if server is not None and outcome.reason is not Stop.INTERRUPTED:
            await server.until_left(_LEAVING)
    if outcome.reason is Stop.FINISHED and outcome.failed is None:
        _forget_spooled(directory)
    # After an error only the error is reported; without an open partition there is nothing to report.
    if outcome.failed is not None or not partition_directories(directory):
        return outcome, {}
    return outcome, await asyncio.to_thread(_final, directory, outcome, clock() - began)


def _final(directory: Path, outcome: Outcome, elapsed: float) -> dict[str, Any]:
    """Return the crawl's statistics after a run, including the values that only this process knows."""
    stats = stats_of(directory)
    stats["elapsed_seconds"] = elapsed
    if outcome.reason is not Stop.FINISHED and stats["state"] == State.ENDED:
        stats["state"] = State.STOPPED  # no work is left here, but other machines may still have some
    return stats


class _Given:
    """The workers' instructions: the settings, which may be read again, and the seeds."""

    def __init__(self, configuration: Configuration, urls: list[str], files: list[Path]) -> None:
        self.settings = configuration.settings  # replaced when the configuration is read again
        self._read_again = configuration.read_again
        self._urls = urls
        self._files = [str(path.absolute()) for path in files]
        self._begun = set[int]()
        self.processes = configuration.settings.partitions.processes or 1

    def instructions(self, number: int) -> Instructions:
        """Return the instructions for the worker with this number, which is about to start."""
        given = self._instructions()
        if number in self._begun:
            return replace(given, expected=1)  # a replacement need not wait for the other workers, which are running
        self._begun.add(number)
        return given

    def _instructions(self) -> Instructions:
        settings = self.settings
        each = replace(settings, crawl=replace(settings.crawl, max_time=None))  # the first process enforces the limit
        return Instructions(
            tables=as_tables(each),
            places=[[*place, text] for place, text in settings.places.items()],
            urls=self._urls,
            files=self._files,
            expected=self.processes,
        )

    async def reread(self, number: int) -> Instructions | Refusal:
        """Read the configuration again and return new instructions. Replacement workers keep the old values of settings
        that need a restart."""
        assert self._read_again is not None
        try:
            read = await asyncio.to_thread(self._read_again)
        except ConfigurationError as error:
            return Refusal(str(error))
        before, self.settings = self.settings, read
        asked = self._instructions()
        self.settings = merge(before, read).settings
        return asked


def _plan(directory: Path, crawl: CrawlFile, engine: str, given: _Given, progress: CrawlProgress) -> Plan:
    words = [*words_of(), "work", f"--engine={engine}", f"--crawl={crawl.name}"]
    words.append(f"--dir={directory}")

    def pages() -> int:
        with contextlib.suppress(OSError):
            progress.look()
        return progress.fetched

    drains = partial(is_asked, directory)
    return Plan(words, environment_of_another(), given.processes, given.instructions, given.reread, pages, drains)


async def _watched(supervisor: Supervisor, progress: CrawlProgress, view: Progress | None, notices: Notices) -> Outcome:
    """Keep the workers running while showing the crawl, and stop them in an orderly way on a signal."""
    stop, loop = partial(supervisor.stop, Stop.INTERRUPTED), asyncio.get_running_loop()
    with view or contextlib.nullcontext():
        every = _UNSEEN if view is None else 1.0
        looking = asyncio.create_task(keep_reporting(partial(_look, progress, view, notices), every))
        try:
            with stopping_signals(loop, stop, supervisor.kill):
                return await supervisor.run()
        finally:
            looking.cancel()


def _look(progress: CrawlProgress, view: Progress | None, notices: Notices) -> tuple[str, bool]:
    stats = progress.look()
    if stats is not None:
        notices.look(stats)
        if view is not None:
            view.update(stats)
    return f"{progress.pages()} pages", False


def _spooled(directory: Path, seeds: NamedSeeds) -> list[Path]:
    """Return the seeds files: the named ones, and copies of streams that can be read only once. Copies are kept until
    the crawl has ended, so that no seed is lost if a worker dies while reading. Raises SeedsError, OSError."""
    for stream in seeds.streams:
        path = directory / SPOOLED.format(secrets.token_hex(8))
        part = path.with_suffix(".part")
        with (
            open(stream, "rb", closefd=isinstance(stream, Path)) as source,
            open(part, "xb", opener=private_opener) as spool,
        ):
            while piece := source.read(_PIECE):
                spool.write(piece)
            spool.flush()
            os.fsync(spool.fileno())
        os.replace(part, path)
        RealDisk().sync_directory(directory)
    return [*seeds.files, *_spool_files(directory)]


def _spool_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob(SPOOLED.format("*")) if path.stat().st_size)


def _forget_spooled(directory: Path) -> None:
    for path in directory.glob(SPOOLED.format("*")):
        path.unlink(missing_ok=True)

"""One run, from opening the job to closing it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.clock import SteadyClock
from crawler.base.disk import Expendable
from crawler.base.settings.parts import Settings
from crawler.engine.lifecycle import State, Stop
from crawler.engine.run import Run
from crawler.engine.user_code import UserCode
from crawler.engine.worker import Worker
from crawler.inspect.known_urls import open_known
from crawler.job.bucket.keeping import Keeping
from crawler.job.bucket.ownership import Holding
from crawler.job.directory import PAGES
from crawler.job.history_file import load_history
from crawler.job.inbox import Inbox
from crawler.job.job import Job
from crawler.job.metrics.events import Kind
from crawler.job.run_settings import RUN, write_run
from crawler.service.background import background
from crawler.service.commands import NOT_RUNNING, Refusal, Refused, obey
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.token import TOKEN, access_of, keep_token, spoken_of
from crawler.service.ending_signals import stopping_signals
from crawler.service.facade import Facade, Result
from crawler.service.opening import hold_bucket, open_job_of_run, open_shared, platform_of
from crawler.service.progress.supervisor import keep_reporting
from crawler.service.record_pipe import RecordPipe
from crawler.service.reloading import Configuration, Parts, Reloading
from crawler.service.resumed import Resumed
from crawler.service.status_reporter import StatusReporter, View
from crawler.web.fetch import Fetcher

if TYPE_CHECKING:  # see ``_shown``
    from crawler.service.shown_run import ShownRun


class RunOptions(Struct, frozen=True):
    """``finite``: the number of seeds is finite, so all are read even if a limit is reached first. ``check`` may refuse
    a job to be resumed. ``records_to`` is a descriptor to which records are copied; the run ends if its reader closes
    it. ``code`` is the user's. ``begun`` is called with the run before the run does anything. ``signals``: ending
    signals stop the run instead of being left to the caller. ``opening`` is called with the link to the dashboard.
    ``keeps_open``: another server will follow at the dashboard's address, unless the run fails or a signal ends it."""

    finite: bool = True
    check: Callable[[Job], None] | None = None
    records_to: int | None = None
    code: UserCode = field(default_factory=UserCode)
    begun: Callable[[Run], None] = lambda _: None
    signals: bool = True
    opening: Callable[[str], object] | None = None
    keeps_open: bool = False


_USUAL = RunOptions()


async def run_crawl(
    directory: Path,
    configuration: Configuration,
    seeds: AsyncIterator[list[str]],
    view: View | None,
    options: RunOptions = _USUAL,
) -> Result:
    """Crawl in the job directory until the crawl is over or stopped, then write a last generation.

    Raises the exceptions of ``options.check``, those of ``Job`` if the job cannot be opened, OSError if the dashboard's
    port is in use or the disk fails, and any bug. After a bug, the state is checkpointed as far as it is consistent,
    and the job can be run again."""
    settings, reloading = configuration.settings, Reloading(configuration.settings, configuration.read)
    shared = open_shared(settings)
    clock = shared.clock
    facade = Facade(directory, load_history(directory, clock()), reloading, settings, clock)
    access = None if settings.dashboard.listen is None else access_of(settings.dashboard, directory)
    shown = _shown(facade, settings, access)
    async with (
        facade.notices.delivering(),
        contextlib.nullcontext() if shown is None else shown.served(options.keeps_open) as address,
        _open_job(settings, clock, facade, shown) as (job, holding),
        shared.fetcher as fetcher,
    ):
        if options.check is not None and job.files.resumed:
            options.check(job)
        resumed = Resumed(job, settings, clock()) if job.files.resumed else None
        _store(job, settings, access)
        bucket = None
        if holding is not None:
            bucket = Keeping(holding.objects, holding.log, clock)
            await bucket.add(job, 0, holding.epoch)
        worker = Worker(fetcher, settings, clock, shared.lag, shared.slots)
        worker.context.renderer.live_in(directory)
        if resumed is not None and view is not None and options.finite:
            seeds = resumed.tell_behind(seeds, view.say)
        if shown is not None:
            seeds = shown.named(seeds)
        facade.run = run = Run(job, settings, worker.context.with_code(options.code), seeds, finite=options.finite)
        reloading.parts = _parts(run, worker, fetcher, shown)
        spare_the_collector()
        facade.begin("resumed" if job.files.resumed else "started")
        if view is not None:
            run.keeper.tell_notes(view.say)
            begins = [] if resumed else [f"crawling into {directory}: Ctrl-C stops it, another run resumes it"]
            spoken = [] if access is None or address is None else [spoken_of(settings.dashboard, access, address)]
            for line in (*begins, *spoken, *fetcher.notes):
                view.say(line)
            if resumed is not None and not options.finite:
                resumed.tell(view.say)
        before = None if resumed is None else run.stats()
        reporter = StatusReporter(job.files, facade.history, clock, view, address)
        options.begun(run)
        if options.opening is not None and access is not None and address is not None:
            options.opening(access.link(address))
        with contextlib.closing(options.code), _pipe(job, facade, options) as pipe, _signals(run, facade, options):
            beside = [] if bucket is None else [bucket.keep()]  # the job reports a failure
            try:
                facade.result = result = await _drive(worker, reporter, facade, shown, pipe, beside)
            finally:
                unstored = bucket is not None and not await bucket.leave(0, whole=run.life.state is State.ENDED)
    return replace(result, before=before, address=address, signalled=facade.signalled, unstored=unstored)


def _store(job: Job, settings: Settings, access: Access | None) -> None:
    """Store the token of the dashboard and the settings of the run for other processes."""
    if access is not None:
        with Expendable(str(job.directory / TOKEN)):
            keep_token(settings.dashboard, job.directory, access.token)
    with Expendable(str(job.directory / RUN)):
        write_run(job.disk, job.directory, settings)


def _parts(run: Run, worker: Worker, fetcher: Fetcher, shown: ShownRun | None) -> Parts:
    """Return the parts of the run that take reloaded settings."""
    job = run.job

    def refusal() -> Refused | None:
        if run.life.reason is not None:
            return NOT_RUNNING
        if job.blocked is not None:
            return Refused(Refusal.NOT_NOW, f"nothing can be written now: {job.blocked}")
        return None

    def change(settings: Settings) -> None:
        worker.change(settings)
        run.change(settings)

    def taken(settings: Settings) -> None:
        if shown is not None:
            shown.view.change(settings)
        with Expendable(str(job.directory / RUN)):
            write_run(job.disk, job.directory, settings)

    return Parts(fetcher, change, taken, refusal)


def _pipe(job: Job, facade: Facade, options: RunOptions) -> contextlib.AbstractContextManager[RecordPipe | None]:
    if options.records_to is None:
        return contextlib.nullcontext()
    return contextlib.closing(RecordPipe(job.directory / PAGES, options.records_to, lambda: facade.signalled))


def _shown(facade: Facade, settings: Settings, access: Access | None) -> ShownRun | None:
    if access is None:
        return None
    from crawler.service.shown_run import ShownRun  # noqa: PLC0415, most crawls need no server

    return ShownRun(facade, settings, access)


@contextlib.asynccontextmanager
async def _open_job(
    settings: Settings, clock: SteadyClock, facade: Facade, shown: ShownRun | None
) -> AsyncIterator[tuple[Job, Holding | None]]:
    directory = facade.directory
    with open_known(settings.crawl.known, directory) as known:  # first: if a seen-set is refused, nothing changes
        holding = await hold_bucket(directory, settings, clock)
        job = await open_job_of_run(directory, settings, clock, platform_of(holding))
        job.events = facade.history.events
        job.leave_out(known)
        try:
            try:
                yield job, holding
            finally:
                if shown is not None:
                    await shown.view.close()
                job.close()
        except OSError:
            # If the directory is gone, report that: it explains more than a file that cannot be opened or a store that
            # cannot be closed.
            job.files.look_for_directories()
            raise


async def _drive(
    worker: Worker,
    reporter: StatusReporter,
    facade: Facade,
    shown: ShownRun | None,
    pipe: RecordPipe | None,
    also: Sequence[Coroutine[Any, Any, object]],
) -> Result:
    """Drive the run to its end while it is shown and controlled, and write its last generation."""
    run = facade.run
    assert run is not None
    job = run.job
    beside: list[Coroutine[Any, Any, object]] = [
        reporter.keep(run),
        obey(Inbox(job.directory, job.disk), facade.perform),
        facade.notices.keep(run.stats),
        keep_reporting(lambda: (facade.status(reporter.latest), run.life.state is State.STOPPING)),
        *also,
    ]
    if shown is not None:
        beside.append(shown.survey.keep())
    if pipe is not None:
        beside.append(pipe.keep(lambda: job.promises.end, lambda: run.stop(Stop.READER_LEFT)))
    try:
        async with background(*beside):
            try:
                await drive_and_checkpoint(worker, run, facade.clock)
                if pipe is not None:
                    await pipe.copy(job.promises.end)
                if shown is not None:
                    await shown.survey.finish()
                stats = run.stats()
                reporter.end(stats)
            except Exception as error:
                # The events so far show what led to the error. A failure to store them must not hide the error.
                with contextlib.suppress(Exception):
                    job.events.add(
                        facade.clock(), Kind.ERROR, f"the crawl stopped with an error: {type(error).__name__}"
                    )
                    reporter.end(run.stats())
                raise
    finally:
        reporter.take_away()
    assert run.life.reason is not None
    facade.notices.end(run.life.reason, stats)
    return Result(run.life.reason, stats, None, job.counters.seeds_fetched, run.visitor.last_seed_error)


async def drive_and_checkpoint(worker: Worker, run: Run, clock: Callable[[], float]) -> None:
    """Drive the run to its end, write its last generation, and derive and compress the files that are then final.
    Raises the exceptions of ``drive``, JobError and OSError."""
    try:
        await worker.drive(run)
    finally:
        # Do this after a bug too: the work is worth keeping if memory and store still agree.
        if run.job.writer.whole:
            # Write the whole seen-set only at the end of a crawl, so that later readers need not replay the journal; a
            # user who stops a crawl should not have to wait for it.
            await run.job.checkpoint(clock(), whole=run.life.state is State.ENDED)
            await run.job.sync()
    if run.job.writer.failed is not None:
        raise run.job.writer.failed  # raised by a sync for which the end of the run did not wait
    await run.keeper.derive_rest()
    await run.keeper.compress_rest()


def spare_the_collector() -> None:
    """Hide objects that live as long as the process from the garbage collector: modules, settings, the hosts of a
    resumed job. Each full collection walks all objects it can see, and blocks the event loop meanwhile."""
    gc.collect()
    gc.freeze()


def _signals(run: Run, facade: Facade, options: RunOptions) -> contextlib.AbstractContextManager[None]:
    if not options.signals:
        return contextlib.nullcontext()

    def stop() -> None:
        facade.signalled = True
        run.stop()

    return stopping_signals(asyncio.get_running_loop(), stop)

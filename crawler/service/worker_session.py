"""One worker of a crawl in partitions, from its first partition to its last: the parts shared by its runs, and the
background tasks of each run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.carrier.verbs import Carrier
from crawler.base.clock import SteadyClock
from crawler.base.disk import RealDisk
from crawler.base.settings.live import Merged, merge
from crawler.base.settings.parts import Settings
from crawler.cluster.drain_file import is_asked
from crawler.cluster.member import Member, run_member
from crawler.cluster.member_options import Crawl, MemberOptions, MemberResult, no_seeds, settings_later
from crawler.cluster.stored_partitions import StoredPartitions
from crawler.cluster.worker_name import own_name
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.engine.user_code import UserCode
from crawler.job.bucket.keeping import TakenOverError
from crawler.job.bucket.layout import read_crawl
from crawler.job.bucket.objects import BucketDown, BucketError
from crawler.job.crawl_file import CrawlFile
from crawler.job.history_file import load_history
from crawler.job.identity import check_shape, shaping_of
from crawler.job.inbox import Inbox
from crawler.job.metrics.events import Kind
from crawler.job.platform import SharedPlatform
from crawler.service.background import background, end_all
from crawler.service.carrier_reports import CarrierReports
from crawler.service.commands import Refusal, Refused, obey, performing
from crawler.service.opening import bucket_of, open_shared
from crawler.service.reloading import Parts, Reloading
from crawler.service.status_reporter import StatusReporter, told_every

log = logging.getLogger("crawler")

_AGAIN = 1.0  # seconds until a store that did not answer is tried again
_NO_RELOAD = Refused(Refusal.NOT_NOW, "a worker that was added by hand reads its configuration only when it starts")


class WorkOptions(Struct, frozen=True):
    """``seeds`` are read in partition 0. ``expected`` and ``own_rate``: see ``MemberOptions``. ``code`` is the user's.
    ``begun`` is called with the member before the member does anything; before that call, ``stopped()`` returns the
    reason if the worker is to stop. ``begin`` is called with each run before the run does anything, and with a
    remaining run when another run is over. ``reread`` returns the current settings of the configuration, or raises
    ConfigurationError."""

    seeds: Callable[[], AsyncIterator[list[str]]] = no_seeds
    expected: int = 1
    code: UserCode = field(default_factory=UserCode)
    begin: Callable[[Run], None] = lambda _: None
    reread: Callable[[], Awaitable[Settings]] | None = None
    begun: Callable[[Member], None] = lambda _: None
    stopped: Callable[[], Stop | None] = lambda: None
    own_rate: float | None = None


class Background:
    """The background tasks of each partition's run: its status in ``live.json``, its history, commands from its inbox,
    and its reports."""

    def __init__(
        self, clock: Callable[[], float], begin: Callable[[Run], None], reloading: Reloading, reports: CarrierReports
    ) -> None:
        self._clock = clock
        self._begin = begin
        self._reloading = reloading
        self._reports = reports
        self._open: dict[int, tuple[StatusReporter, list[asyncio.Task[None]]]] = {}
        self._runs = dict[int, Run]()
        self._closed = list[asyncio.Task[None]]()

    def opened(self, number: int, run: Run) -> None:
        """Start the tasks of a partition that was opened."""
        job = run.job
        history = load_history(job.directory, self._clock())
        job.events = history.events
        history.events.add(self._clock(), Kind.RUN, "resumed" if job.files.resumed else "started")
        reporter = StatusReporter(job.files, history, self._clock, None, None, self._interval)
        self._runs[number] = run
        self._begin(run)
        perform = performing(lambda: run, history.events, self._clock, self._reloading.reload)
        beside = (reporter.keep(run), obey(Inbox(job.directory, job.disk), perform))
        self._open[number] = (reporter, [asyncio.create_task(each) for each in beside])
        self._reports.opened(number, run, lambda: reporter.latest)

    def _interval(self) -> float:
        return told_every(len(self._open))

    def closing(self, number: int, run: Run) -> None:
        """Stop the tasks of a partition whose run is over."""
        reporter, tasks = self._open.pop(number)
        del self._runs[number]
        if self._runs:
            self._begin(next(iter(self._runs.values())))  # from now on, this run counts the failures of the user's code
        for task in tasks:
            task.cancel()
        self._closed += tasks
        stats = run.stats()
        reporter.end(stats)
        self._reports.closing(number, stats)
        reporter.take_away()

    async def end(self) -> None:
        """Wait for all remaining tasks. Raises their exceptions."""
        for reporter, tasks in self._open.values():
            self._closed += tasks
            reporter.take_away()
        await end_all(self._closed)


def _merged(now: Settings, read: Settings) -> Merged:
    """Merge the settings read again (``read``) into the current ones. Two settings cannot change in a worker: the
    slots, which are limited by open files, and the page limit, which applies to all partitions together and therefore
    needs a restart."""
    pages = replace(now, crawl=replace(now.crawl, max_pages=read.crawl.max_pages))
    kept = replace(read.crawl, concurrency=now.crawl.concurrency, max_pages=now.crawl.max_pages)
    merged = merge(now, replace(read, crawl=kept))
    return Merged(merged.settings, merged.changed, merged.restart + merge(now, pages).changed)


async def work(
    directory: Path, crawl: CrawlFile, carrier: Carrier, settings: Settings, options: WorkOptions
) -> MemberResult:
    """Work on the crawl until it has ended or is stopped. ``settings.crawl.max_time`` counts from now. A worker whose
    partitions were taken over because it was away for too long starts again without partitions. Raises the exceptions
    of ``run_member``, and JobError if the limit on open files is too low."""
    clock = SteadyClock()
    began = clock()
    with contextlib.closing(options.code):
        while True:
            left = settings_later(settings, clock() - began)
            try:
                return await _work(directory, crawl, carrier, left, options)
            except TakenOverError as error:
                log.warning("%s; this worker starts again", error)


async def _work(
    directory: Path, crawl: CrawlFile, carrier: Carrier, settings: Settings, options: WorkOptions
) -> MemberResult:
    shared = open_shared(settings, crawl.partitions)
    clock, fetcher = shared.clock, shared.fetcher
    settings = replace(settings, crawl=replace(settings.crawl, concurrency=shared.slots.number))
    reloading = Reloading(settings, options.reread, _NO_RELOAD, _merged)
    reports = CarrierReports(carrier, directory, crawl, clock)
    runs = Background(clock, options.begin, reloading, reports)

    def begun(member: Member) -> None:
        reloading.parts = Parts(fetcher, member.change)
        options.begun(member)

    with (
        SharedPlatform(crawl.partitions) as platform,
        own_name(directory) as name,
    ):
        async with fetcher:
            whole = Crawl.of(directory, crawl)
            stored = await _stored(directory, settings, whole.settings_of_partition(settings), clock, options.stopped)
            if isinstance(stored, Stop):
                return MemberResult(stored, {}, 0, None)
            member = MemberOptions(
                fetcher=fetcher,
                clock=clock,
                lag=shared.lag,
                slots=shared.slots,
                seeds=options.seeds,
                code=options.code,
                name=name,
                expected=options.expected,
                own_rate=options.own_rate,
                opened=runs.opened,
                closing=runs.closing,
                platform=platform,
                stored=stored,
            )
            try:
                async with background(reports.keep()):
                    return await run_member(whole, carrier, settings, member, begun)
            finally:
                await reports.end()
                await runs.end()


async def _stored(
    directory: Path,
    settings: Settings,
    of_partition: Settings,
    clock: Callable[[], float],
    stopped: Callable[[], Stop | None],
) -> StoredPartitions | Stop | None:
    """Wait until the crawl's store answers, and return a new worker's partitions there; None if there is no store. If
    the worker is to stop before that, return the reason. Raises BucketError, JobError, OSError."""

    def check(job: Path) -> None:
        check_shape(job, shaping_of(of_partition))

    has_said = False
    while (reason := Stop.INTERRUPTED if is_asked(directory) else stopped()) is None:
        try:
            objects = bucket_of(directory, settings)
            if objects is None:
                return None
            crawl = await asyncio.to_thread(read_crawl, objects)
        except BucketDown as error:
            if not has_said:
                log.warning("%s; nothing is lost, and this worker starts when it answers", error)
                has_said = True
            await asyncio.sleep(_AGAIN)
            continue
        if crawl is None:
            raise BucketError(f"{objects.address} no longer holds a crawl: it was removed")
        return StoredPartitions(objects, crawl, RealDisk(), clock, asyncio.to_thread, check)
    return reason

"""SCHEDULER: keeps Scrapy's requests in a durable frontier."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Self

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import CallLaterOnce

from crawler.job.directory import JobError, check_vacant, holds_job
from crawler.tools.scrapy.dupefilter import DupeFilter
from crawler.tools.scrapy.in_progress import DROPPED, ItemFeeds, watch_engine
from crawler.tools.scrapy.job_settings import choices, settings_of_job
from crawler.tools.scrapy.request_job import TOGETHER, Ending, RequestJob, Taken
from crawler.tools.scrapy.request_rows import RequestRows, UnreadableError, UnserialisableError, own_name
from crawler.tools.scrapy.start_requests import StartRequests

log = logging.getLogger(__name__)

_SPIDER = b"spider"
_OF_SCRAPY = ("spider.state", "requests.seen")  # other files that Scrapy keeps in a job directory
_TAKEN = ("requests.queue", "requests.seen")  # files of Scrapy's own scheduler and dupefilter


class Scheduler(BaseScheduler):
    """Hands out the requests of a job, and ends each request when the output of its callback has been consumed."""

    has_seen_set: ClassVar[bool] = True  # DupeFilter reads this attribute from the class in SCHEDULER

    def __init__(self, crawler: Any) -> None:
        """Raises JobError, SettingsError, OSError, and the errors of DUPEFILTER_CLASS."""
        self.crawler = crawler
        self.spider: Spider = crawler.spider
        self._memory = MemoryRequests()
        self._start = StartRequests()
        self._out: dict[Request, tuple[Taken, Ending]] = {}
        self._writing: CallLaterOnce[bool] | None = None  # None until it is opened
        self._broken = False
        self._feeds = ItemFeeds(crawler)
        with contextlib.ExitStack() as held:
            self._job, self._rows = self._open_job(held)
            self.df = self._dupefilter()
            self._held = held.pop_all()

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        # Raise all errors here, not in ``open``. If ``open`` fails, Scrapy closes extensions that were not opened: its
        # SpiderState then empties the file of the spider's state.
        try:
            scheduler = cls(crawler)
        except Exception as error:
            log.critical("The spider does not start: %s", error, extra={"spider": crawler.spider})
            raise
        scheduler._start.watch(crawler.engine.scraper.spidermw.methods)
        return scheduler

    # -- the run -----------------------------------------------------------------------------------------------

    def _open_job(self, held: contextlib.ExitStack) -> tuple[RequestJob, RequestRows]:
        settings = self.crawler.settings
        given = choices(settings.get)
        directory = _directory(job_dir(settings), held)
        _check_vacant(directory)
        out = settings.getint("CONCURRENT_REQUESTS")
        job = RequestJob(directory, settings_of_job(directory, _per_host(settings), out, given))
        held.callback(job.close)
        _check_spider(job, directory, str(self.spider.name))
        rows = RequestRows(
            self.spider,
            newest_first="fifo" not in str(settings.get("SCHEDULER_DISK_QUEUE")).lower(),
            start_last=bool(settings.get("SCHEDULER_START_DISK_QUEUE", True)),
        )
        return job, rows

    def _dupefilter(self) -> Any:
        """Create the dupefilter. Call it once the directory is known to be the spider's, because the filter may write
        to it immediately."""
        filter_class = load_object(self.crawler.settings["DUPEFILTER_CLASS"])
        make = getattr(filter_class, "from_crawler", None)
        made = filter_class() if make is None else make(self.crawler)
        if isinstance(made, DupeFilter):
            made.attach(self._job.knows)
        return made

    def open(self, spider: Spider) -> Any:
        try:
            watch_engine(self.crawler.engine, self._answered, self._done)
            self._start.begin(self._job)
            opened = self.df.open()
        except BaseException:
            self._held.close()
            raise
        if self._job.waiting:
            log.info("Resuming crawl (%(n)d requests scheduled)", {"n": self._job.waiting}, extra={"spider": spider})
        for line in self._job.job.notes:
            log.info("%s", line, extra={"spider": spider})
        self._writing = CallLaterOnce(self._write)
        return opened

    def close(self, reason: str) -> Any:
        if self._writing is None:  # something failed before the scheduler was open
            self._held.close()
            return None
        self._writing.cancel()
        self._feeds.flush()
        try:
            self._held.close()
        except OSError as error:
            if not self._broken:
                raise
            # This error stopped the spider and was already logged.
            log.error("The job is closed without writing the rest: %s", error, extra={"spider": self.spider})
        finally:
            closed = self.df.close(reason)
        return closed

    # -- requests ----------------------------------------------------------------------------------------------

    def has_pending_requests(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return 0 if self._broken else self._job.waiting + len(self._memory)

    def enqueue_request(self, request: Request) -> bool:
        start, noted = self._start.is_start(request), b""
        if request.dont_filter:
            if start:
                noted = self.crawler.request_fingerprinter.fingerprint(request)
                if not self._start.is_due(noted):
                    self._count("scheduler/start/resumed")
                    return False
            name = self._name_of_its_own()
        elif self._is_duplicate(request):
            self.df.log(request, self.spider)
            return False
        else:
            name = self._name_of_new(request)
        slot = request.meta.get("download_slot")
        if slot is not None and slot != urlparse_cached(request).hostname:
            # With custom download slots, the requests of one host are spread over several slots.
            self._job.allow(self.crawler.settings.getint("CONCURRENT_REQUESTS"))
        try:
            row = self._rows.row(request, name, start=start)
        except UnserialisableError as error:
            self._keep_in_memory(request, name, error)
        else:
            if noted:
                self._start.queued(noted)
            if self._job.bring(row) >= TOGETHER:
                self._write()
            self._count("scheduler/enqueued/disk")
        self._count("scheduler/enqueued")
        return True

    def _is_duplicate(self, request: Request) -> bool:
        if not isinstance(self.df, DupeFilter):
            return bool(self.df.request_seen(request))
        names = self._memory.names
        return (bool(names) and self.df.name(request) in names) or self.df.request_seen(request)

    def _name_of_new(self, request: Request) -> str:
        """Return the name of a request that the dupefilter reports as new."""
        if not isinstance(self.df, DupeFilter):
            return self._name_of_its_own()
        name = self.df.name(request)
        if type(self.df) is not DupeFilter and not self._job.may_be_new(name):
            return self._name_of_its_own()  # a subclass accepts a duplicate, which must not replace the first request
        return name

    def _name_of_its_own(self) -> str:
        name = own_name()
        while not self._job.may_be_new(name):  # a false positive of the seen-set
            name = own_name()
        return name

    def _keep_in_memory(self, request: Request, name: str, error: UnserialisableError) -> None:
        if not self._memory.names:
            log.warning(
                "Unable to serialize request: %(request)s - reason: %(reason)s - it is kept in memory, and lost if the "
                "spider is killed; no more unserializable requests will be logged (stats being collected)",
                {"request": request, "reason": error},
                extra={"spider": self.spider},
            )
        self._memory.push(request, name)
        self._count("scheduler/unserializable")
        self._count("scheduler/enqueued/memory")

    def next_request(self) -> Request | None:
        request = self._memory.pop()
        if request is not None:
            self._count("scheduler/dequeued/memory")
        else:
            request = self._take()
            if request is None:
                return None
            self._count("scheduler/dequeued/disk")
        self._count("scheduler/dequeued")
        return request

    def _take(self) -> Request | None:
        while self._write() and (taken := self._job.take()) is not None:
            try:
                if taken.stored is None:
                    raise UnreadableError("its bytes are missing from the store")
                request = self._rows.request(taken.stored)
            except UnreadableError as error:
                # The request remains in the job and is retried at the next start, when the code that it needs may be
                # back.
                log.error("Cannot read a stored request for %s: %s", taken.entry.href, error)
                self._job.answered(taken)
                self._count("scheduler/unreadable")
                continue
            self._out[request] = (taken, DROPPED)
            return request
        return None

    def _write(self) -> bool:
        """Write the waiting changes. Returns False if that is impossible now, so that no request can be handed out."""
        if self._broken:
            return False
        self._feeds.flush()
        try:
            return self._job.flush()
        except OSError as error:
            self._broken = True
            log.critical(
                "Cannot write the job: %s: the spider stops. Fix the problem and start it again: the stored data "
                "is complete",
                error,
                extra={"spider": self.spider},
            )
            stop = getattr(self.crawler, "stop_async", None)
            if stop is None:
                self.crawler.stop()
            else:
                deferred_from_coro(stop())
            return False

    def _answered(self, request: Request, ending: Ending) -> None:
        """Record that the download of a request has ended."""
        out = self._out.get(request)
        if out is not None:
            self._job.answered(out[0])
            self._out[request] = (out[0], ending)

    def _done(self, request: Request) -> None:
        """Record that the engine has finished a request."""
        out = self._out.pop(request, None)
        if out is not None:
            self._job.end(*out)
            self._feeds.ended()
            # The requests that result from this one are in memory too: all are written together after this turn of the
            # reactor.
            if self._writing is not None:
                self._writing.schedule()

    def _count(self, name: str) -> None:
        self.crawler.stats.inc_value(name)


def _directory(job: str | None, held: contextlib.ExitStack) -> Path:
    """Return the directory of the job; without JOBDIR, a temporary directory that ``held`` removes."""
    if job is not None:
        return Path(job)
    log.warning("JOBDIR is not set: the requests are in a directory that is removed when the spider closes")
    return Path(held.enter_context(tempfile.TemporaryDirectory(prefix="crawler-scrapy-")))


def _check_spider(job: RequestJob, directory: Path, name: str) -> None:
    """Raise JobError if the job belongs to another spider."""
    kept = job.note(_SPIDER)
    if kept is None:
        job.put_note(_SPIDER, name.encode())
    elif kept != name.encode():
        raise JobError(
            f"{directory} is the job of the spider {kept.decode()!r}, not of {name!r}: give each spider its own JOBDIR"
        )


def _check_vacant(directory: Path) -> None:
    """Raise JobError if a new job's directory holds other files, such as a crawl of Scrapy's own scheduler."""
    if not holds_job(directory):
        for name in _TAKEN:
            path = directory / name
            if path.is_dir() or (path.is_file() and path.stat().st_size):  # a spider that failed to start left it empty
                raise JobError(
                    f"{directory} holds a crawl of Scrapy's own scheduler ({name}), which cannot be resumed: finish "
                    "it with that scheduler, or set JOBDIR to a new directory"
                )
    check_vacant(directory, _OF_SCRAPY)


class MemoryRequests:
    """Requests that cannot be stored, by priority, newest first. ``names`` contains the names of all requests that were
    ever added."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Request]] = []
        self._numbers = itertools.count(0, -1)
        self.names: set[str] = set()

    def push(self, request: Request, name: str) -> None:
        heapq.heappush(self._heap, (-request.priority, next(self._numbers), request))
        self.names.add(name)

    def pop(self) -> Request | None:
        return heapq.heappop(self._heap)[2] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)


def _per_host(settings: Any) -> int:
    """Return the maximum number of requests of one host in the downloader. Scrapy treats 0 as 1."""
    slots = settings.getdict("DOWNLOAD_SLOTS").values()
    most = [int(slot.get("concurrency") or 0) for slot in slots]
    return max(1, int(settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")), *most)

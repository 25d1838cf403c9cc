"""A job for requests made by an external fetcher. It knows the name of each request, its position in its host's queue,
and its bytes.

New requests and finished requests wait in memory for the next ``flush``, which writes them in one
transaction. The caller flushes before it takes a request, so a request is never handed out
before its own transaction is written.

The bytes of a finished request are kept until its end is durable. A power loss may undo the end of a request, because
its record in ``pages.jsonl`` is lost; the request is then queued again, and needs its bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.clock import SteadyClock
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import Settings
from crawler.frontier.entry import Entry
from crawler.frontier.lease import Lease
from crawler.frontier.limits import Limits
from crawler.frontier.request_outcome import ANSWERED
from crawler.job.found import Brought
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import Outcome, PageRecord, decode_done
from crawler.job.run_settings import write_run
from crawler.job.store.rocks import RequestStore
from crawler.tools.scrapy.job_settings import FETCHER
from crawler.tools.scrapy.spider_status import SpiderStatus
from crawler.tools.scrapy.upkeep import EndedNames, Upkeep, delete
from crawler.url.urls.request_name import name_in

log = logging.getLogger(__name__)

TOGETHER = 512  # maximum number of requests in memory before they are written
_RECENT = 32_768  # recently looked-up names; they include nearly all links of most pages
_NOTE = b"+"  # prefix of the names of notes; no name of a request starts with it


class Ending(Struct, frozen=True):
    """How a request ended."""

    outcome: Outcome
    status: int | None = None
    error: str | None = None
    content_type: str | None = None
    size: int | None = None
    location: str | None = None


class Taken(Struct, eq=False):
    """A request that is handed out."""

    name: str
    stored: bytes | None  # None if it is missing in the store
    entry: Entry
    lease: Lease
    answered: bool = False


class _Unwritten(Struct):
    """The content of the next transaction."""

    brought: dict[str, Brought] = field(default_factory=dict)
    ended: list[tuple[Lease, PageRecord]] = field(default_factory=list)
    notes: dict[bytes, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.brought or self.ended or self.notes)


class RequestJob:
    """The job in a directory, opened for writing. Always close it."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        clock: Callable[[], float] | None = None,
        platform: Platform | None = None,
    ) -> None:
        """Raises JobError, OSError if the disk fails, and the errors of the codecs if stored bytes are damaged."""
        steady = SteadyClock()
        self.clock = clock or steady
        now = self.clock()
        anchor = None if clock is not None else steady.anchor
        self.job = job = Job(
            directory,
            settings,
            now,
            platform or Platform(open_store=RequestStore, fetcher=FETCHER),
            anchor,
        )
        try:
            write_run(job.disk, directory, settings)
            # Requests that a killed run ended; it is unknown whether their ends are durable.
            ended = [name_in(decode_done(value).entry.href) for _, value in job.store.rows(Family.DONE)]
        except BaseException:
            job.close()
            raise
        job.frontier.alternate()  # sessions with one host help only if this program makes the connections
        self._unwritten = _Unwritten()
        self._recent: dict[str, None] = {}
        self._ended = EndedNames([name.encode("ascii") for name in ended])
        self._upkeep = Upkeep(job, self._ended, settings.durability, now)
        self._settings = settings
        self._status = SpiderStatus(job, settings, self.clock)
        self._blocked = False

    # -- adding requests ---------------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        """Return True if the seen-set reports that a request of that name has been added; if so, count a duplicate."""
        known = name in self._recent or name in self._unwritten.brought or self._was_seen(name)
        if known:
            self._remember(name)
            self.job.counters.urls_duplicate += 1
        return known

    def _was_seen(self, name: str) -> bool:
        return self.job.seen.contains_many([name])[0]

    def may_be_new(self, name: str) -> bool:
        """Return True if the seen-set reports that no request of that name has been added. Unlike ``knows``, this
        counts nothing."""
        return name not in self._unwritten.brought and not self._was_seen(name)

    def bring(self, brought: Brought) -> int:
        """Queue a request that ``knows`` reported as new, or whose name is unique. Returns the number of requests that
        wait to be written."""
        self._unwritten.brought[brought.name] = brought
        self._remember(brought.name)
        return len(self._unwritten.brought)

    def _remember(self, name: str) -> None:
        recent = self._recent
        recent.pop(name, None)
        recent[name] = None
        if len(recent) > _RECENT:
            del recent[next(iter(recent))]

    def note(self, name: bytes) -> bytes | None:
        """Return the note stored under a name, or None."""
        name = _NOTE + name
        noted = self._unwritten.notes.get(name)
        return self.job.store.get(Family.REQUESTS, name) if noted is None else noted

    def put_note(self, name: bytes, noted: bytes) -> None:
        """Store a note in the same transaction as the waiting requests."""
        self._unwritten.notes[_NOTE + name] = noted

    # -- handing out requests ----------------------------------------------------------------------------------

    def take(self) -> Taken | None:
        """Return the next request, or None if none can be handed out now. Call ``flush`` first."""
        frontier, now = self.job.frontier, self.clock()
        while frontier.queued:
            lease = frontier.take(now)
            if lease is not None and lease.entry is not None:
                name = name_in(lease.entry.href)
                self._status.taken(lease)
                stored = self.job.store.get(Family.REQUESTS, name.encode("ascii"))
                return Taken(name, stored, lease.entry, lease)
            ready = frontier.next_ready()
            if lease is None and (ready is None or ready > now):
                return None  # all hosts have reached their limits of concurrent requests
        return None

    def answered(self, taken: Taken) -> None:
        """Record that the request has left the network, so that its host may get the next request."""
        if not taken.answered:
            taken.answered = True
            self.job.frontier.answered(taken.lease, ANSWERED, self.clock())

    def end(self, taken: Taken, ending: Ending) -> None:
        """Record that the request is done."""
        record = PageRecord(
            taken.entry,
            ending.outcome,
            self.clock(),
            ending.status,
            ending.error,
            ending.content_type,
            ending.size,
            location=ending.location,
        )
        self._unwritten.ended.append((taken.lease, record))
        self._status.ended(taken.lease)

    def allow(self, per_host: int) -> None:
        """Raise the limit of concurrent requests per host to ``per_host``; never lowers it."""
        politeness = self._settings.politeness
        if per_host > politeness.per_host:
            self._settings = replace(self._settings, politeness=replace(politeness, per_host=per_host))
            for _ in self.job.frontier.change(self._settings.politeness, Limits.of(self._settings)):
                pass

    @property
    def waiting(self) -> int:
        """The number of requests that are queued and not handed out."""
        return self.job.frontier.queued + len(self._unwritten.brought)

    # -- durability --------------------------------------------------------------------------------------------

    def flush(self) -> bool:
        """Write the waiting changes. Returns False while the disk is full: no request can be handed out then. Raises
        OSError for any other failure."""
        job = self.job
        if not job.writer.write_again():
            self._say_blocked()
            return False
        self._blocked = False
        if self._unwritten or self._ended.durable:
            now, unwritten, self._unwritten = self.clock(), self._unwritten, _Unwritten()
            gone = self._ended.take_durable()

            def also(batch: Batch) -> None:
                delete(gone, batch)
                for name, noted in unwritten.notes.items():
                    batch.put(Family.REQUESTS, name, noted)

            self._ended.add(name_in(record.entry.href).encode("ascii") for _, record in unwritten.ended)
            job.exchange(unwritten.ended, list(unwritten.brought.values()), also, now)
            if job.blocked is not None:
                self._say_blocked()
                return False
        now = self.clock()
        self._status.show(now)
        self._upkeep.go_on(now)
        return True

    @property
    def _is_broken(self) -> bool:
        """True if the disk has failed permanently, so that it lacks changes that are in memory."""
        writer = self.job.writer
        return writer.failed is not None or (writer.in_transaction and writer.blocked is None)

    def _say_blocked(self) -> None:
        if not self._blocked:
            log.warning("%s: no requests are sent until there is free space; nothing is lost", self.job.blocked)
        self._blocked = True

    def sync(self) -> None:
        """Make everything that was written durable. Raises OSError."""
        self._upkeep.sync()

    def close(self) -> None:
        """Write the waiting changes, make them durable and release the directory. The next run gets all requests that
        are still handed out."""
        try:
            if not self._is_broken and self.flush() and self.job.writer.whole:
                self._upkeep.end(self.clock())
        finally:
            self._status.take_away()
            self.job.close()

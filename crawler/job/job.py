"""A job: the durable state of a crawl, and the few transactions that change it.

Each transaction is synchronous and atomic: the seen-set's bits, the queue, the journal and the output change together,
with no ``await`` between them, and the store writes its part as one batch. After a crash either all of it is there or
nothing, in which case it is done again.

When the disk is full a transaction stays unwritten and the job is *blocked*: no further one may begin (``room`` waits),
and the same bytes are written again until there is space. Memory is then one transaction ahead of the disk, never more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from crawler import frontier
from crawler.checkpoint import Generations, Manifest, must_store
from crawler.clock import Anchor
from crawler.disk import FULL, failpoint, no_room
from crawler.exact import Ledger, make_seen
from crawler.frontier import Answer, Frontier, Lease, Limits, Order, RequestOutcome
from crawler.job.admission import Admission, AdmissionPolicy
from crawler.job.clock_anchor import follow_clock
from crawler.job.directory import PAGES, SEEN, STORE, JobError, JobLock, holds_job, identify, make_directory
from crawler.job.event_log import tell_failed, tell_host
from crawler.job.found import DECLARED, KEEP_ALL, Found, Router
from crawler.job.platform import Platform
from crawler.job.recovery import (
    COUNTERS,
    check_counts,
    check_output,
    keep_shaping,
    note_faults,
    requeue,
    restore_seen,
    stored_counters,
    trim_finished,
)
from crawler.job.revisit import Revisiting
from crawler.job.scope_state import Scopes
from crawler.job.seen_compaction import Compaction
from crawler.job.transaction import NO_CHECKPOINT, Transaction
from crawler.job.verdict import Again, Finished, RobotsAnswer, Throttled
from crawler.kv import Batch, Family
from crawler.metrics import Events
from crawler.output import JsonlOutput
from crawler.records import Done, Outcome, PageRecord, encode_done, encode_page, sequence_key
from crawler.scope import PriorityRules
from crawler.settings import Settings
from crawler.store.wal import dropped_records
from crawler.traps import Traps, remember
from crawler.urls import Canonical

T = TypeVar("T")


class Job:
    """The job in a directory, opened for writing. Close it, whatever happens."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        now: float,
        platform: Platform | None = None,
        anchor: Anchor | None = None,
        router: Router = KEEP_ALL,
    ) -> None:
        """Begin the job, or resume it where it was left. ``anchor`` tells whether the clock that says ``now`` was set
        since the last run, ``router`` which URLs belong to this job.

        Raises JobError (an unwritable directory among them), UnknownVersionError, OSError when the disk fails, and the
        codecs' errors when the store holds what no version of the program wrote."""
        self.directory = directory
        self.resumed = holds_job(directory)
        self.notes: list[str] = []
        self.events = Events()  # told what happens to hosts and URLs; who shows it puts another here
        platform = platform or Platform()
        self.disk = disk = platform.disk
        self._unwritten: Transaction | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.blocked: str | None = None
        self._in_transaction = False
        self._failed: OSError | None = None  # what kept the disk from making something durable
        self.commits = 0  # transactions written in this run
        self._synced = -1  # what a killed process wrote is not durable yet
        self.durable_end: int | None = None  # bytes of the output that nothing takes back; None: not known yet
        with contextlib.ExitStack() as undo:
            try:
                make_directory(directory, disk)
                lock = JobLock(directory)
            except OSError as error:
                raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
            undo.callback(lock.release)
            identify(disk, directory, settings, resumed=self.resumed)
            (directory / STORE).mkdir(exist_ok=True)
            self.store = platform.open_store(directory / STORE)
            undo.callback(self.store.close)
            for damage in dropped_records(directory / STORE):
                self.notes.append(f"{STORE}/{damage}: read up to there; what was done later is done again")
            self.output = JsonlOutput(directory / PAGES, disk)
            undo.callback(self.output.close)
            (directory / SEEN).mkdir(exist_ok=True)
            # A file whose name is lost is lost, however well its bytes were synced.
            disk.sync_directory(directory)
            failpoint("resume.opened")
            self._durability = platform.executor()
            undo.callback(self._durability.shutdown)
            self._load(settings, now, anchor, router)
            self._undo = undo.pop_all()

    def _load(self, settings: Settings, now: float, anchor: Anchor | None, router: Router) -> None:
        self.counters = stored_counters(self.store)
        self.generations = Generations(self.directory / SEEN, settings.durability.generations, self.disk)
        restored = restore_seen(self.generations, self.store, lambda: make_seen(settings.seen, self.store))
        self.seen = restored.seen
        self._stored = -restored.replayed  # how many keys had been journalled when the seen-set was last stored
        self._compaction = Compaction(self.seen, self.store, settings.seen.compact_slices, self.notes.append)
        self.frontier = Frontier(
            self.store,
            settings.politeness,
            Limits.of(settings),
            order=Order(settings.crawl.order),
            robots=not settings.robots.ignore,
        )
        follow_clock(self.store, anchor, now, self.notes.append)
        self.frontier.load(now, next_number=self.counters.next_number, hosts=self.counters.hosts)
        self.ledger = Ledger(self.store) if settings.seen.ledger else None
        self.traps = Traps(settings.traps, self.store)
        self.revisiting = Revisiting(self.store, settings, self.frontier, self.counters)
        policy = AdmissionPolicy(self.traps, PriorityRules(settings.priority.rules), router)
        self._admission = Admission(self.seen, self.ledger, self.frontier, self.counters, policy, self._finish_record)
        check_counts(self.store, self.frontier, self.counters)
        cut = check_output(self.store, self.output, restored.sequence)
        failpoint("resume.restored")
        self.notes += note_faults(restored, self.generations)
        self.output.cut(cut.end)
        self.output.write_again(cut.durable)
        failpoint("resume.cut")
        requeue(self.store, self.frontier, self.counters, cut, settings.recrawl)
        failpoint("resume.requeued")
        self.revisiting.backfill.load(self.output.path, self.output.end, self.notes.append)
        keep_shaping(self.store, settings)
        if cut.lost:
            self.notes.append(f"{len(cut.lost)} finished URLs had no record on disk any more: they are pending again")
        self._scopes = Scopes(self.store, settings.crawl.scope)
        self.scope = self._scopes.current

    # -- steps -------------------------------------------------------------------------------------------------

    def widen(self, href: str) -> bool:
        """Take the URL into the scope; stored with the next step. True if the scope grew."""
        return self._scopes.widen(href)

    def admit(self, found: Found) -> int:
        """Admit those of the URLs that are ours and were never seen: a transaction of its own. Returns how many were
        new."""
        with self._transaction() as transaction:
            new = self._admission.admit(found, transaction)
            if found.seed:
                self.counters.seeds += new
        return new

    @property
    def doubted(self) -> int:
        """URLs that the seen-set called seen, of which it is not confirmed yet."""
        return 0 if self.ledger is None else self.ledger.counts.waiting

    def decide(self, limit: int, now: float) -> int:
        """Confirm that so many of the doubted URLs were seen, and admit those that were not: a step of its own. Returns
        how many were decided; 0 also while no step can be written. Raises OSError."""
        if not self.doubted or self._in_transaction:
            return 0
        with self._transaction() as transaction:
            return self._admission.decide(limit, transaction, now)

    def forget(self, keys: Sequence[str]) -> dict[int, str]:
        """Take keys out of the seen-set; the positions of those that stay as they were, and why. Raises JobError for a
        kind of seen-set that cannot forget."""
        left: dict[int, str]
        with self._transaction() as transaction:
            left = self._admission.forget(keys, transaction.batch, self.store)
        return left

    def finish(
        self,
        lease: Lease,
        verdict: Finished,
        now: float,
        *,
        outlinks: Sequence[Canonical] = (),
        left_out: Sequence[Canonical] = (),
    ) -> int:
        """A URL is done: its last outlinks, its record and its end are one transaction. Returns how many were new. Of
        a page that is a copy the links may be ``left_out``."""
        record = verdict.record
        entry = record.entry
        with self._transaction() as transaction:
            redirect = record.outcome is Outcome.REDIRECT
            found = Found(
                outlinks,
                entry.depth if redirect else entry.depth + 1,
                entry.href,
                entry.seed and redirect,
                entry.redirects + 1 if redirect else 0,
                None if entry.seed and redirect else now,
                DECLARED if entry.sitemap and redirect else None,
                self.frontier.share(lease),
            )
            new = self._admission.admit(found, transaction)
            self._admission.leave_out(left_out, record, transaction, now)
            self._finish_record(record, transaction, verdict.answer)
            outcome, request = record.outcome, verdict.request if verdict.requested else None
            done = frontier.Done(request, outcome is Outcome.FAILED, outcome is Outcome.EXCLUDED)
            self.frontier.finish(lease, done, now, transaction.batch)
        tell_host(self.events, lease.host, verdict.request, now)
        return new

    def retry(self, lease: Lease, verdict: Again, now: float) -> None:
        """A transient failure: the URL goes through its host's queue again."""
        with self._transaction() as transaction:
            self.counters.retries += 1
            again = frontier.Retry(verdict.entry, verdict.wait, verdict.request)
            self.frontier.finish(lease, again, now, transaction.batch)
        tell_host(self.events, lease.host, verdict.request, now)

    def throttle(self, lease: Lease, verdict: Throttled, now: float) -> None:
        """429 or 503: the host is held."""
        with self._transaction() as transaction:
            self.counters.throttled += 1
            if verdict.last is not None:
                self._finish_record(verdict.last, transaction, verdict.answer)
            held = frontier.Throttled(verdict.entry if verdict.last is None else None, verdict.request)
            self.frontier.finish(lease, held, now, transaction.batch)
        tell_host(self.events, lease.host, verdict.request, now)

    def robots_known(self, lease: Lease, answer: RobotsAnswer, now: float) -> None:
        """The host's robots.txt was answered, or given up; the sitemaps that it names are admitted."""
        with self._transaction() as transaction:
            self.counters.robots_fetched += 1
            if answer.sitemaps is not None:
                self._admission.admit(answer.sitemaps, transaction)
            batch, request = transaction.batch, answer.request
            batch.put(Family.ROBOTS, lease.host.name.encode("ascii"), answer.stored)
            self.frontier.finish(lease, frontier.RobotsKnown(answer.until, answer.crawl_delay, request), now, batch)
        tell_host(self.events, lease.host, request, now)

    def robots_later(self, lease: Lease, wait: float, now: float, request: RequestOutcome) -> None:
        """robots.txt could not be had; it is asked for again."""
        with self._transaction() as transaction:
            self.frontier.finish(lease, frontier.RobotsLater(wait, request), now, transaction.batch)
        tell_host(self.events, lease.host, request, now)

    def change_hosts(self, change: Callable[[Batch], T]) -> T:
        """A change of hosts alone. Returns what ``change`` does."""
        with self._transaction() as transaction:
            return change(transaction.batch)

    def revisit(self, now: float) -> bool:
        """Queue pages whose next visit is due: a step of its own. False when none is, or none can be queued now."""
        if self._in_transaction or not self.revisiting.is_due(now):
            return False
        with self._transaction() as transaction:
            self.revisiting.begin(now, transaction.batch)
        return True

    def _finish_record(self, record: PageRecord, transaction: Transaction, answer: Answer | None = None) -> None:
        record = self.revisiting.finish(record, answer, transaction.batch)
        transaction.records.append((self.counters.sequence, record))
        self.counters.sequence += 1
        self.counters.count_done(record.outcome, record.status)
        self.counters.body_bytes += record.size or 0
        if record.content is not None:
            remember(record.entry.href, record.content, transaction.batch)
        if record.entry.seed and not record.entry.revisit and record.outcome is Outcome.FETCHED:
            self.counters.seeds_fetched += 1
        tell_failed(self.events, record)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        if self._in_transaction:
            # Other visits may still run before they hear of it: what they would store counts what was never written.
            raise RuntimeError("the step before was not written: no other may follow it")
        transaction = Transaction()
        # Until the step is written memory is ahead of the disk: a checkpoint of it would hold bits of URLs that were
        # never queued.
        self._in_transaction = True
        yield transaction
        self._scopes.store(transaction.batch)
        self.counters.next_number = self.frontier.next_number
        self.counters.hosts = self.frontier.hosts
        transaction.batch.put(Family.META, COUNTERS, self.counters.encode())
        failpoint("step.marked")
        try:
            self._write(transaction)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._unwritten, self.blocked = transaction, no_room(error)
            self._room.clear()

    def _write(self, transaction: Transaction) -> None:
        """Write what of the step is not written. Raises OSError; it may then be called again."""
        while transaction.records:
            sequence, record = transaction.records[0]
            position = self.output.append(encode_page(record))
            done = Done(record.outcome, record.status, record.entry, (position,))
            transaction.batch.put(Family.DONE, sequence_key(sequence), encode_done(done))
            transaction.records.pop(0)
            failpoint("step.recorded")
        self.store.write(transaction.batch)
        self.frontier.written()
        self.commits += 1
        self._in_transaction = False
        failpoint("step.written")

    # -- a full disk -------------------------------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until a step may begin. No step may be made after any other ``await``."""
        await self._room.wait()

    def write_again(self) -> bool:
        """Try to write the step that found the disk full; True when there is room again. Raises OSError for any
        other trouble."""
        if self._unwritten is None:
            return True
        try:
            self.store.reopen()
            self._write(self._unwritten)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.blocked = no_room(error)
            return False
        self._unwritten = self.blocked = None
        self._room.set()
        return True

    # -- durability --------------------------------------------------------------------------------------------

    def _sync(self) -> None:
        # After a failed fsync the kernel may have dropped what it could not write, and call the next one a success.
        if self._failed is not None:
            raise self._failed
        try:
            # Output before journal: what the journal says is done is then already on the disk.
            self.output.sync()
            failpoint("sync.output")
            self.store.sync()
            failpoint("sync.done")
        except OSError as error:
            self._failed = error
            raise

    async def sync(self) -> None:
        """Make all steps so far durable, in a thread. Raises OSError."""
        steps, end = self.commits, self.output.end
        if steps != self._synced:
            await asyncio.get_running_loop().run_in_executor(self._durability, self._sync)
            self._synced, self.durable_end = steps, end

    @property
    def whole(self) -> bool:
        """Whether memory, store and disk agree: no step was broken off, and all that was to be durable is."""
        return not self._in_transaction and self._failed is None

    async def checkpoint(self, now: float, *, whole: bool = False) -> Manifest | None:
        """Write a generation in a thread, ``whole`` for one after which nothing is to be replayed; None when nothing
        changed since the last, or when the disk is full: the journal then stands for it, and ``notes`` says so. Raises
        OSError for any other trouble."""
        if self._in_transaction:
            raise RuntimeError("a step was broken off: the journal is whole, the seen-set in memory is not")
        sequence, journalled, newest = self.counters.sequence, self._admission.journalled, self.manifest
        whole = whole and journalled > self._stored
        if newest is not None and newest.sequence == sequence and not whole:
            return None
        if anew := whole or must_store(newest, self.seen.parts(), journalled - self._stored):
            snapshot = self.seen.snapshot(whole=False)
            begin = partial(self.generations.begin, snapshot, sequence, now)
            for _ in iter(snapshot.advance, False):
                await asyncio.sleep(0)
        else:
            begin = partial(self.generations.begin_again, self.seen.unjournaled_segments(), sequence, now)
        loop = asyncio.get_running_loop()
        try:
            draft = await loop.run_in_executor(self._durability, begin)
            # The segments may hold bits of a step that was begun meanwhile. Back on the loop all steps are over; one
            # that could not be written must be before a generation may stand for its bits: this one never will.
            if self._in_transaction:
                self.notes.append(f"{NO_CHECKPOINT}: a step could not be written meanwhile")
                return None
            manifest = await loop.run_in_executor(self._durability, self.generations.complete, draft, self._sync)
        except OSError as error:
            if error.errno not in FULL or self._failed is not None:
                self._failed = error
                raise
            self.notes.append(f"{NO_CHECKPOINT}: {no_room(error)}")
            return None
        if anew:
            self._stored = journalled
        if self._unwritten is None:
            trim_finished(self.store, self.generations.oldest_sequence())
        failpoint("checkpoint.trimmed")
        return manifest

    def compact(self) -> bool:
        """Do a piece of a compaction of the seen-set; False when there is nothing to do for now. Raises OSError."""
        # What was not written is in the seen-set and not in the journal.
        return not self._in_transaction and self._compaction.advance()

    @property
    def manifest(self) -> Manifest | None:
        """The newest generation."""
        return self.generations.newest

    def close(self) -> None:
        """Release everything, writing nothing more."""
        self._undo.close()

"""A job: the durable state of a crawl, and the few steps that change it.

Each step is synchronous and atomic: the seen-set's bits, the queue, the journal and the output change together, with no
``await`` between them, and the store writes its part as one batch. What a step was given is either wholly there after a
crash or not at all, in which case it is done again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crawler.checkpoint import Generations, Manifest
from crawler.crawl.identity import (
    PAGES,
    SEEN,
    STORE,
    JobError,
    JobLock,
    holds_job,
    write_identity,
)
from crawler.crawl.recovery import (
    COUNTERS,
    RestoredSeen,
    check_output,
    requeue,
    restore_seen,
    stored_counters,
)
from crawler.crawl.verdict import Again, Finished, Throttled
from crawler.filters import digest_keys, make_seen
from crawler.frontier import Batch, Entry, Family, Frontier, Lease, Store
from crawler.output import JsonlOutput
from crawler.records import (
    DIGEST_SIZE,
    Done,
    Outcome,
    PageRecord,
    encode_done,
    encode_page,
    sequence_key,
)
from crawler.scope import Scope
from crawler.settings import Settings
from crawler.store import RocksStore
from crawler.urls import Canonical

_SCOPE = b"scope/"
_SCOPE_END = b"scope0"


class Job:
    """The job in a directory, opened for writing. Close it, whatever happens."""

    def __init__(self, directory: Path, settings: Settings, now: float) -> None:
        """Begin the job, or take it up where it was left.

        Raises JobError (an unwritable directory among them), UnknownVersionError, OSError when the disk fails, and the
        codecs' errors when the store holds what no version of the program wrote."""
        self.directory = directory
        self.resumed = holds_job(directory)
        self.notes: list[str] = []
        self._torn = False
        self._synced_sequence = 0
        with contextlib.ExitStack() as undo:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                lock = JobLock(directory)
            except OSError as error:
                raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
            undo.callback(lock.release)
            if not self.resumed and any((directory / name).exists() for name in (PAGES, STORE, SEEN)):
                raise JobError(
                    f"{directory} holds a part of a crawl but no job.json: name another directory with --job"
                )
            if not self.resumed:
                write_identity(directory, settings)
            self.store: Store = RocksStore(directory / STORE)
            undo.callback(self.store.close)
            self.output = JsonlOutput(directory / PAGES)
            undo.callback(self.output.close)
            self._durability = ThreadPoolExecutor(1, thread_name_prefix="durability")
            undo.callback(self._durability.shutdown)
            self._take_up(settings, now)
            self._undo = undo.pop_all()

    def _take_up(self, settings: Settings, now: float) -> None:
        self.counters = stored_counters(self.store)
        self._generations = Generations(self.directory / SEEN, settings.durability.generations)
        restored = restore_seen(self._generations, self.store, lambda: make_seen(settings.seen))
        self.seen = restored.seen
        self._note(restored)
        self.frontier = Frontier(
            self.store,
            settings.politeness,
            robots=not settings.robots.ignore,
            next_number=self.counters.next_number,
            hosts=self.counters.hosts,
        )
        cut = check_output(self.store, self.output, restored.sequence)
        self.output.cut(cut.end)
        self.frontier.load(now)
        requeue(self.store, self.frontier, self.counters, cut.lost)
        if cut.lost:
            self.notes.append(f"{len(cut.lost)} finished URLs had no record on disk any more: they are pending again")
        self.scope = Scope(settings.crawl.scope)
        prefix = f"{settings.crawl.scope}/".encode("ascii")
        rows = self.store.scan(Family.META, _SCOPE + prefix, _SCOPE + prefix[:-1] + b"0")
        self.scope.restore(key[len(_SCOPE + prefix) :].decode("utf-8") for key, _ in rows)
        self._scope_prefix = _SCOPE + prefix
        self._new_scope: list[str] = []

    def _note(self, restored: RestoredSeen) -> None:
        for fault in restored.faults:
            self.notes.append(f"{fault}; an older one and the journal stand in for it, nothing is lost")
        used = 0 if self.manifest is None else self.manifest.generation
        for number in self._generations.numbers():
            if number > used:
                self._generations.set_aside(number)

    # -- steps -------------------------------------------------------------------------------------------------

    def widen(self, href: str) -> bool:
        """Take the URL into the scope; stored with the next step. True if the scope grew."""
        entry = self.scope.widen(href)
        if entry is None:
            return False
        self._new_scope.append(entry)
        return True

    def admit(self, found: Sequence[Canonical], *, depth: int, via: str | None = None, seed: bool = False) -> int:
        """Admit those of the URLs that were never seen: a step of its own. Returns how many were new."""
        with self._step() as batch:
            new = self._admit(found, batch, depth=depth, via=via, seed=seed, redirects=0)
            if seed:
                self.counters.seeds += new
        return new

    def finish(
        self,
        lease: Lease,
        verdict: Finished,
        now: float,
        *,
        outlinks: Sequence[Canonical] = (),
        record: PageRecord | None = None,
        requested: bool = True,
    ) -> int:
        """A URL is done: its last outlinks, its record and its end are one step. Returns how many were new.

        ``record`` stands for the verdict's when links were counted meanwhile."""
        record = record or verdict.record
        entry = record.entry
        with self._step() as batch:
            redirect = record.outcome is Outcome.REDIRECT
            new = self._admit(
                outlinks,
                batch,
                depth=entry.depth if redirect else entry.depth + 1,
                via=entry.href,
                seed=entry.seed and redirect,
                redirects=entry.redirects + 1 if redirect else 0,
            )
            self._write_record(record, batch)
            failed = record.outcome is Outcome.FAILED
            self.frontier.finish(lease, now, batch, requested=requested, failed=failed)
        return new

    def retry(self, lease: Lease, verdict: Again, now: float) -> None:
        """A transient failure: the URL goes through its host's queue again."""
        with self._step() as batch:
            self.counters.retries += 1
            self.frontier.retry(lease, verdict.entry, verdict.wait, now, batch)

    def throttle(self, lease: Lease, verdict: Throttled, now: float) -> None:
        """429 or 503: the host is held."""
        with self._step() as batch:
            self.counters.throttled += 1
            if verdict.last is None:
                self.frontier.throttle(lease, verdict.entry, verdict.retry_after, now, batch)
            else:
                self._write_record(verdict.last, batch)
                self.frontier.throttle(lease, None, verdict.retry_after, now, batch)

    def robots_known(self, lease: Lease, stored: bytes, until: float, crawl_delay: float | None, now: float) -> None:
        """The host's robots.txt was answered, or given up."""
        with self._step() as batch:
            self.counters.robots_fetched += 1
            batch.put(Family.ROBOTS, lease.host.name.encode("ascii"), stored)
            self.frontier.robots_known(lease, until, crawl_delay, now, batch)

    def robots_later(self, lease: Lease, wait: float, now: float) -> None:
        """robots.txt could not be had; it is asked for again."""
        with self._step() as batch:
            self.frontier.robots_later(lease, wait, now, batch)

    def _admit(
        self,
        found: Sequence[Canonical],
        batch: Batch,
        *,
        depth: int,
        via: str | None,
        seed: bool,
        redirects: int,
    ) -> int:
        if not found:
            return 0
        digests = digest_keys([url.key for url in found])
        new = self.seen.add_digests(digests)
        self.counters.duplicates += len(found) - len(new)
        if not new:
            return 0
        size = DIGEST_SIZE
        batch.put(
            Family.ADMITTED,
            sequence_key(self.counters.sequence),
            b"".join([digests[size * i : size * i + size] for i in new]),
        )
        self.counters.sequence += 1
        self.counters.admitted += len(new)
        self.frontier.admit([Entry(found[i].href, depth, via, seed, redirects) for i in new], batch)
        return len(new)

    def _write_record(self, record: PageRecord, batch: Batch) -> None:
        position = self.output.append(encode_page(record))
        done = Done(record.outcome, record.status, record.entry, (position,))
        batch.put(Family.DONE, sequence_key(self.counters.sequence), encode_done(done))
        self.counters.sequence += 1
        self.counters.count_done(record.outcome, record.status)
        self.counters.body_bytes += record.size or 0
        if record.entry.seed and record.outcome is Outcome.FETCHED:
            self.counters.seeds_fetched += 1

    @contextlib.contextmanager
    def _step(self) -> Iterator[Batch]:
        batch = self.store.batch()
        # Until the batch is written, memory is ahead of the store: a checkpoint of it would hold bits of URLs that
        # were never queued.
        self._torn = True
        yield batch
        for entry in self._new_scope:
            batch.put(Family.META, self._scope_prefix + entry.encode("utf-8"), b"")
        self._new_scope.clear()
        self.counters.next_number = self.frontier.next_number
        self.counters.hosts = self.frontier.hosts
        batch.put(Family.META, COUNTERS, self.counters.encode())
        self.store.write(batch)
        self._torn = False

    # -- durability --------------------------------------------------------------------------------------------

    def _sync(self) -> None:
        # Output before journal: what the journal says is done is then already on the disk.
        self.output.sync()
        self.store.sync()

    async def sync(self) -> None:
        """Make all steps so far durable, in a thread. Raises OSError."""
        sequence = self.counters.sequence
        if sequence != self._synced_sequence:
            await asyncio.get_running_loop().run_in_executor(self._durability, self._sync)
            self._synced_sequence = sequence

    @property
    def whole(self) -> bool:
        """Whether memory and store agree: no step was broken off."""
        return not self._torn

    async def checkpoint(self, now: float) -> Manifest | None:
        """Write a generation in a thread; None when nothing changed since the last. Raises OSError."""
        if self._torn:
            raise RuntimeError("a step was broken off: the journal is whole, the seen-set in memory is not")
        sequence = self.counters.sequence
        if self.manifest is not None and self.manifest.sequence == sequence:
            return None
        snapshot = self.seen.snapshot()
        loop = asyncio.get_running_loop()
        manifest = await loop.run_in_executor(
            self._durability, self._generations.write, snapshot, sequence, now, self._sync
        )
        self._trim()
        return manifest

    @property
    def manifest(self) -> Manifest | None:
        """The newest generation."""
        return self._generations.newest

    def _trim(self) -> None:
        """Forget finished URLs that the oldest kept generation stands for; the last one says where the output ends."""
        border = sequence_key(self._generations.oldest_sequence())
        rows = self.store.scan(Family.DONE, border, None, 1)
        if rows:
            batch = self.store.batch()
            batch.delete_range(Family.DONE, b"", border)
            self.store.write(batch)

    def close(self) -> None:
        """Release everything, writing nothing more."""
        self._undo.close()

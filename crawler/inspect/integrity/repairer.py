"""``crawler repair`` restores a damaged job from the data still on disk.

    store       rows are read from a copy of the damaged store, after RocksDB's own repair if needed
    job.json    rebuilt from the copy of its settings in the store
    secret      of the seen-set: from job.json or the store
    the rest    read once (``inventory``) and rebuilt next to the old files (``rebuild``)
    seen-set    rebuilt from the new journal

Everything replaced is moved to ``DIR/damaged-N``. The damaged store is not changed until the new one is complete; if a
repair is interrupted after that, the next repair completes it.

A crawl is repaired partition by partition. Two problems are reported but not repaired: a missing partition, as its URLs
are stored nowhere else, and URLs that belong to another partition. The latter occurs if directories were moved by hand.
A run refuses such a crawl: the user should move the directories back, rather than crawl part of the web again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import Disk, RealDisk, failpoint, make_private_directory
from crawler.base.kv import Family
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import Settings
from crawler.frontier.order import Order
from crawler.inspect.crawl_partitions import Partition, holds_crawl, whole_job
from crawler.inspect.integrity.finding import Change, Detail, Done, Finding, Tell
from crawler.inspect.integrity.output_files import Quarantine
from crawler.inspect.integrity.rebuild import WHOLE, Rebuild, RepairContext, place_whole
from crawler.inspect.integrity.verifier import file_faults, unreadable, verify_job, verify_places
from crawler.job.checkpoint.envelope import EnvelopeError, UnknownVersionError
from crawler.job.checkpoint.generations import KEPT, Generations
from crawler.job.crawl_file import CrawlFile, check_any_here, partition_directory, partitions_gone, read_crawl_file
from crawler.job.directory import (
    IDENTITY,
    PAGES,
    REPAIRED,
    SEEN,
    STORE,
    JobError,
    OtherFormatError,
    check_in_bucket,
    check_restored,
)
from crawler.job.division import read_descent
from crawler.job.identity import FORMAT, Identity, read_identity, shaping_of, write_identity
from crawler.job.job_lock import JobLock, at_rest
from crawler.job.output.body_files import DIRECTORY as BODIES
from crawler.job.output.outputs import FORMS
from crawler.job.output.record_text import page_paths, text_size
from crawler.job.records import JournalError
from crawler.job.recovery import (
    FORMAT_KEPT,
    REPAIRING,
    SeenSpec,
    keep_identity,
    kept_hash,
    kept_partition,
    kept_shaping,
    restore_seen,
    stored_counters,
)
from crawler.job.snapshot import remove_tree
from crawler.job.store.readable_copy import ReadableCopy, open_copy
from crawler.job.store.rocks import PartitionStore, RocksStore, StoreError
from crawler.job.store.wal import log_fault
from crawler.seen.filters import FilterError, KeyHash

_SCRATCH = "store.scratch"  # copy of the damaged store, for reading
_PART = "store.part"  # the new store while it is written

Left = list[tuple[Partition, Finding]]


class Repaired(Struct, frozen=True):
    """The result of a repair. ``was_whole`` is True if there was nothing to repair; ``left`` are the findings that
    remain."""

    was_whole: bool
    left: list[Finding]


def repair_job(directory: Path, now: float, tell: Tell, disk: Disk | None = None) -> Repaired:
    """Repair the job. ``tell`` is called with each change; ``now`` is in seconds since 1970; tests may pass another
    ``disk``.

    Raises JobError if there is no job, if it is in use, or if another version of the program made it; OSError if the
    disk fails."""
    if not any((directory / name).exists() for name in (IDENTITY, STORE, REPAIRED, SEEN)):
        raise JobError(f"{directory} holds no crawl: give a job directory")
    check_restored(directory)
    check_in_bucket(directory, 0)
    _check_repairable(directory)  # check this before anything is written, even the lock file
    try:
        lock = JobLock(directory)
    except OSError as error:
        raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
    try:
        _check_repairable(directory)
        disk = disk or RealDisk()
        if not find_all(directory):
            return Repaired(True, [])
        _Repair(directory, now, tell, disk).run()
        return Repaired(False, find_all(directory))
    finally:
        lock.release()


def find_all(directory: Path) -> list[Finding]:
    """Return the findings of ``verify``; an error that stops it is the last finding."""
    found: list[Finding] = []
    try:
        found.extend(verify_job(directory))
    except (JobError, OSError) as error:
        found.append(unreadable(error))
    return found


def _check_repairable(directory: Path) -> None:
    """Raise JobError for files from another version, which are not damage, and for a job of another fetcher, because
    its records do not contain its requests."""
    try:
        fetcher = read_identity(directory).fetcher
    except OtherFormatError:
        raise
    except JobError:
        fetcher = None  # repaired later
    if fetcher is not None:
        raise JobError(
            f"{directory} is the job of {fetcher}: restore a backup; its requests cannot be restored from records"
        )
    generations = Generations(directory / SEEN, 2, RealDisk())
    for generation in generations.numbers():
        try:
            generations.read_manifest(generation)
        except UnknownVersionError as error:
            raise JobError(f"{directory}: {error}") from error
        except (EnvelopeError, OSError):
            pass  # repaired later


def repair_crawl(directory: Path, now: float, tell: Callable[[Partition, Change], None]) -> tuple[list[Repaired], Left]:
    """Repair the job, or each partition of a crawl. Returns the results, and the remaining findings with their
    partitions. ``tell`` is called with each change. Raises the exceptions of ``repair_job``, and JobError if the crawl
    is running, before anything is changed."""
    crawl = read_crawl_file(directory) if holds_crawl(directory) else None
    done, left = list[Repaired](), Left()
    with at_rest(directory):
        there = [whole_job(directory)] if crawl is None else _there(directory, crawl)
        for partition in there:
            with partition.named():
                repaired = repair_job(partition.directory, now, partial(tell, partition))
            done.append(repaired)
            left += [(partition, finding) for finding in repaired.left]
        if crawl is not None:
            left += verify_places(directory, crawl.placement, there)
    return done, left


def _there(directory: Path, crawl: CrawlFile) -> list[Partition]:
    """Return the partitions with a directory, including those that no longer contain the files of a job. Raises
    JobError."""
    gone = set(partitions_gone(directory))
    found = [(number, partition_directory(directory, number)) for number in range(crawl.partitions)]
    there = [
        Partition(number, place)
        for number, place in found
        if place.is_dir() and (place not in gone or any(place.iterdir()))
    ]
    check_any_here(directory, len(there))
    return there


class _Repair:
    def __init__(self, directory: Path, now: float, tell: Tell, disk: Disk) -> None:
        self._directory = directory
        self._now = now
        self._tell = tell
        self._disk = disk
        self._quarantine = Quarantine(directory, disk)
        self._identity_told: Identity | None = None  # None if it cannot be read
        with contextlib.suppress(JobError):
            self._identity_told = read_identity(directory)
        told = self._identity_told
        self._partition = None if told is None else told.partition  # None if not a partition, or if unknown

    def run(self) -> None:
        if (self._directory / REPAIRED).exists():  # a repair was interrupted here
            place_whole(self._directory / PAGES, self._disk, self._quarantine)
            self._place()
            self._quarantine = Quarantine(self._directory, self._disk)  # the current one already has a store
        else:
            (self._directory / WHOLE).unlink(missing_ok=True)
        with contextlib.suppress(JobError):  # the small files are unreadable without job.json, which is rebuilt first
            self._small_files()
        if find_all(self._directory):
            self._rebuild_all()
            self._small_files()
        if self._quarantine.path.is_dir():
            self._done(Done.QUARANTINED, directory=self._quarantine.path.name)

    def _rebuild_all(self) -> None:
        old = self._open_copy()
        try:
            rebuild, settings = self._rebuild(old.store, whole=old.whole)
        finally:
            old.store.close()
        failpoint("repair.built")
        self._disk.move(self._directory / _PART, self._directory / REPAIRED)
        self._disk.sync_directory(self._directory)
        failpoint("repair.ready")
        rebuild.finish()
        failpoint("repair.output")
        self._place()
        self._finish(settings)
        remove_tree(self._directory / _SCRATCH)

    def _rebuild(self, old: RocksStore, *, whole: bool) -> tuple[Rebuild, Settings]:
        """Write the new store. Raises JobError for a partition that was split from another one."""
        if read_descent(old) is not None:
            raise JobError(
                f"{self._directory} was split from another partition: a repair would forget pages fetched before the "
                "split, whose records are in that partition: restore it from its store"
            )
        with contextlib.suppress(JournalError):  # the damaged row is not copied
            self._partition = self._partition or kept_partition(old)
        if not any(old.scan(family, b"", None, 1) for family in (Family.PENDING, Family.ADMITTED, Family.DONE)):
            self._restart_crawl()
        self._hash = self._find_hash(old)
        settings = self._settings(old)
        remove_tree(self._directory / _PART)
        new = (RocksStore if self._partition is None else PartitionStore)(self._directory / _PART)
        try:
            context = RepairContext(
                self._directory,
                settings,
                self._hash,
                old,
                new,
                self._disk,
                self._quarantine,
                self._tell,
            )
            rebuild = Rebuild(context, Order(settings.crawl.order))
            rebuild.run(whole_store=whole)
            batch = new.batch()
            batch.put(Family.META, REPAIRING, b"")
            keep_identity(new, self._identity(settings), batch)
            new.write(batch)
            new.sync()
        finally:
            new.close()
        self._disk.sync_directory(self._directory / _PART)
        return rebuild, settings

    def _finish(self, settings: Settings) -> None:
        """Write a seen-set and ``job.json`` for the new store, which completes the job."""
        make_private_directory(self._directory / SEEN, exist_ok=True)
        generations = Generations(self._directory / SEEN, KEPT, self._disk)
        with closing((RocksStore if self._partition is None else PartitionStore)(self._directory / STORE)) as store:
            spec = SeenSpec(settings.seen, self._hash)
            restored = restore_seen(generations, store, spec)
            generations.write(restored.seen.snapshot(), stored_counters(store).sequence, self._now, store.sync)
            failpoint("repair.done")
            identity = self._identity(settings)
            if self._identity_told != identity:
                write_identity(self._disk, self._directory, identity)
            batch = store.batch()
            keep_identity(store, identity, batch)
            batch.delete(Family.META, REPAIRING)
            store.write(batch)
            store.sync()

    def _done(self, what: Done, **details: Detail) -> None:
        self._tell(Change(what, details))

    # -- the store ---------------------------------------------------------------------------------------------

    def _open_copy(self) -> ReadableCopy:
        """Return a copy of the damaged store, or an empty store if it is unreadable."""
        path, scratch = self._directory / STORE, self._directory / _SCRATCH
        remove_tree(scratch)
        fault = log_fault(path)
        if fault is not None:
            self._done(Done.LOG_DAMAGED, log=fault.log, offset=fault.offset, error=str(fault))
        try:
            copy = open_copy(path, scratch)
        except StoreError as error:
            if error.errno is not None:
                raise
            self._done(Done.STORE_LOST, error=str(error))
            return ReadableCopy(RocksStore(scratch / "empty"), False, None)
        if copy.error is not None:
            self._done(Done.STORE_REPAIRED, error=copy.error)
        return copy

    def _place(self) -> None:
        """Replace the old store with the new one, and move the old seen-set away."""
        for name in (SEEN, STORE):
            if (self._directory / name).exists():
                self._quarantine.move(self._directory / name)
        failpoint("repair.aside")
        self._disk.move(self._directory / REPAIRED, self._directory / STORE)
        self._disk.sync_directory(self._directory)
        failpoint("repair.placed")

    def _restart_crawl(self) -> None:
        """Make the crawl start over: without queues, the pending URLs are unknown, and only fetching the pages again
        can find them."""
        pages = self._directory / PAGES
        if text_size(pages):
            for path in (*page_paths(pages), pages):
                if os.path.lexists(path):
                    self._quarantine.move(path)
            self._done(Done.CRAWL_RESTARTED)
        for name in (*(form.name for form in FORMS.values()), BODIES):
            if (self._directory / name).is_dir():
                self._quarantine.move(self._directory / name)

    # -- settings ----------------------------------------------------------------------------------------------

    def _settings(self, store: RocksStore) -> Settings:
        if self._identity_told is not None:
            return settings_from(self._identity_told.shaping, IDENTITY)
        tables = kept_shaping(store)
        if tables is None:
            raise JobError(
                f"{self._directory}: {IDENTITY} is damaged, and {STORE}/ has no copy of its settings: restore a backup",
                new_job=True,
            )
        if store.get(Family.META, FORMAT_KEPT) not in (None, FORMAT):
            raise OtherFormatError(
                f"{self._directory}: {IDENTITY} is damaged, and {STORE}/ was made by another version of this program: "
                "repair the job with that version"
            )
        try:
            settings = settings_from(tables, STORE)
        except SettingsError as error:
            raise JobError(f"{self._directory}: {IDENTITY} is damaged and cannot be rebuilt: {error}") from error
        path = self._directory / IDENTITY
        if path.exists():
            self._quarantine.move(path)
        write_identity(self._disk, self._directory, self._identity(settings))
        self._done(Done.SETTINGS_REBUILT)
        return settings

    def _identity(self, settings: Settings) -> Identity:
        return Identity(shaping_of(settings), self._hash, partition=self._partition)

    # -- the secret --------------------------------------------------------------------------------------------

    def _find_hash(self, store: RocksStore) -> KeyHash:
        """Return the hash of URLs that the journal uses. Raises JobError if it is lost, because it is needed to
        interpret the digests."""
        told = None if self._identity_told is None else self._identity_told.hash
        try:
            kept = kept_hash(store)
        except FilterError:
            kept = None
        found = kept or told
        if found is None:
            raise JobError(
                f"{self._directory}: the secret of its digests is damaged in {IDENTITY} and {STORE}/: restore a backup",
                new_job=True,
            )
        if told != kept:
            self._done(Done.SECRET_RESTORED, source=IDENTITY if kept is None else STORE)
        return found

    # -- small files -------------------------------------------------------------------------------------------

    def _small_files(self) -> None:
        for name, fault in list(file_faults(self._directory)):
            self._quarantine.move(self._directory / name)
            self._done(Done.FILE_REMOVED, file=name, error=fault)

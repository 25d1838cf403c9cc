"""``crawler repair`` makes a damaged job whole again from what the disk still holds.

    store       if RocksDB cannot open or read it, copied to a new store as far as it can be read
    job.json    rebuilt from the copy of its settings in the store, or from a generation
    secret      of the seen-set: in job.json, the store and each generation; if none has it, there is a new one
    queue, journal, output, counters, hosts
                read once (``inventory``) and made to agree (``reconcile``)
    seen-set    rebuilt from the newest whole generation and the journal after it, or from the journal alone

Whatever is replaced is moved to ``DIR/damaged-N``. An interrupted repair can be run again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import Disk, RealDisk, failpoint, make_private_directory
from crawler.base.kv import Family
from crawler.base.settings import SeenSettings, Settings, SettingsError, settings_from
from crawler.frontier import Order
from crawler.inspect.integrity.change import Change, Done, Tell
from crawler.inspect.integrity.finding import Detail, Finding
from crawler.inspect.integrity.inventory import InventorySettings
from crawler.inspect.integrity.quarantine import Quarantine
from crawler.inspect.integrity.reconcile import Reconciliation, RepairContext, place_whole
from crawler.inspect.integrity.record_files import write_tables
from crawler.inspect.integrity.verifier import unreadable, verify_job
from crawler.job.checkpoint import EnvelopeError, Generations, UnknownVersionError
from crawler.job.directory import (
    IDENTITY,
    LACKS_BODIES,
    PAGES,
    REPAIRED,
    SEEN,
    STORE,
    JobError,
    OtherFormatError,
    check_restored,
)
from crawler.job.history_file import COURSE, course_fault
from crawler.job.identity import FORMAT, Identity, read_identity, shaping_of, write_identity
from crawler.job.inbox import Inbox
from crawler.job.job_lock import JobLock
from crawler.job.output.body_files import DIRECTORY as BODIES
from crawler.job.output.outputs import FORMS
from crawler.job.output.record_text import page_paths, text_size
from crawler.job.records import JournalError
from crawler.job.recovery import (
    FORMAT_KEPT,
    HASH_KEPT,
    REPAIRING,
    SeenSpec,
    encode_hash,
    keep_identity,
    kept_hash,
    kept_partition,
    kept_shaping,
    restore_seen,
    stored_counters,
)
from crawler.job.run_settings import RUN, read_run
from crawler.job.step_log import MARK
from crawler.job.store import Broken, PartitionStore, RocksStore, StoreError, StoreVersionError
from crawler.job.store.rocks import OF_PARTITIONS
from crawler.job.store.salvage import readable, salvage
from crawler.job.store.wal import log_fault
from crawler.job.survey_file import SURVEY, survey_fault
from crawler.seen.filters import FilterError, FormatError, KeyHash, NoMemoryError

_SCRATCH = "store.scratch"  # the copy that RocksDB should open
_PART = "store.part"  # the new store while it is written
_ROWS_LOST = b"rows"  # the value of REPAIRING in a new store that lacks rows of the old one


class Repaired(Struct, frozen=True):
    """``was_whole``: nothing was wrong and nothing was changed. ``left``: what is still wrong."""

    was_whole: bool
    left: list[Finding]


def repair_job(directory: Path, now: float, tell: Tell, disk: Disk | None = None) -> Repaired:
    """Repair the job. ``tell`` is called with each change; ``now`` is in seconds since 1970; a test may pass another
    ``disk``.

    Raises JobError if there is no job, it is in use, or another version of the program made it. Raises OSError if the
    disk fails."""
    if not any((directory / name).exists() for name in (IDENTITY, STORE, REPAIRED, SEEN)):
        raise JobError(f"{directory} holds no crawl: name a job directory")
    check_restored(directory)
    _check_repairable(directory)  # before anything is written, the lock's file among it
    try:
        lock = JobLock(directory)
    except OSError as error:
        raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
    try:
        _check_repairable(directory)
        disk = disk or RealDisk()
        lacks_bodies = (directory / LACKS_BODIES).exists()
        if not lacks_bodies and not find_all(directory):
            return Repaired(True, [])
        _Repair(directory, now, tell, disk).run()
        if lacks_bodies:  # what was a replica is a whole job from now on
            disk.unlink(directory / LACKS_BODIES)
            disk.sync_directory(directory)
        return Repaired(False, find_all(directory))
    finally:
        lock.release()


def find_all(directory: Path) -> list[Finding]:
    """Return the findings of ``verify``, including an error that stops it."""
    found: list[Finding] = []
    try:
        found.extend(verify_job(directory))
    except StoreVersionError as error:
        raise JobError(str(error)) from error
    except (JobError, OSError) as error:
        found.append(unreadable(error))
    return found


def _check_repairable(directory: Path) -> None:
    """Raises JobError: files of another version are not damaged, and the requests of another fetcher are not in its
    records."""
    try:
        fetcher = read_identity(directory).fetcher
    except OtherFormatError:
        raise
    except JobError:
        fetcher = None  # repaired later
    if fetcher is not None:
        raise JobError(
            f"{directory} is the job of {fetcher}: requests cannot be made again from their records: restore a backup"
        )
    generations = Generations(directory / SEEN, 2, RealDisk())
    for generation in generations.numbers():
        try:
            generations.read_manifest(generation)
        except UnknownVersionError as error:
            raise JobError(f"{directory}: {error}") from error
        except (EnvelopeError, OSError):
            pass  # repaired later


def _mark(store: RocksStore, value: bytes | None) -> None:
    """Record in the store that a repair is in progress, or (None) that it has ended. Raises OSError."""
    batch = store.batch()
    batch.delete(Family.META, MARK)  # no replica follows the state that a repair makes
    if value is None:
        batch.delete(Family.META, REPAIRING)
    else:
        batch.put(Family.META, REPAIRING, value)
    store.write(batch)
    store.sync()


class _Repair:
    def __init__(self, directory: Path, now: float, tell: Tell, disk: Disk) -> None:
        self._directory = directory
        self._now = now
        self._tell = tell
        self._disk = disk
        self._quarantine = Quarantine(directory, disk)
        self._partition = self._told_partition()  # None: it is a crawl of its own, as far as is known

    def run(self) -> None:
        self._put_back_store()
        with self._store() as store:
            self._check_format(store)
            before = store.get(Family.META, REPAIRING)
            if before is None:
                _mark(store, b"")
            # An interrupted repair may already have removed what shows that the seen-set must be rebuilt.
            rows_lost, begun = before == _ROWS_LOST, before == b""
            empty = self._is_empty(store)
        failpoint("repair.marked")
        place_whole(self._directory / PAGES, self._disk, self._quarantine)
        write_tables(self._directory / PAGES, self._disk, self._tell)
        if empty:
            self._restart_crawl()
        with self._store() as store:
            hash, is_new = self._find_hash(store)
            rows_lost |= is_new
            settings = self._settings(store, hash)
            kept = settings.durability.generations
            behind = self._generations_ahead(store, kept)
            context = RepairContext(
                self._directory,
                InventorySettings.of(settings, hash),
                store,
                self._disk,
                self._quarantine,
                self._tell,
            )
            forgotten = Reconciliation(context, Order(settings.crawl.order)).run(whole_store=not rows_lost)
            failpoint("repair.mended")
            self._seen_set(
                store,
                SeenSpec(settings.seen, hash),
                kept,
                rebuild=behind or forgotten or rows_lost or begun or empty,
            )
            failpoint("repair.done")
            self._quarantine.flush()
            identity = self._identity(settings, hash)
            batch = store.batch()
            keep_identity(store, identity, batch)
            store.write(batch)
            _mark(store, None)
        if read_identity(self._directory) != identity:
            write_identity(self._disk, self._directory, identity)
        self._small_files()
        if self._quarantine.path.is_dir():
            self._done(Done.QUARANTINED, directory=self._quarantine.path.name)

    def _done(self, what: Done, **details: Detail) -> None:
        self._tell(Change(what, details))

    def _check_format(self, store: RocksStore) -> None:
        """Raises OtherFormatError if another version of the program made the store, which ``job.json``, if it is
        damaged, does not say."""
        kept = store.get(Family.META, FORMAT_KEPT)
        if kept not in (None, FORMAT):
            raise OtherFormatError(
                f"{self._directory}: {IDENTITY} is damaged, and another version of this program made {STORE}/: repair "
                "it with that one"
            )

    def _told_partition(self) -> tuple[int, int] | None:
        """Which partition the job is, by ``job.json``. If that cannot be read, the store tells later."""
        try:
            return read_identity(self._directory).partition
        except JobError:
            return None

    # -- the store ---------------------------------------------------------------------------------------------

    @contextmanager
    def _store(self) -> Iterator[RocksStore]:
        path = self._directory / STORE
        store = RocksStore(path) if self._partition is None else PartitionStore(path, optional=OF_PARTITIONS)
        try:
            if self._partition is None:
                with contextlib.suppress(JournalError):  # it is removed with all that is damaged
                    self._partition = kept_partition(store)
            yield store
        finally:
            store.close()

    def _put_back_store(self) -> None:
        """Make sure that the store can be read. If it cannot, put a new one with its rows in its place."""
        path, ready = self._directory / STORE, self._directory / REPAIRED
        if ready.exists():  # a repair was interrupted here
            if path.exists():
                self._quarantine.move(path)
            self._place(ready, path)
            return
        if not path.exists():
            return
        self._keep_logs(path)
        if self._opens(path):
            return
        part, scratch = self._directory / _PART, self._directory / _SCRATCH
        try:
            lines = salvage(path, scratch, part)
        except StoreError as error:
            if error.errno is not None:
                raise
            self._done(Done.STORE_LOST, error=str(error))
            self._quarantine.move(path)
            return
        for line in lines:
            self._done(Done.STORE_SALVAGED, text=line)
        new = RocksStore(part)
        try:
            _mark(new, _ROWS_LOST)
        finally:
            new.close()
        self._disk.sync_directory(part)
        failpoint("repair.salvaged")
        self._disk.move(part, ready)
        self._disk.sync_directory(self._directory)
        failpoint("repair.ready")
        self._quarantine.move(path)
        failpoint("repair.aside")
        self._place(ready, path)

    def _place(self, ready: Path, path: Path) -> None:
        self._disk.move(ready, path)
        self._disk.sync_directory(self._directory)
        failpoint("repair.placed")

    def _keep_logs(self, path: Path) -> None:
        """Keep a copy of a damaged log. RocksDB, opened for writing, reads a log up to the damage and then removes
        it."""
        fault = log_fault(path)
        if fault is not None and not fault.behind:
            self._quarantine.copy(path / fault.log)
            self._done(Done.LOG_CUT, log=fault.log, offset=fault.offset, error=str(fault))

    def _opens(self, path: Path) -> bool:
        try:
            store = RocksStore(path, broken=Broken.REFUSE)
        except StoreError as error:
            if error.errno is not None:
                raise
            return False
        try:
            return readable(store)
        finally:
            store.close()

    def _is_empty(self, store: RocksStore) -> bool:
        return not any(store.scan(family, b"", None, 1) for family in (Family.PENDING, Family.ADMITTED, Family.DONE))

    def _restart_crawl(self) -> None:
        """Start over: without a queue nobody knows what was pending, and only fetching the pages again finds it."""
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

    def _settings(self, store: RocksStore, hash: KeyHash) -> Settings:
        try:
            return settings_from(read_identity(self._directory).shaping, IDENTITY)
        except (JobError, SettingsError):
            pass  # rebuilt below
        source = "store"
        tables = kept_shaping(store)
        if tables is None:
            source, tables = "generation", self._parameters()
            # Only an exact seen-set and one with a ledger keep digests in the store.
            tables["seen"]["ledger"] = tables["seen"].get("kind") != "exact" and bool(
                store.scan(Family.SEEN, b"", None, 1)
            )
        try:
            settings = settings_from(tables, source)
        except SettingsError as error:
            raise JobError(f"{self._directory}: {IDENTITY} is damaged and cannot be rebuilt: {error}") from error
        path = self._directory / IDENTITY
        if path.exists():
            self._quarantine.move(path)
        write_identity(self._disk, self._directory, self._identity(settings, hash))
        self._done(Done.SETTINGS_REBUILT, source=source)
        return settings

    def _identity(self, settings: Settings, hash: KeyHash) -> Identity:
        return Identity(shaping_of(settings), hash, partition=self._partition)

    # -- the secret --------------------------------------------------------------------------------------------

    def _find_hash(self, store: RocksStore) -> tuple[KeyHash, bool]:
        """The hash of the journal, and whether it was lost, and the journal with it: then the hash is a new one."""
        try:
            told: KeyHash | None = read_identity(self._directory).hash
        except JobError:
            told = None  # rebuilt later
        try:
            kept = kept_hash(store)
        except FilterError:
            kept = None
        hash = kept or told or self._hash_of_generation()
        if hash is None:
            return self._begin_hash(store), True
        if told != hash or kept != hash:
            source = "store" if kept is not None else "job.json" if told is not None else "generation"
            self._done(Done.SECRET_RESTORED, source=source)
        return hash, False

    def _hash_of_generation(self) -> KeyHash | None:
        generations = Generations(self._directory / SEEN, 2, self._disk)
        for number in generations.numbers():
            try:
                state = generations.read_manifest(number).state
                return KeyHash.from_json(state["hash"] if "hash" in state else state["front"]["hash"])
            except (EnvelopeError, OSError, FilterError, LookupError, TypeError):
                continue
        return None

    def _begin_hash(self, store: RocksStore) -> KeyHash:
        """Begin a new journal with a new secret: nobody can tell what the digests of the old one were."""
        tables = kept_shaping(store) or {}
        algorithm = str(tables.get("seen", {}).get("hash", SeenSettings().hash))
        hash = KeyHash.new(algorithm)
        batch = store.batch()
        batch.delete_range(Family.ADMITTED, b"", b"\xff" * 9)
        batch.put(Family.META, HASH_KEPT, encode_hash(hash))
        batch.put(Family.META, REPAIRING, _ROWS_LOST)
        store.write(batch)
        store.sync()
        self._done(Done.SECRET_LOST)
        return hash

    def _parameters(self) -> dict[str, dict[str, object]]:
        """Return the seen-set's settings from a generation. Raises JobError if there is none."""
        generations = Generations(self._directory / SEEN, 2, self._disk)
        for number in generations.numbers():
            try:
                parameters = generations.read_manifest(number).state["parameters"]
            except (EnvelopeError, OSError, KeyError):
                continue
            self._done(Done.RULES_UNKNOWN)
            return {"seen": dict(parameters)}
        raise JobError(
            f"{self._directory}: {IDENTITY} is damaged, and neither {STORE}/ nor {SEEN}/ has the job's settings: start "
            "a new job in another directory"
        )

    def _small_files(self) -> None:
        fault = read_run(self._directory).fault
        if fault is not None:
            self._quarantine.move(self._directory / RUN)
            self._done(Done.RUN_SETTINGS_REMOVED, error=fault)
        fault = course_fault(self._directory)
        if fault is not None:
            self._quarantine.move(self._directory / COURSE)
            self._done(Done.HISTORY_REMOVED, error=fault)
        fault = survey_fault(self._directory)
        if fault is not None:
            self._quarantine.move(self._directory / SURVEY)
            self._done(Done.SURVEY_REMOVED, error=fault)
        inbox = Inbox(self._directory, self._disk)
        try:
            names = inbox.waiting()
        except NotADirectoryError as error:
            self._quarantine.move(inbox.path)
            self._done(Done.INBOX_REMOVED, error=error.strerror)
            return
        for name in names:
            try:
                inbox.read(name)
            except EnvelopeError as error:
                self._done(Done.PARCEL_REMOVED, error=str(error), kept_as=str(inbox.set_aside(f"{name}.urls")))

    # -- the seen-set ------------------------------------------------------------------------------------------

    def _generations_ahead(self, store: RocksStore, most: int) -> bool:
        """Return whether a generation covers more than the journal holds: its bits may belong to URLs that are not
        queued."""
        try:
            end = stored_counters(store).sequence
        except JournalError:
            return True
        generations = Generations(self._directory / SEEN, most, self._disk)
        for number in generations.numbers():
            try:
                if generations.read_manifest(number).sequence > end:
                    return True
            except (EnvelopeError, OSError):
                continue
        return False

    def _seen_set(self, store: RocksStore, spec: SeenSpec, most: int, *, rebuild: bool) -> None:
        directory = self._directory / SEEN
        make_private_directory(directory, exist_ok=True)
        generations = Generations(directory, most, self._disk)
        kept = set() if rebuild else self._whole_files(generations)
        moved = [path for path in sorted(directory.iterdir()) if path.is_file() and path.name not in kept]
        for path in moved:
            self._quarantine.move(path)
        failpoint("repair.cleared")
        try:
            restored = restore_seen(generations, store, spec)
        except FilterError as error:
            if not kept or isinstance(error, NoMemoryError):
                raise
            self._done(Done.SEEN_DAMAGED, error=str(error))
            self._seen_set(store, spec, most, rebuild=True)
            return
        if moved or not kept:
            newest = None if generations.newest is None else generations.newest.generation
            self._done(Done.SEEN_REBUILT, generation=newest, replayed=restored.replayed)
        generations.write(restored.seen.snapshot(), stored_counters(store).sequence, self._now, store.sync)

    def _whole_files(self, generations: Generations) -> set[str]:
        """Return the names of the files of all whole generations."""
        kept: set[str] = set()
        for number in generations.numbers():
            try:
                manifest = generations.read(number).manifest
            except (EnvelopeError, FormatError, OSError) as error:
                self._done(Done.GENERATION_REMOVED, generation=number, error=str(error))
                continue
            kept.add(f"generation-{number:06d}")
            kept.update(segment.file for segment in manifest.segments)
        return kept

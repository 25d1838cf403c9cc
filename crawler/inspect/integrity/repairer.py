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
from msgspec.structs import replace

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
from crawler.job.conversion import OLD, discard_copy, place_parts
from crawler.job.directory import IDENTITY, LACKS_BODIES, PAGES, REPAIRED, SEEN, STORE, JobError, check_restored
from crawler.job.formats import FIRST, KNOWN, SEVERAL_FILES, Formats
from crawler.job.history_file import COURSE, course_fault
from crawler.job.identity import Identity, OtherFormatError, format_in_use, read_identity, shaping_of, write_identity
from crawler.job.inbox import Inbox
from crawler.job.job_lock import JobLock
from crawler.job.output.body_files import DIRECTORY as BODIES
from crawler.job.output.outputs import FORMS
from crawler.job.output.record_text import page_paths, text_size
from crawler.job.records import JournalError
from crawler.job.recovery import (
    HASH_KEPT,
    REPAIRING,
    SeenSpec,
    encode_hash,
    keep_identity,
    kept_format,
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
from crawler.seen.exact.seen import usual_hash
from crawler.seen.filters import SEED_ZERO, FilterError, FormatError, KeyHash, NoMemoryError

_SCRATCH = "store.scratch"  # the copy that RocksDB should open
_PART = "store.part"  # the new store while it is written
_ROWS_LOST = b"rows"  # the value of REPAIRING in a new store that lacks rows of the old one


class Repaired(Struct, frozen=True):
    """``was_whole``: nothing was wrong and nothing was changed. ``left``: what is still wrong."""

    was_whole: bool
    left: list[Finding]


def repair_job(directory: Path, now: float, tell: Tell, disk: Disk | None = None, formats: Formats = KNOWN) -> Repaired:
    """Repair the job. ``tell`` is called with each change; ``now`` is in seconds since 1970; a test may pass another
    ``disk``, and other ``formats``.

    Raises JobError if there is no job, it is in use, or of a format that cannot be repaired. Raises OSError if the disk
    fails."""
    if not any((directory / name).exists() for name in (IDENTITY, STORE, REPAIRED, SEEN)):
        raise JobError(f"{directory} holds no crawl: name a job directory")
    check_restored(directory)
    _format_to_repair(directory, formats)  # before anything is written, the lock's file among it
    try:
        lock = JobLock(directory)
    except OSError as error:
        raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
    try:
        number = _format_to_repair(directory, formats)
        disk = disk or RealDisk()
        lacks_bodies = (directory / LACKS_BODIES).exists()
        if not lacks_bodies and not find_all(directory, formats):
            return Repaired(True, [])
        _Repair(directory, now, tell, disk, formats).run(number)
        if lacks_bodies:  # what was a replica is a whole job from now on
            disk.unlink(directory / LACKS_BODIES)
            disk.sync_directory(directory)
        return Repaired(False, find_all(directory, formats))
    finally:
        lock.release()


def find_all(directory: Path, formats: Formats = KNOWN) -> list[Finding]:
    """Return the findings of ``verify``, including an error that stops it."""
    found: list[Finding] = []
    try:
        found.extend(verify_job(directory, formats))
    except StoreVersionError as error:
        raise JobError(str(error)) from error
    except (JobError, OSError) as error:
        found.append(unreadable(error))
    return found


def _format_to_repair(directory: Path, formats: Formats) -> int:
    """The format of what is stored; the first, which has the fewest families, when ``job.json`` does not say.

    Raises JobError: files of a newer program are not damaged, and what must be converted is not repaired."""
    number = FIRST
    try:
        identity = read_identity(directory, formats)
        number = identity.stored_format
        if identity.fetcher is not None:
            raise OtherFormatError(
                f"{directory} is the job of {identity.fetcher}: requests cannot be made again from their records: "
                "restore a backup"
            )
        if formats.conversions_after(number):
            raise OtherFormatError(
                f"{directory} has format version {number}, this program repairs version {formats.newest}: the command "
                "that resumes the crawl converts it; if that fails, repair it with the program that made it"
            )
    except OtherFormatError:
        raise
    except JobError:
        pass  # repaired later
    generations = Generations(directory / SEEN, 2, RealDisk())
    for generation in generations.numbers():
        try:
            generations.read_manifest(generation)
        except UnknownVersionError as error:
            raise JobError(f"{directory}: {error}") from error
        except (EnvelopeError, OSError):
            pass  # repaired later
    return number


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
    def __init__(self, directory: Path, now: float, tell: Tell, disk: Disk, formats: Formats) -> None:
        self._directory = directory
        self._now = now
        self._tell = tell
        self._disk = disk
        self._quarantine = Quarantine(directory, disk)
        self._formats = formats
        self._optional: frozenset[Family] = frozenset()  # families that the store may lack
        self._found = FIRST  # the format that the job has, by `job.json` or the store
        self._hash: KeyHash | None = None  # None: an older job without a secret
        self._partition = self._told_partition()  # None: it is a crawl of its own, as far as is known

    def run(self, number: int) -> None:
        """Repair a job whose state is of that format; it is one of the newest then."""
        self._optional, self._found = self._formats.families_after(number), number
        self._settle_conversion()
        self._mark_format()
        self._put_back_store()
        with self._store() as store:
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
            rows_lost |= self._find_hash(store)
            settings = self._settings(store)
            hash_in_use = self._hash or usual_hash(settings.seen.kind)
            kept = settings.durability.generations
            behind = self._generations_ahead(store, kept)
            context = RepairContext(
                self._directory,
                InventorySettings.of(settings, hash_in_use),
                store,
                self._disk,
                self._quarantine,
                self._tell,
            )
            forgotten = Reconciliation(context, Order(settings.crawl.order)).run(whole_store=not rows_lost)
            failpoint("repair.mended")
            self._seen_set(
                store,
                SeenSpec(settings.seen, hash_in_use),
                kept,
                rebuild=behind or forgotten or rows_lost or begun or empty,
            )
            failpoint("repair.done")
            self._quarantine.flush()
            identity = self._keep_identity(store, settings)
            _mark(store, None)
        if read_identity(self._directory, self._formats) != identity:
            write_identity(self._disk, self._directory, identity)
        discard_copy(self._disk, self._directory)
        self._small_files()
        if self._quarantine.path.is_dir():
            self._done(Done.QUARANTINED, directory=self._quarantine.path.name)

    def _done(self, what: Done, **details: Detail) -> None:
        self._tell(Change(what, details))

    def _settle_conversion(self) -> None:
        """What an interrupted conversion left is put in its place if it is complete, and else removed: once
        ``job.json`` says that the job is being converted, the next run would take it for complete."""
        try:
            is_complete = read_identity(self._directory, self._formats).converting is not None
        except JobError:
            is_complete = (self._directory / OLD).exists()
        if is_complete:
            place_parts(self._disk, self._directory)
        else:
            discard_copy(self._disk, self._directory)

    def _mark_format(self) -> None:
        """Older programs must not meet a store with families that they do not know."""
        try:
            identity = read_identity(self._directory, self._formats)
        except JobError:
            return  # rebuilt later
        if identity.format < self._formats.usual:
            marked = replace(identity, format=self._formats.usual, converting=identity.stored_format)
            write_identity(self._disk, self._directory, marked)

    def _told_partition(self) -> tuple[int, int] | None:
        """Which partition the job is, by ``job.json``. If that cannot be read, the store tells later."""
        try:
            return read_identity(self._directory, self._formats).partition
        except JobError:
            return None

    # -- the store ---------------------------------------------------------------------------------------------

    @contextmanager
    def _store(self) -> Iterator[RocksStore]:
        path = self._directory / STORE
        if self._partition is None:
            store = RocksStore(path, optional=self._optional)
        else:
            store = PartitionStore(path, optional=self._optional | OF_PARTITIONS)
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
            lines = salvage(path, scratch, part, self._optional)
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
            store = RocksStore(path, optional=self._optional, broken=Broken.REFUSE)
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

    def _settings(self, store: RocksStore) -> Settings:
        try:
            return settings_from(read_identity(self._directory, self._formats).shaping, IDENTITY)
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
        number = self._found = kept_format(store)
        if number > self._formats.newest or self._formats.conversions_after(number):
            raise OtherFormatError(
                f"{self._directory}: {IDENTITY} is damaged and {STORE}/ has format version {number}, this program "
                f"repairs version {self._formats.newest}: repair it with the program that made it"
            )
        for (table, key), before in self._formats.settings_after(number).items():
            tables.setdefault(table, {}).setdefault(key, before)
        try:
            settings = settings_from(tables, source)
        except SettingsError as error:
            raise JobError(f"{self._directory}: {IDENTITY} is damaged and cannot be rebuilt: {error}") from error
        path = self._directory / IDENTITY
        if path.exists():
            self._quarantine.move(path)
        write_identity(self._disk, self._directory, self._identity(settings))
        self._done(Done.SETTINGS_REBUILT, source=source)
        return settings

    def _identity(self, settings: Settings) -> Identity:
        number = format_in_use(self._directory, self._formats)  # a repair may have made one file of several
        if self._found > SEVERAL_FILES:
            number = max(number, self._found)
        return Identity(number, shaping_of(settings), hash=self._hash, partition=self._partition)

    def _keep_identity(self, store: RocksStore, settings: Settings) -> Identity:
        """Store the copy of what ``job.json`` says, and return that."""
        batch = store.batch()
        if self._hash is None or self._hash == SEED_ZERO:
            self._hash = None  # what prevented a secret may be repaired now: the next run tries again
            batch.delete(Family.META, HASH_KEPT)
        identity = self._identity(settings)
        keep_identity(store, identity, batch)
        store.write(batch)
        return identity

    # -- the secret --------------------------------------------------------------------------------------------

    def _find_hash(self, store: RocksStore) -> bool:
        """Find the hash of the journal. Returns whether it was lost, and the journal with it."""
        try:
            identity: Identity | None = read_identity(self._directory, self._formats)
        except JobError:
            identity = None  # rebuilt later
        told = None if identity is None else identity.hash
        try:
            kept = kept_hash(store)
        except FilterError:
            kept = None
        self._hash = kept or told
        if self._hash is None:
            if identity is not None or kept_format(store) == FIRST:
                return False
            self._hash = self._hash_of_generation()
        if self._hash is None:
            self._begin_hash(store)
            return True
        if told != self._hash or kept != self._hash:
            source = "store" if kept is not None else "job.json" if told is not None else "generation"
            self._done(Done.SECRET_RESTORED, source=source)
        return False

    def _hash_of_generation(self) -> KeyHash | None:
        generations = Generations(self._directory / SEEN, 2, self._disk)
        for number in generations.numbers():
            try:
                state = generations.read_manifest(number).state
                return KeyHash.from_json(state["hash"] if "hash" in state else state["front"]["hash"])
            except (EnvelopeError, OSError, FilterError, LookupError, TypeError):
                continue
        return None

    def _begin_hash(self, store: RocksStore) -> None:
        """Begin a new journal with a new secret: nobody can tell what the digests of the old one were."""
        tables = kept_shaping(store) or {}
        algorithm = str(tables.get("seen", {}).get("hash", SeenSettings().hash))
        self._hash = KeyHash.new(algorithm)
        batch = store.batch()
        batch.delete_range(Family.ADMITTED, b"", b"\xff" * 9)
        batch.put(Family.META, HASH_KEPT, encode_hash(self._hash))
        batch.put(Family.META, REPAIRING, _ROWS_LOST)
        store.write(batch)
        store.sync()
        self._done(Done.SECRET_LOST)

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
        fault = read_run(self._directory, self._formats).fault
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

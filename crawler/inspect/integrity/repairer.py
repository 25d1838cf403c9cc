"""``crawler repair`` makes a damaged job whole again from what the disk still holds.

    store       a copy of the damaged one is opened, with RocksDB's own repair if it must be, and its rows are read
    job.json    rebuilt from the copy of its settings in the store
    secret      of the seen-set: in job.json and the store; if neither has it, there is a new one
    the rest    read once (``inventory``) and built anew beside it (``rebuild``)
    seen-set    rebuilt from the new journal

Whatever is replaced is moved to ``DIR/damaged-N``. Until the new store is complete nothing of the damaged one is
changed; from then on an interrupted repair is completed by the next.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import closing
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
from crawler.inspect.integrity.rebuild import WHOLE, Rebuild, RepairContext, place_whole
from crawler.inspect.integrity.verifier import unreadable, verify_job
from crawler.job.checkpoint import EnvelopeError, Generations, UnknownVersionError
from crawler.job.conversion import OLD, discard_copy, place_parts
from crawler.job.directory import IDENTITY, LACKS_BODIES, PAGES, REPAIRED, SEEN, STORE, JobError, check_restored
from crawler.job.formats import FIRST, KNOWN, SEVERAL_FILES, Formats
from crawler.job.history_file import COURSE, course_fault
from crawler.job.identity import Identity, OtherFormatError, format_in_use, read_identity, shaping_of, write_identity
from crawler.job.inbox import INBOX, Inbox
from crawler.job.job_lock import JobLock
from crawler.job.output.body_files import DIRECTORY as BODIES
from crawler.job.output.outputs import FORMS
from crawler.job.output.record_text import page_paths, text_size
from crawler.job.records import JournalError
from crawler.job.recovery import (
    HASH_KEPT,
    REPAIRING,
    SeenSpec,
    keep_identity,
    kept_format,
    kept_hash,
    kept_partition,
    kept_shaping,
    restore_seen,
    stored_counters,
)
from crawler.job.run_settings import RUN, read_run
from crawler.job.snapshot import remove_tree
from crawler.job.store import PartitionStore, RocksStore, StoreError, StoreVersionError
from crawler.job.store.readable_copy import ReadableCopy, open_copy
from crawler.job.store.wal import log_fault
from crawler.job.survey_file import SURVEY, survey_fault
from crawler.seen.exact.seen import usual_hash
from crawler.seen.filters import SEED_ZERO, FilterError, KeyHash

_SCRATCH = "store.scratch"  # the copy of the damaged store that is read
_PART = "store.part"  # the new store while it is written


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
        self._identity_told: Identity | None = None  # None: it cannot be read
        with contextlib.suppress(JobError):
            self._identity_told = read_identity(directory, formats)
        told = self._identity_told
        self._partition = None if told is None else told.partition  # None: a crawl of its own, as far as is known

    def run(self, number: int) -> None:
        """Repair a job whose state is of that format; it is one of the newest then."""
        self._optional, self._found = self._formats.families_after(number), number
        self._settle_conversion()
        if (self._directory / REPAIRED).exists():  # a repair was interrupted here
            place_whole(self._directory / PAGES, self._disk, self._quarantine)
            self._place()
            self._quarantine = Quarantine(self._directory, self._disk)  # that one has a store
        else:
            (self._directory / WHOLE).unlink(missing_ok=True)
        with contextlib.suppress(JobError):  # what they are is said by job.json, which is rebuilt first
            self._small_files()
        if find_all(self._directory, self._formats):
            self._rebuild_all()
            self._small_files()
        if self._quarantine.path.is_dir():
            self._done(Done.QUARANTINED, directory=self._quarantine.path.name)

    def _rebuild_all(self) -> None:
        self._mark_format()
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
        discard_copy(self._disk, self._directory)

    def _rebuild(self, old: RocksStore, *, whole: bool) -> tuple[Rebuild, Settings]:
        """Write the new store."""
        with contextlib.suppress(JournalError):  # it is not copied
            self._partition = self._partition or kept_partition(old)
        if not any(old.scan(family, b"", None, 1) for family in (Family.PENDING, Family.ADMITTED, Family.DONE)):
            self._restart_crawl()
        secret_lost = self._find_hash(old)
        settings = self._settings(old)
        hash_in_use = self._hash or usual_hash(settings.seen.kind)
        remove_tree(self._directory / _PART)
        new = (RocksStore if self._partition is None else PartitionStore)(self._directory / _PART)
        try:
            context = RepairContext(
                self._directory,
                InventorySettings.of(settings, hash_in_use),
                old,
                new,
                self._disk,
                self._quarantine,
                self._tell,
            )
            rebuild = Rebuild(context, Order(settings.crawl.order))
            rebuild.run(whole_store=whole, secret_lost=secret_lost)
            batch = new.batch()
            batch.put(Family.META, REPAIRING, b"")
            if self._hash is None or self._hash == SEED_ZERO:
                self._hash = None  # what prevented a secret may be repaired now: the next run tries again
                batch.delete(Family.META, HASH_KEPT)
            keep_identity(new, self._identity(settings), batch)
            new.write(batch)
            new.sync()
        finally:
            new.close()
        self._disk.sync_directory(self._directory / _PART)
        return rebuild, settings

    def _finish(self, settings: Settings) -> None:
        """Write a seen-set and ``job.json`` for the new store, which is then whole."""
        make_private_directory(self._directory / SEEN, exist_ok=True)
        generations = Generations(self._directory / SEEN, settings.durability.generations, self._disk)
        with closing((RocksStore if self._partition is None else PartitionStore)(self._directory / STORE)) as store:
            spec = SeenSpec(settings.seen, self._hash or usual_hash(settings.seen.kind))
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

    # -- the store ---------------------------------------------------------------------------------------------

    def _open_copy(self) -> ReadableCopy:
        """A copy of the damaged store; an empty store if nothing can be read."""
        path, scratch = self._directory / STORE, self._directory / _SCRATCH
        remove_tree(scratch)
        fault = log_fault(path)
        if fault is not None:
            self._done(Done.LOG_DAMAGED, log=fault.log, offset=fault.offset, error=str(fault))
        try:
            copy = open_copy(path, scratch, self._optional)
        except StoreError as error:
            if error.errno is not None:
                raise
            self._done(Done.STORE_LOST, error=str(error))
            return ReadableCopy(RocksStore(scratch / "empty"), False, None)
        if copy.error is not None:
            self._done(Done.STORE_REPAIRED, error=copy.error)
        return copy

    def _place(self) -> None:
        """Let the new store take the place of the old one, and move the seen-set away that belongs to that."""
        for name in (SEEN, STORE):
            if (self._directory / name).exists():
                self._quarantine.move(self._directory / name)
        failpoint("repair.aside")
        self._disk.move(self._directory / REPAIRED, self._directory / STORE)
        self._disk.sync_directory(self._directory)
        failpoint("repair.placed")

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
        if self._identity_told is not None:
            return settings_from(self._identity_told.shaping, IDENTITY)
        tables = kept_shaping(store)
        if tables is None:
            raise JobError(
                f"{self._directory}: {IDENTITY} is damaged, and {STORE}/ lacks its settings too: restore a backup",
                new_job=True,
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
        number = format_in_use(self._directory, self._formats)  # a repair may have made one file of several
        if self._found > SEVERAL_FILES:
            number = max(number, self._found)
        return Identity(number, shaping_of(settings), hash=self._hash, partition=self._partition)

    # -- the secret --------------------------------------------------------------------------------------------

    def _find_hash(self, store: RocksStore) -> bool:
        """Find the hash of the journal. Returns whether it was lost, and the journal with it."""
        told = None if self._identity_told is None else self._identity_told.hash
        try:
            kept = kept_hash(store)
        except FilterError:
            kept = None
        self._hash = kept or told
        if self._hash is None:
            if self._identity_told is not None or kept_format(store) == FIRST:
                return False
            tables = kept_shaping(store) or {}
            self._hash = KeyHash.new(str(tables.get("seen", {}).get("hash", SeenSettings().hash)))
            self._done(Done.SECRET_LOST)
            return True
        if told != self._hash or kept != self._hash:
            self._done(Done.SECRET_RESTORED, source=IDENTITY if kept is None else STORE)
        return False

    # -- small files -------------------------------------------------------------------------------------------

    def _small_files(self) -> None:
        inbox, names, refused = Inbox(self._directory, self._disk), list[str](), None
        try:
            names = inbox.waiting()
        except NotADirectoryError as error:
            refused = error.strerror
        faults = {
            RUN: read_run(self._directory, self._formats).fault,
            COURSE: course_fault(self._directory),
            SURVEY: survey_fault(self._directory),
            INBOX: refused,
        }
        for name, fault in faults.items():
            if fault is not None:
                self._quarantine.move(self._directory / name)
                self._done(Done.FILE_REMOVED, file=name, error=fault)
        for name in names:
            try:
                inbox.read(name)
            except EnvelopeError as error:
                self._done(Done.PARCEL_REMOVED, error=str(error), kept_as=str(inbox.set_aside(f"{name}.urls")))

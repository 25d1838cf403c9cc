"""The store on RocksDB: one column family for each family of keys, one atomic WriteBatch for each transaction.

Every write reaches RocksDB's write-ahead log, and so the operating system, before ``write`` returns. ``sync`` makes the
log durable, so that a group of writes shares one fsync. After a crash RocksDB replays the log up to its last complete
record: of the batches written since the last ``sync`` a prefix survives, never a batch without all earlier ones. If a
durable part of a log is damaged, the store refuses to open, because RocksDB would drop everything after the damage
(``store.wal``).

``write`` holds the GIL: a transaction is one page with a few dozen changes. ``sync`` releases the GIL and is called
from a thread.

A closed database is copied, and an open one is read through links to its files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import threading
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Checkpoint,
    ColumnFamily,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from crawler.base.disk import FULL, RealDisk, failpoint, make_private_directory
from crawler.base.kv import ON_DEMAND, Batch, Family, Store
from crawler.base.memory import address_space
from crawler.job.store.store_budget import EXACT_CACHE, StoreBudget, open_tables
from crawler.job.store.wal import MARK, log_fault, mark, recycled_record

# Bytes of recent changes kept in memory. Four times as much would take 40 MB, but save a large frontier no CPU time.
_MEMTABLE = 4 * 2**20
_BUSY_MEMTABLE = 8 * 2**20
_IN_ORDER_MEMTABLE = 2**20  # a journal's rows, and the few of META: a flush is merged with no other rows
_EXACT_MEMTABLE = 32 * 2**20  # its rows are inserted in random order, and each flush is merged with all others
# Bytes of log at which the oldest memtables are flushed: for all stores of a process, and the minimum for one store.
_WAL_MAX, _WAL_LEAST = 256 * 2**20, 16 * 2**20
_MEMTABLES = {
    **dict.fromkeys((Family.PENDING, Family.SEEN), _BUSY_MEMTABLE),
    **dict.fromkeys((Family.ADMITTED, Family.DONE, Family.ASIDES, Family.META), _IN_ORDER_MEMTABLE),
}
_RANDOM_BYTES = frozenset({Family.ADMITTED, Family.SEEN})
# Families whose rows are read one at a time.
_BY_KEY = frozenset({Family.HOSTS, Family.ROBOTS, Family.LEDGER, Family.PAGES, Family.REQUESTS})
MAKING = ".new"  # suffix of a store that is being created
_LOOKS = 5  # attempts to open a store whose files are changing
_ADDRESS_SPACE = 576 * 2**20  # maximum number of bytes that RocksDB maps: memtables, caches, threads and their arenas
_MOST_OPENING = 16  # maximum number of threads that open tables
_REOPEN_ROOM = 2**20  # free bytes needed to open the store, in addition to those for the tables that replace the logs
_REOPEN_FILES = 16  # files that opening creates: a table for each family, MANIFEST, CURRENT, a log, the options


class Broken(Enum):
    """How to open a store if complete batches follow the damage in its log."""

    PREFIX = "read the log up to the damage, unless later batches were durable"
    REFUSE = "refuse to open it"
    SKIP = "read the batches after the damage too"


class StoreError(OSError):
    """An operation of RocksDB failed. The text is RocksDB's own message, on one line. ``errno`` is set if the message
    names an error of the system."""


class StoreDamagedError(StoreError):
    """The stored bytes differ from those written, so a retry would not help."""


# RocksDB's messages contain the text of strerror.
_ERRNO = {os.strerror(number): number for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES)}


def _store_error(what: str, error: Exception, names: tuple[str, str]) -> StoreError:
    text = f"{what}: {_first_line(error).replace(*names)}"
    for words, number in _ERRNO.items():
        if words in text:
            return StoreError(number, text)
    return StoreDamagedError(text) if "Corruption:" in text else StoreError(text)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class as_store_error:
    """Turns RocksDB's exceptions into a StoreError whose text starts with ``what``. ``names`` are the path that RocksDB
    uses and the one that the message shows instead.

    This is a class because every transaction enters this context manager, and a generator would take six times as
    long."""

    __slots__ = ("_names", "_what")

    def __init__(self, what: str, names: tuple[str, str] = ("", "")) -> None:
        self._what = what
        self._names = names

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # rocksdict raises a bare Exception for every error of RocksDB; subclasses come from other code.
        if kind is Exception and isinstance(error, Exception):
            raise _store_error(self._what, error, self._names) from error


class _reading_store(as_store_error):
    """Like `as_store_error`, for one read. In threads other than the writing one, it also holds the lock that prevents
    reopening, because a database stays open until its last cursor is closed."""

    __slots__ = ("_guard", "_writer")

    def __init__(self, names: tuple[str, str], guard: threading.Lock, writer: int) -> None:
        super().__init__("cannot read the store", names)
        self._guard = guard
        self._writer = writer

    def __enter__(self) -> None:
        if get_ident() != self._writer:
            self._guard.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if get_ident() != self._writer:
            self._guard.release()
        super().__exit__(kind, error, trace)


class _Database:
    """An open database."""

    __slots__ = ("db", "handles", "options", "seen_cache", "tables")

    def __init__(
        self, path: Path, options: Options, access: AccessType, opened: Sequence[Family], budget: StoreBudget
    ) -> None:
        """``opened``: the families to open; the others read as empty."""
        self.seen_cache = budget.seen_cache
        families = {family.value: _family_options(family, budget) for family in opened}
        self.options = options
        self.db = Rdict(str(path), options, column_families=families, access_type=access)
        absent: Any = _NoRows()
        self.tables: dict[Family, Rdict] = dict.fromkeys(Family, absent)
        self.tables.update((family, self.db.get_column_family(family.value)) for family in opened)
        self.handles: dict[Family, ColumnFamily] = {
            family: self.db.get_column_family_handle(family.value) for family in opened
        }

    def expect_lookups(self) -> None:
        """Allocate the memory for lookups in an exact seen-set."""
        self.seen_cache.set_capacity(EXACT_CACHE)
        self.tables[Family.SEEN].set_options({"write_buffer_size": str(_EXACT_MEMTABLE)})

    def unflushed(self) -> int:
        """The size in bytes of the changes that are only in the logs. Reopening the database writes at most this many
        bytes to tables."""
        return sum(table.property_int_value("rocksdb.cur-size-all-mem-tables") or 0 for table in self.tables.values())

    def close(self) -> None:
        # The families' objects hold the directory's lock, so release them first.
        self.handles.clear()
        self.tables.clear()
        with contextlib.suppress(DbClosedError):
            self.db.close()


class RocksStore(Store):
    """A RocksDB directory, opened for writing by one process, or for reading by any number.

    One thread writes and reopens; others may read and sync. After a failed write the open database stays readable until
    ``reopen`` replaces it."""

    unused = ON_DEMAND  # families that are not created, but opened if they exist

    def __init__(
        self,
        path: Path,
        *,
        secondary: Path | None = None,
        optional: frozenset[Family] = frozenset(),
        as_run: bool = False,
        broken: Broken = Broken.PREFIX,
    ) -> None:
        """Open or create the store. Raises StoreError.

        ``secondary``: open for reading a store that another process may have open. Its directory is not written to and
        may be read-only; ``secondary`` is an empty directory for RocksDB's own files. ``as_run``: read everything that
        a run would read; RocksDB's secondary mode skips damage in some of it. ``optional``: families that the store may
        lack. If missing, they are created, or read as empty if the store is opened for reading. ``broken``: how to
        treat a damaged log when the store is opened for writing."""
        self._path = self._at = path
        self._broken = broken
        self._optional = optional
        self._readers = threading.Lock()  # held to read in a thread other than the writing one, and to reopen
        self._writes = threading.Lock()  # held to write, and to check whether a write has failed
        self._syncing = threading.Lock()  # held to sync, and to reopen
        self._failure: StoreError | None = None  # the error of a failed write, after which no others are accepted
        # True if there is an exact seen-set; None if the store is opened for reading.
        self._exact: bool | None = None if secondary is not None else False
        if secondary is None:
            if _is_unmade(path):
                self._make()
            self._database = self._open(AccessType.read_write())
        else:
            access = AccessType.read_only() if as_run else AccessType.secondary(str(secondary))
            self._database = self._look(secondary, access, catch_up=not as_run)

    def _make(self) -> None:
        """Create the store under a temporary name, and rename it once it is complete and durable. Raises StoreError,
        OSError.

        RocksDB adds the families one at a time, and readers would report a store that lacks some of them as damaged."""
        self._at = part = self._path.with_name(self._path.name + MAKING)
        if part.exists():
            shutil.rmtree(part)  # left behind by a process that was killed while it was creating the store
        make_private_directory(part, parents=True)
        failpoint("store.begun")
        self._open(AccessType.read_write()).close()
        disk = RealDisk()
        disk.sync_many(part, [path for path in part.iterdir() if path.is_file()], [part])
        failpoint("store.made")
        os.replace(part, self._path)  # the target is missing, or an empty directory
        self._at = self._path
        failpoint("store.placed")
        disk.sync_directory(self._path.parent)

    def _look(self, scratch: Path, access: AccessType, *, catch_up: bool) -> _Database:
        # rocksdict writes a file of its own into the directory that it opens, so open a directory of links.
        for left in reversed(range(_LOOKS)):
            self._at = scratch / f"links-{left}"
            link_files(self._path, self._at)
            try:
                database = self._open(access)
                if catch_up:
                    with self._error(f"cannot open the store {self._path}"):
                        database.db.try_catch_up_with_primary()
            except StoreError:
                if not left or not _changed(self._path, self._at):
                    raise
                # The process that writes to the store has replaced files since the links were created: try again.
            else:
                return database
        raise AssertionError("the last attempt returns or raises")

    def _open(self, access: AccessType) -> _Database:
        names = (str(self._at), str(self._path))
        self._reading = _reading_store(names, self._readers, get_ident())
        self._writing = self._error("cannot write to the store")
        budget = self._budget()
        options = database_options(budget.stores)
        if budget.memtables is not None:
            options.set_db_write_buffer_size(budget.memtables)
        # RocksDB starts this many threads for each family, even if the family has no tables to open.
        options.set_max_file_opening_threads(min(_MOST_OPENING, 1 + len(list(self._at.glob("*.sst"))) // _MOST_OPENING))
        if self._broken is Broken.SKIP:
            options.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
        elif self._at is self._path:
            self._check_logs()
        for log in sorted((*self._at.glob("*.log"), *self._at.glob("MANIFEST-*"))):  # both have the log format
            with contextlib.suppress(FileNotFoundError):  # the writer of the store has flushed the log and removed it
                offset = recycled_record(log)
                if offset is not None:
                    raise StoreDamagedError(
                        f"cannot open the store {self._path}: {log.name} is damaged at offset {offset}, and RocksDB "
                        "would never finish reading it: `crawler repair` recovers the changes before it"
                    )
        opened = self._families_to_open()
        self._check_address_space()
        with self._error(f"cannot open the store {self._path}"):
            return _Database(self._at, options, access, opened, budget)

    def _budget(self) -> StoreBudget:
        """The memory and files that this store may use."""
        return StoreBudget()

    def _check_address_space(self) -> None:
        """Raise StoreError if the address space is so small that RocksDB might abort the process."""
        space = address_space()
        if space is not None and space < _ADDRESS_SPACE:
            raise StoreError(
                errno.ENOMEM,
                f"cannot open the store {self._path}: it may need {_ADDRESS_SPACE:,} bytes of address space, and the "
                f"limit (ulimit -v) leaves {space:,}: raise it",
            )

    def _check_logs(self) -> None:
        fault = log_fault(self._path)
        if fault is not None and fault.behind and (fault.durable or self._broken is Broken.REFUSE):
            raise StoreDamagedError(
                f"cannot open the store {self._path}: damaged: {fault}: `crawler repair` recovers them; nothing was "
                "changed"
            )

    def _families_to_open(self) -> list[Family]:
        """Return the families to open: all, or for reading those that exist. Raises StoreError if files are missing.

        RocksDB would create them: a new database if CURRENT is missing, a new family if the MANIFEST is cut. It would
        then drop the data of the log and the tables. A store without data has nothing to lose, and lacks families if
        its creation was interrupted."""
        has_data = _has_data(self._at)
        reads = self._at is not self._path
        if not has_data and not ((self._optional or reads) and (self._at / "CURRENT").exists()):
            return [family for family in Family if family not in self.unused]
        what = f"cannot open the store {self._path}: damaged"
        if not (self._at / "CURRENT").exists():
            raise StoreDamagedError(f"{what}: it has data but no file CURRENT")
        with self._error(what):
            known = Rdict.list_cf(str(self._at), database_options())
        lost = [family for family in Family if family.value not in known]
        for family in lost:
            if has_data and family not in self._optional | self.unused:
                raise StoreDamagedError(f"{what}: its MANIFEST does not name the family {family.value!r}")
        made = frozenset[Family]() if reads else frozenset(lost) - self.unused
        return [family for family in Family if family not in lost or family in made]

    def _error(self, what: str) -> as_store_error:
        return as_store_error(what, (str(self._at), str(self._path)))

    def batch(self) -> Batch:
        return Batch()

    def write(self, batch: Batch) -> None:
        native = WriteBatch(raw_mode=True)
        put, delete, handles = native.put, native.delete, self._database.handles
        for family, key, value, end in batch.changes:
            if value is not None:
                put(key, value, handles[family])
            elif end is None:
                delete(key, handles[family])
            else:
                native.delete_range(key, end, handles[family])
        self._write(native)

    def _write(self, native: WriteBatch) -> None:
        with self._writes:
            if self._failure is not None:
                raise StoreError(*self._failure.args)  # RocksDB reports the cause only the first time
            try:
                with self._writing:
                    self._database.db.write(native)
            except StoreError as error:
                self._failure = error
                raise

    def get(self, family: Family, key: bytes) -> bytes | None:
        with self._reading:
            value: bytes | None = self._database.tables[family].get(key)
        return value

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._reading:
            found: Any = self._database.tables[family].get(list(keys))
        values: list[bytes | None] = found
        return values

    # A database is closed only when its last cursor is gone. So each cursor is local to a function that has returned
    # before the readers' lock is released.

    def scan(
        self, family: Family, start: bytes, end: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        with self._reading:
            return self._scan(family, start, end, limit)

    def _scan(self, family: Family, start: bytes, end: bytes | None, limit: int | None) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = []
        options = ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        cursor = self._database.tables[family].iter(options)
        cursor.seek(start)
        key, value, step = cursor.key, cursor.value, cursor.next
        while limit is None or len(rows) < limit:
            found = key()
            if found is None:
                cursor.status()
                break
            rows.append((found, value()))
            step()
        return rows

    def sync(self) -> None:
        with self._syncing:
            try:
                with self._error("cannot sync the store"):
                    last = self._database.db.latest_sequence_number()
                    self._database.db.flush_wal(True)
            except StoreError:
                with self._writes:
                    if self._failure is None or self._failure.errno not in FULL:
                        raise
                # RocksDB does not sync a log after a failed append; the changes written before are in the log.
                self._sync_logs()
            else:
                self._mark(last)

    def _sync_logs(self) -> None:
        for log in self._path.glob("*.log"):
            with contextlib.suppress(FileNotFoundError), log.open("rb") as file:  # replaced by tables, which are synced
                os.fsync(file.fileno())

    def _mark(self, sequence: int) -> None:
        """Write a mark to the log: all changes up to this sequence number are durable. Raises StoreError."""
        batch = WriteBatch(raw_mode=True)
        batch.put(MARK, mark(sequence), self._database.handles[Family.META])
        try:
            self._write(batch)
        except StoreError as error:
            # The disk is full: the next write will fail too, and wait for space.
            if error.errno not in FULL:
                raise

    def snapshot(self, path: str) -> None:
        with self._syncing, self._error("cannot copy the store"):
            # Flush first: creating the checkpoint would also flush, but block all other threads for a second or more.
            for table in self._database.tables.values():
                table.flush()
            Checkpoint(self._database.db).create_checkpoint(path)

    def reopen(self) -> None:
        """Open RocksDB again, because it refuses all writes after a failed one, and replay its log. Raises StoreError;
        the caller may then try again, and the store stays readable meanwhile."""
        with self._syncing, self._readers, self._writes:
            if self._failure is None:
                return
            self._check_room()
            # RocksDB cannot open a directory twice for writing, so close the old database first. After a failure it may
            # not close cleanly, but its log has all changes written.
            with contextlib.suppress(StoreError), self._error("cannot close the store"):
                self._database.close()
            try:
                self._database = self._open(AccessType.read_write())
                if self._exact:
                    self._database.expect_lookups()
            except StoreError:
                # The free space may have shrunk since the check: keep the store readable.
                self._database = self._open(AccessType.read_only())
                raise
            self._failure = None

    def expect_lookups(self, family: Family) -> None:
        """See ``Store``. Does nothing for families other than ``SEEN``, or if the store is open for reading."""
        if family is Family.SEEN and self._exact is False:
            self._exact = True
            with self._error("cannot set options of the store"):
                self._database.expect_lookups()

    def _check_room(self) -> None:
        """Check that the disk has the space that opening needs, by allocating it and freeing it again. Raises
        StoreError."""
        need = min(self._database.unflushed(), sum(log.stat().st_size for log in self._path.glob("*.log")))
        made: list[Path] = []
        try:
            for number in range(_REOPEN_FILES):
                made.append(self._path / f"room-{number}.part")
                with made[-1].open("wb") as file:
                    if number == 0 and hasattr(os, "posix_fallocate"):
                        os.posix_fallocate(file.fileno(), 0, need + _REOPEN_ROOM)
        except OSError as error:
            raise StoreError(error.errno, f"cannot open the store {self._path}: {error.strerror}") from error
        finally:
            for path in made:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the directory. If the disk is full, changes that cannot be written to a table stay in the log."""
        with self._syncing, self._readers:
            try:
                with self._error("cannot close the store"):
                    self._database.close()
            except StoreError as error:
                # After a failed write, the error that RocksDB raises here may lack the cause.
                cause = self._failure if error.errno is None and self._failure is not None else error
                if cause.errno not in FULL:
                    raise


class _NoRows:
    """Replaces a family that the store lacks: it is empty, and serves as its own cursor."""

    def get(self, key: bytes | list[bytes]) -> list[None] | None:
        return [None] * len(key) if isinstance(key, list) else None

    def iter(self, _: ReadOptions) -> _NoRows:
        return self

    def seek(self, _: bytes) -> None:
        """Do nothing: there are no rows."""

    def status(self) -> None:
        """Raise nothing: no read can fail."""

    next = flush = status

    def property_int_value(self, _: str) -> int:
        return 0

    def key(self) -> None:
        return None

    value = key


def is_made(path: Path) -> bool:
    """True if there is a database, or a part of one, at the path."""
    return (path / "CURRENT").exists() or _has_data(path)


def _has_data(path: Path) -> bool:
    data = [file for end in ("*.log", "*.sst") for file in path.glob(end)]
    return any(file.exists() and file.stat().st_size for file in data)


def _is_unmade(path: Path) -> bool:
    """True if there is no store at the path: nothing, or an empty directory."""
    return not os.path.lexists(path) or (path.is_dir() and not path.is_symlink() and not any(path.iterdir()))


def _changed(path: Path, links: Path) -> bool:
    """True if the files in the directory have changed since the links were created."""
    try:
        return set(data_files(path)) != {link.name for link in links.iterdir() if link.is_symlink()}
    except FileNotFoundError:
        return False


def database_options(stores: int = 1) -> Options:
    """Return RocksDB's options for the whole database. ``stores``: the number of stores that the process may have
    open."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_max_background_jobs(2)
    options.set_max_total_wal_size(max(_WAL_LEAST, _WAL_MAX // stores))
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(4 * 2**20)
    # Otherwise every start reads the properties of each table file, which takes seconds for a large frontier.
    options.set_skip_stats_update_on_db_open(True)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = None if limit == resource.RLIM_INFINITY else open_tables(limit, stores)
    if files is not None:
        options.set_max_open_files(files)
        options.set_max_background_jobs(1)
    return options


class RequestStore(RocksStore):
    """The store of a job for an external fetcher."""

    unused = ON_DEMAND - {Family.REQUESTS}


OF_PARTITIONS = frozenset({Family.OUTBOX, Family.INLET})


class PartitionStore(RocksStore):
    """The store of a partition of a crawl."""

    unused = ON_DEMAND - OF_PARTITIONS

    def __init__(
        self, path: Path, budget: StoreBudget | None = None, *, optional: frozenset[Family] = frozenset()
    ) -> None:
        """``budget`` is shared by all stores of the process; ``optional`` as in ``RocksStore``. Raises StoreError."""
        self._given = budget
        super().__init__(path, optional=optional)

    def _budget(self) -> StoreBudget:
        return self._given or super()._budget()


def _family_options(family: Family, budget: StoreBudget) -> Options:
    options = Options(raw_mode=True)
    if budget.arena is not None:
        options.set_arena_block_size(budget.arena)
    options.set_write_buffer_size(_MEMTABLES.get(family, _MEMTABLE))
    # Digests are random bytes, so compression saves nothing.
    random = family in _RANDOM_BYTES
    options.set_compression_type(DBCompressionType.none() if random else DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(budget.seen_cache if family is Family.SEEN else budget.cache)
    table.set_block_size((4 if family in _BY_KEY else 16) * 1024)
    # Partition the index into parts of 4 KB. The whole index of a 64 MB table is nearly as large as a shard of the
    # cache: it would evict everything else and be evicted itself, and reloading it for a few rows takes ten times as
    # long as reading the rows.
    table.set_cache_index_and_filter_blocks(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    if family in _BY_KEY:
        table.set_bloom_filter(10, False)
    if family is Family.SEEN:
        _look_up_by_point(options, table)
    options.set_block_based_table_factory(table)
    return options


def _look_up_by_point(options: Options, table: BlockBasedOptions) -> None:
    """Set options for looking up single keys among a billion rows: filters for whole keys."""
    table.set_bloom_filter(10, False)
    table.set_block_size(4096)


_LOCK = "LOCK"


def copy_closed(path: Path, to: Path) -> None:
    """Create the directory ``to``, on the same file system, with the files of the database at ``path``, if there is
    one.

    Nothing is made durable. Raises OSError."""
    make_private_directory(to)
    for source in path.iterdir() if path.is_dir() else ():
        # Tables are never changed in place, so a hard link is enough.
        if source.suffix == ".sst":
            os.link(source, to / source.name)
        elif source.is_file() and source.name != _LOCK:
            shutil.copyfile(source, to / source.name)


def data_files(path: Path) -> list[str]:
    """Return the names of a database's own files, which start with a capital or a digit. Raises FileNotFoundError."""
    return sorted(name for name in os.listdir(path) if name != _LOCK and (name[0].isupper() or name[0].isdecimal()))


def link_files(path: Path, links: Path) -> None:
    """Create the directory ``links`` with a link to each file of the database at ``path``, if there is one."""
    make_private_directory(links, parents=True)
    if path.is_dir():
        for name in data_files(path):
            (links / name).symlink_to(path.absolute() / name)

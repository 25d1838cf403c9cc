"""Salvages the readable rows of a store that RocksDB cannot open, or cannot read to the end.

The damaged directory is never written. The first of these steps that succeeds makes a copy of it open:

1. rewrite its logs from their whole batches, including those after the damage,
2. point ``CURRENT`` at the newest MANIFEST,
3. if there are table files: run RocksDB's own repair, which builds a MANIFEST from their properties,
4. if all data is still in the log: put the log beside an empty store whose families have the same numbers.

Then every readable row is copied into a new store. After a damaged block, reading resumes at the next readable key,
which is found by doubling steps and a bisection. So a bad block costs only the rows in it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from rocksdict import Options, Rdict

from crawler.base.disk import make_private_directory
from crawler.base.kv import ON_DEMAND, Family, Store
from crawler.job.store.closed_copy import copy_closed
from crawler.job.store.rocks import (
    Broken,
    PartitionStore,
    RocksStore,
    StoreError,
    as_store_error,
    database_options,
    families_in,
)
from crawler.job.store.wal import MARK, logs_of, rewrite_log

_ROWS = 2_048  # read at once while there is no error
_WIDTH = 64  # bytes of a key that count in the search for the end of a hole
_NAMED = 8  # offsets listed for a damaged log
_TEMPLATE_LOG = 1_000_000  # number of the first log beside an empty store: above its own numbers


def salvage(damaged: Path, scratch: Path, target: Path) -> list[str]:
    """Copy the readable rows of the store ``damaged`` into a new store ``target``. ``scratch`` is a directory on the
    same file system for the copy. An existing ``scratch`` or ``target`` is removed first.

    Returns lines that say what was done and what could not be read. Raises StoreError when every step failed, OSError
    when the disk is full."""
    refusals: list[str] = []
    for name, way in (_PLAIN, _CURRENT, _tables_or_log(damaged)):
        _remove(scratch)
        _remove(target)
        copy_closed(damaged, scratch)
        try:
            passed = _whole_logs(scratch)
            way(scratch)
            lost = frozenset(Family if way is _rebuild_manifest else ())
            source = RocksStore(scratch, optional=lost, broken=Broken.SKIP)
        except StoreError as error:
            if error.errno is not None:
                raise  # the disk is full or failed: that is not damage of the store
            refusals.append(f"{name}: {error}")
            continue
        try:
            missing = _copy_rows(source, target)
        finally:
            source.close()
        _remove(scratch)
        return [f"read through {name}", *passed, *missing]
    _remove(scratch)
    raise StoreError("; ".join(refusals))


def readable(store: Store) -> bool:
    """Whether every row of every family can be read."""
    return next(holes(store), None) is None


def holes(store: Store) -> Iterator[str]:
    """The ranges of rows that cannot be read, family by family, each with RocksDB's error."""
    for family in Family:
        found: list[str] = []
        for _ in _pieces(store, family, found):
            """Readable rows are intact."""
        yield from found


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


# -- steps -----------------------------------------------------------------------------------------------------


def _whole_logs(store: Path) -> list[str]:
    """Rewrite the damaged logs. Returns a line for each."""
    said = []
    for log in logs_of(store):
        part = log.with_name(f"{log.name}.part")
        damage = rewrite_log(log, part)
        if damage:
            os.replace(part, log)
            places = ", ".join(str(each.offset) for each in damage[:_NAMED]) + ", ..." * (len(damage) > _NAMED)
            said.append(f"{log.name} was damaged at offset {places}: the whole batches before and after were read")
        else:
            part.unlink()
    return said


def _as_it_is(store: Path) -> None:
    """Nothing to do: the logs are rewritten already."""


def _point_current(store: Path) -> None:
    manifests = sorted(store.glob("MANIFEST-*"))
    if not manifests:
        raise StoreError("there is no MANIFEST")
    (store / "CURRENT").write_text(f"{manifests[-1].name}\n", "ascii")


def _rebuild_manifest(store: Path) -> None:
    with as_store_error("RocksDB's repair failed"):
        Rdict.repair(str(store), database_options())


def _replay_on_empty(store: Path) -> None:
    """Replay the logs on an empty store with the same family numbers. RocksDB numbers families in order of creation,
    which is the order of the sections in its OPTIONS file. Raises StoreError."""
    logs = [path for path in logs_of(store) if path.stat().st_size]
    options = sorted(store.glob("OPTIONS-*"))
    families = families_in(options[-1]) if options else []
    known = {"default", *(family.value for family in Family)}
    if not logs or known - set(families) - {family.value for family in ON_DEMAND} or set(families) - known:
        raise StoreError("there is no log, or no OPTIONS file that names its families")
    beside = store.with_name(f"{store.name}.logs")
    _remove(beside)
    make_private_directory(beside)
    for log in logs:
        os.replace(log, beside / log.name)
    shutil.rmtree(store)
    with as_store_error("cannot make an empty store"):
        empty = Rdict(str(store), database_options())
        for family in families[1:]:
            empty.create_column_family(family, Options(raw_mode=True))
        empty.close()
    for number, log in enumerate(logs, _TEMPLATE_LOG):
        os.replace(beside / log.name, store / f"{number}.log")
    beside.rmdir()


Way = tuple[str, Callable[[Path], None]]
_PLAIN: Way = ("a copy with whole logs", _as_it_is)
_CURRENT: Way = ("the newest MANIFEST", _point_current)


def _tables_or_log(damaged: Path) -> Way:
    if any(damaged.glob("*.sst")):
        return "a MANIFEST rebuilt from the table files", _rebuild_manifest
    return "the log only", _replay_on_empty


# -- rows ------------------------------------------------------------------------------------------------------


def _copy_rows(source: RocksStore, target: Path) -> list[str]:
    missing: list[str] = []
    copy = (PartitionStore if Family.OUTBOX in source.families else RocksStore)(target)
    try:
        for family in Family:
            for piece in _pieces(source, family, missing):
                batch = copy.batch()
                for key, value in piece:
                    # Marks refer to the sequence numbers of their own store.
                    if (family, key) != (Family.META, MARK):
                        batch.put(family, key, value)
                copy.write(batch)
        copy.sync()
    finally:
        copy.close()
    return missing


def _pieces(source: Store, family: Family, holes: list[str]) -> Iterator[list[tuple[bytes, bytes]]]:
    start, limit = b"", _ROWS
    while True:
        try:
            rows = source.scan(family, start, None, limit)
        except StoreError as error:
            if limit > 1:
                limit //= 16 if limit >= 16 else limit
                limit = max(limit, 1)
                continue
            behind = _behind_hole(source, family, start)
            last = behind.rstrip(b"\0")
            holes.append(f"{family}: rows from {start!r} up to {last!r} cannot be read: {error}")
            start, limit = behind, _ROWS
            continue
        if not rows:
            return
        yield rows
        start = rows[-1][0] + b"\0"


def _behind_hole(source: Store, family: Family, start: bytes) -> bytes:
    """A key above ``start`` from which reading works again; it may be above all keys."""

    def answers(number: int) -> bool:
        try:
            source.scan(family, number.to_bytes(_WIDTH, "big"), None, 1)
        except StoreError:
            return False
        return True

    bad = int.from_bytes(start[:_WIDTH].ljust(_WIDTH, b"\0"), "big")
    most: int = 256**_WIDTH - 1
    step = 1
    while bad + step < most and not answers(bad + step):
        bad, step = bad + step, step * 2
    good = min(bad + step, most)
    while good - bad > 1:
        middle = (good + bad) // 2
        if answers(middle):
            good = middle
        else:
            bad = middle
    return good.to_bytes(_WIDTH, "big")

"""Opens a copy of a damaged store of which every row can be read, if there is a way. The store itself is not changed.

Its logs are mended first. If changes were durable behind the damage, only the damaged ones are left out; otherwise the
logs end there, as after a power loss. Then the first of these ways that succeeds is taken:

1. open the copy as it is,
2. point ``CURRENT`` at the newest MANIFEST,
3. have RocksDB repair it: a MANIFEST is made of the tables that can be read, the others are left out.

RocksDB finds the families of a store in its tables. What only the logs hold of a family without any is lost in the
third way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from rocksdict import Rdict

from crawler.base.disk import make_private_directory
from crawler.base.kv import Family, Reader
from crawler.job.store.closed_copy import copy_closed
from crawler.job.store.rocks import OF_PARTITIONS, Broken, RocksStore, StoreError, as_store_error, database_options
from crawler.job.store.wal import log_fault, logs_of, rewrite_log


class ReadableCopy(Struct, frozen=True):
    """The copy, open. ``whole``: it lacks no row that was durable. ``error``: why it was not opened as it was."""

    store: RocksStore
    whole: bool
    error: str | None


def open_copy(damaged: Path, scratch: Path) -> ReadableCopy:
    """``scratch`` is a path on the same file system where nothing is; what is there after a failure may be removed.

    Raises StoreError: with ``errno`` if the disk failed, otherwise when no way succeeded."""
    fault = log_fault(damaged)
    was_durable = fault is not None and fault.durable
    broken = Broken.SKIP if was_durable else Broken.PREFIX
    error: StoreError | None = None
    make_private_directory(scratch)
    for number, way in enumerate((_as_it_is, _point_current, _repair)):
        at = scratch / str(number)
        copy_closed(damaged, at)
        try:
            _mend_logs(at, was_durable=was_durable)
            way(at)
            store = RocksStore(at, optional=frozenset(Family) if way is _repair else OF_PARTITIONS, broken=broken)
            hole = next(holes(store), None)
            if hole is None:
                return ReadableCopy(
                    store, way is not _repair and not was_durable, None if error is None else str(error)
                )
            store.close()
            error = error or StoreError(hole)
        except StoreError as wrong:
            if wrong.errno is not None:
                raise  # the disk is full or failed: that is not damage of the store
            error = error or wrong
    assert error is not None
    raise error


def holes(store: Reader) -> Iterator[str]:
    """The first row of each family that cannot be read, with RocksDB's error."""
    for family in Family:
        last = b""
        try:
            for row in store.rows(family):
                last = row[0]
        except StoreError as error:
            yield f"{family}: rows from {last!r} on cannot be read: {error}"


def _mend_logs(store: Path, *, was_durable: bool) -> None:
    if was_durable:
        for log in logs_of(store):
            part = log.with_suffix(".part")
            rewrite_log(log, part)
            os.replace(part, log)
        return
    while (fault := log_fault(store)) is not None:
        os.truncate(store / fault.log, fault.offset)


def _as_it_is(store: Path) -> None:
    """Do nothing."""


def _point_current(store: Path) -> None:
    manifests = sorted(store.glob("MANIFEST-*"))
    if manifests:
        (store / "CURRENT").write_text(f"{manifests[-1].name}\n", "ascii")


def _repair(store: Path) -> None:
    with as_store_error("RocksDB's repair failed"):
        Rdict.repair(str(store), database_options())

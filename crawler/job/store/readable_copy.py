"""Opens a readable copy of a damaged store, if that is possible. The store itself is not changed.

The logs are repaired first. If changes after the damage were durable, only the damaged ones are left out; otherwise the
logs are cut at the damage, as after a power loss. Then these methods are tried in turn, until all rows can be read:

1. open the copy unchanged,
2. point ``CURRENT`` at the newest MANIFEST,
3. have RocksDB repair it: it builds a MANIFEST from the readable tables, and leaves the others out.

In the third method RocksDB finds the families of a store only through its tables, so it loses the logged changes of any
family without tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from rocksdict import Rdict

from crawler.base.disk import make_private_directory
from crawler.base.kv import Family, Reader
from crawler.job.store.rocks import (
    OF_PARTITIONS,
    Broken,
    RocksStore,
    StoreError,
    as_store_error,
    copy_closed,
    database_options,
)
from crawler.job.store.wal import log_fault, logs_of, rewrite_log


class ReadableCopy(Struct, frozen=True):
    """The opened copy. ``whole``: no durable row is missing. ``error``: why it could not be opened unchanged."""

    store: RocksStore
    whole: bool
    error: str | None


def open_copy(damaged: Path, scratch: Path) -> ReadableCopy:
    """Open a copy of ``damaged``. ``scratch`` is an unused path on the same file system, which the caller may remove
    after a failure. Raises StoreError if no method succeeded or, with ``errno``, if the disk failed."""
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
                raise  # the disk is full or failed, which is not damage of the store
            error = error or wrong
    assert error is not None
    raise error


def holes(store: Reader) -> Iterator[str]:
    """Yield a message for each family with unreadable rows, which states where reading failed, and RocksDB's error."""
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

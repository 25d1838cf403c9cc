"""What can still be read of a store that RocksDB does not open, or cannot read to the end.

The damaged directory is never written. A copy of it is made to open, by the first of these that helps:

1. its logs rewritten from the batches in them that are whole, also from behind the damage,
2. ``CURRENT`` pointed at the newest MANIFEST,
3. where there are table files: RocksDB's own repair, which makes a MANIFEST from what they say of themselves,
4. where everything is still in the log: the log put beside an empty store whose families have the same numbers.

Then every row that can be read is put into a new store. Around a damaged block reading starts again at the next key
that answers, found by steps that double and a bisection, so one bad block costs the rows in it and not those behind.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from rocksdict import Options, Rdict

from crawler.kv import Family, Store
from crawler.store.rocks import Broken, RocksStore, StoreError, as_store_error, database_options
from crawler.store.wal import MARK, logs_of, rewrite_log

_ROWS = 2_048  # read at once while all is well
_WIDTH = 64  # bytes of a key that count when a hole is stepped over
_FAMILY_SECTION = re.compile(r'^\[CFOptions "([^"]+)"\]', re.MULTILINE)
_NAMED = 8  # offsets of a damaged log
_OPTIONS_MOST = 2**20  # bytes of RocksDB's OPTIONS file, which has some thousands a family
_TEMPLATE_LOG = 1_000_000  # number of the first log beside an empty store: above all that it has itself


def salvage(damaged: Path, scratch: Path, target: Path) -> list[str]:
    """Put what can be read of the store ``damaged`` into a new store ``target``. ``scratch`` is a directory of the
    same file system for the copy; both are removed first if they are there.

    Returns what had to be done and what could not be read, a line each. Raises StoreError when no way led in, OSError
    when there is no room."""
    refusals: list[str] = []
    for name, way in (_PLAIN, _CURRENT, _tables_or_log(damaged)):
        _remove(scratch)
        _remove(target)
        _copy(damaged, scratch)
        try:
            passed = _whole_logs(scratch)
            way(scratch)
            source = RocksStore(scratch, partial=way is _rebuild_manifest, broken=Broken.SKIP)
        except StoreError as error:
            if error.errno is not None:
                raise  # a disk that is full or fails says nothing of the store
            refusals.append(f"{name}: {error}")
            continue
        try:
            missing = _copy_rows(source, target)
        finally:
            source.close()
        _remove(scratch)
        return [f"{name} let it be read", *passed, *missing]
    _remove(scratch)
    raise StoreError("; ".join(refusals))


def readable(store: Store) -> bool:
    """Whether every row of every family can be read."""
    return next(holes(store), None) is None


def holes(store: Store) -> Iterator[str]:
    """The rows that cannot be read, family by family, and what RocksDB says of them."""
    for family in Family:
        found: list[str] = []
        for _ in _pieces(store, family, found):
            """What can be read is whole."""
        yield from found


def _copy(damaged: Path, to: Path) -> None:
    to.mkdir()
    for path in damaged.iterdir():
        # Tables are never changed in place: a second name is enough.
        if path.suffix == ".sst":
            os.link(path, to / path.name)
        elif path.is_file() and path.name != "LOCK":
            shutil.copyfile(path, to / path.name)


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


# -- ways in ---------------------------------------------------------------------------------------------------


def _whole_logs(store: Path) -> list[str]:
    """Rewrite the logs where they are damaged; says where."""
    said = []
    for log in logs_of(store):
        part = log.with_name(f"{log.name}.part")
        damage = rewrite_log(log, part)
        if damage:
            os.replace(part, log)
            places = ", ".join(str(each.offset) for each in damage[:_NAMED]) + ", ..." * (len(damage) > _NAMED)
            said.append(f"{log.name} was damaged at offset {places}: the whole batches before and behind were read")
        else:
            part.unlink()
    return said


def _as_it_is(store: Path) -> None:
    """Nothing is left to do."""


def _point_current(store: Path) -> None:
    manifests = sorted(store.glob("MANIFEST-*"))
    if not manifests:
        raise StoreError("there is no MANIFEST")
    (store / "CURRENT").write_text(f"{manifests[-1].name}\n", "ascii")


def _rebuild_manifest(store: Path) -> None:
    with as_store_error("RocksDB's repair failed"):
        Rdict.repair(str(store), database_options())


def _replay_on_empty(store: Path) -> None:
    """Family numbers are given in the order of creation, which is the order of the sections in RocksDB's OPTIONS."""
    logs = [path for path in logs_of(store) if path.stat().st_size]
    options = sorted(store.glob("OPTIONS-*"))
    families = _families(options[-1]) if options else []
    if not logs or set(families) != {"default", *(family.value for family in Family)}:
        raise StoreError("there is no log, or no OPTIONS file that names its families")
    beside = store.with_name(f"{store.name}.logs")
    _remove(beside)
    beside.mkdir()
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


def _families(options: Path) -> list[str]:
    with open(options, "rb") as stream:
        return _FAMILY_SECTION.findall(stream.read(_OPTIONS_MOST).decode("utf-8", "replace"))


Way = tuple[str, Callable[[Path], None]]
_PLAIN: Way = ("a copy with whole logs", _as_it_is)
_CURRENT: Way = ("the newest MANIFEST", _point_current)


def _tables_or_log(damaged: Path) -> Way:
    if any(damaged.glob("*.sst")):
        return "a MANIFEST made anew from the table files", _rebuild_manifest
    return "the log alone", _replay_on_empty


# -- rows ------------------------------------------------------------------------------------------------------


def _copy_rows(source: RocksStore, target: Path) -> list[str]:
    missing: list[str] = []
    copy = RocksStore(target)
    try:
        for family in Family:
            for piece in _pieces(source, family, missing):
                batch = copy.batch()
                for key, value in piece:
                    # Marks count the changes of the store that they are written to.
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
    """A key above ``start`` from which reading works again; perhaps above all that there are."""

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

"""The old answers to "was this URL seen before?", and the seen-sets of this program, behind one small interface.

sqlite, rocksdb    a database: a table, a tree of files with the URLs themselves as keys
set of str         the URLs in memory
set of md5, sha1   their digests in memory
the rest           the kinds of ``crawler.seen.filters``, and their layouts
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, cast

from rocksdict import Options, Rdict, WriteBatch

from crawler.base.settings.parts import SeenSettings
from crawler.job.store.rocks import RocksStore
from crawler.seen.exact.seen import load_seen as load_exact
from crawler.seen.exact.seen import make_seen as make_exact
from crawler.seen.filters import (
    KINDS,
    BloomFilter,
    Filter,
    KeyHash,
    SeenSet,
    make_seen,
    read_seen,
    read_segment,
    write_seen,
    write_segment,
)
from crawler.seen.slices.layouts import BLOOM_LAYOUTS

FPP = 0.001
BITMAP_BITS = 16  # a key: the space of a Bloom filter, spent on one hash
_GROWTH_ROOM = 10  # a growing kind starts with a tenth of the keys, as a crawl of unknown size does


class Membership(Protocol):
    """URLs that were seen. It keeps what it must in its file or directory ``path``."""

    def add(self, urls: Sequence[str]) -> int:
        """Add the URLs, all of which differ; how many were new?"""
        ...

    def count(self, urls: Sequence[str]) -> int:
        """How many of them were seen?"""
        ...

    def memory(self) -> int:
        """Bytes of memory that grow with the URLs."""
        ...

    def close(self) -> None:
        """Leave all on disk."""
        ...


@dataclass(frozen=True, slots=True)
class Rival:
    """``begin`` makes an empty one at a path, for so many URLs; ``reopen`` the one that was closed there."""

    name: str
    begin: Callable[[Path, int], Membership]
    reopen: Callable[[Path], Membership]


class Sqlite:
    """A table whose primary key is the URL; one transaction a batch, write-ahead log."""

    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self._base = sqlite3.connect(path / "seen.sqlite", isolation_level=None)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=NORMAL")
        self._base.execute("CREATE TABLE IF NOT EXISTS seen (url TEXT PRIMARY KEY) WITHOUT ROWID")

    def add(self, urls: Sequence[str]) -> int:
        before = self._base.total_changes
        self._base.execute("BEGIN")
        self._base.executemany("INSERT OR IGNORE INTO seen VALUES (?)", [(url,) for url in urls])
        self._base.execute("COMMIT")
        return self._base.total_changes - before

    def count(self, urls: Sequence[str]) -> int:
        marks = ",".join("?" * len(urls))
        row: tuple[int] = self._base.execute(f"SELECT count(*) FROM seen WHERE url IN ({marks})", urls).fetchone()
        return row[0]

    def memory(self) -> int:
        return 0

    def close(self) -> None:
        self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._base.close()


class Rocks:
    """RocksDB with URLs as keys and nothing as values; one WriteBatch a batch."""

    def __init__(self, path: Path) -> None:
        self._base = Rdict(str(path), Options(raw_mode=True))

    def add(self, urls: Sequence[str]) -> int:
        keys = [url.encode() for url in urls]
        new = [key for key, value in zip(keys, self._values(keys), strict=True) if value is None]
        batch = WriteBatch(raw_mode=True)
        for key in new:
            batch.put(key, b"")
        self._base.write(batch)
        return len(new)

    def count(self, urls: Sequence[str]) -> int:
        return sum(value is not None for value in self._values([url.encode() for url in urls]))

    def _values(self, keys: list[bytes]) -> list[bytes | None]:
        # rocksdict's stub has neither lists of one type nor what a list of keys gives back.
        return cast("list[bytes | None]", self._base.get(cast("Any", keys)))

    def memory(self) -> int:
        return 0

    def close(self) -> None:
        self._base.flush()
        self._base.close()


class StringSet:
    """A set of the URLs; a file of lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: set[str] = set()

    @classmethod
    def reopen(cls, path: Path) -> Self:
        made = cls(path)
        made._seen = set(path.read_text("utf-8").splitlines())
        return made

    def add(self, urls: Sequence[str]) -> int:
        before = len(self._seen)
        self._seen.update(urls)
        return len(self._seen) - before

    def count(self, urls: Sequence[str]) -> int:
        return sum(url in self._seen for url in urls)

    def memory(self) -> int:
        return sys.getsizeof(self._seen) + sum(map(sys.getsizeof, self._seen))

    def close(self) -> None:
        self._path.write_text("".join(f"{url}\n" for url in self._seen), "utf-8")


class HashSet:
    """A set of cryptographic digests; a file of them, one after the other."""

    def __init__(self, path: Path, algorithm: str) -> None:
        self._path = path
        self._hash = getattr(hashlib, algorithm)
        self._seen: set[bytes] = set()

    @classmethod
    def reopen(cls, path: Path, algorithm: str) -> Self:
        made = cls(path, algorithm)
        size, stored = made._hash().digest_size, path.read_bytes()
        made._seen = {stored[start : start + size] for start in range(0, len(stored), size)}
        return made

    def add(self, urls: Sequence[str]) -> int:
        before = len(self._seen)
        self._seen.update([self._hash(url.encode()).digest() for url in urls])
        return len(self._seen) - before

    def count(self, urls: Sequence[str]) -> int:
        return sum(self._hash(url.encode()).digest() in self._seen for url in urls)

    def memory(self) -> int:
        return sys.getsizeof(self._seen) + sum(map(sys.getsizeof, self._seen))

    def close(self) -> None:
        self._path.write_bytes(b"".join(self._seen))


class Kind:
    """A seen-set of this program; its own file."""

    def __init__(self, path: Path, seen: Filter) -> None:
        self._path = path
        self._seen = seen

    @classmethod
    def reopen(cls, path: Path) -> Self:
        with path.open("rb") as stored:
            return cls(path, read_seen(stored, limit=path.stat().st_size))

    def add(self, urls: Sequence[str]) -> int:
        return len(self._seen.add_many(urls))

    def count(self, urls: Sequence[str]) -> int:
        return sum(self._seen.contains_many(urls))

    def memory(self) -> int:
        return self._seen.statistics()["bytes"]

    def close(self) -> None:
        with self._path.open("wb") as out:
            write_seen(out, self._seen)


class Exact:
    """The exact seen-set: its rows in a store, the filter in front of them in a file beside it."""

    def __init__(self, path: Path, store: RocksStore, seen: SeenSet) -> None:
        self._path = path
        self._store = store
        self._seen = seen

    @classmethod
    def begin(cls, path: Path, urls: int) -> Self:
        path.mkdir()
        store = RocksStore(path / "rows")
        settings = SeenSettings(kind="exact", fpp=FPP, capacity=_first(urls))
        return cls(path, store, make_exact(settings, store, KeyHash.new()))

    @classmethod
    def reopen(cls, path: Path) -> Self:
        store, front = RocksStore(path / "rows"), path / "front"
        limit = front.stat().st_size
        with front.open("rb") as stored:
            head, _ = read_segment(stored, limit=0)
            names = cast("list[str]", head["segments"])
            segments = {name: read_segment(stored, limit=limit)[1] for name in names}
        return cls(path, store, load_exact(cast("dict[str, Any]", head["state"]), segments, store))

    def add(self, urls: Sequence[str]) -> int:
        return len(self._seen.add_many(urls))

    def count(self, urls: Sequence[str]) -> int:
        return sum(self._seen.contains_many(urls))

    def memory(self) -> int:
        return self._seen.statistics()["bytes"]

    def close(self) -> None:
        shot = self._seen.snapshot()
        names: list[Any] = [part.name for part in shot.segments]
        with (self._path / "front").open("wb") as out:
            write_segment(out, {"state": shot.state, "segments": names}, memoryview(b""))
            for part in shot.segments:
                write_segment(out, part.header, part.buffer)
        self._store.close()


def _first(urls: int) -> int:
    """Keys in the first slice of a kind that grows."""
    return max(1, urls // _GROWTH_ROOM)


def _hash_set(algorithm: str) -> Rival:
    return Rival(
        f"set of {algorithm}",
        lambda path, _: HashSet(path, algorithm),
        lambda path: HashSet.reopen(path, algorithm),
    )


def _seen(name: str, make: Callable[[int], Filter]) -> Rival:
    return Rival(name, lambda path, urls: Kind(path, make(urls)), Kind.reopen)


def _of_kind(kind: str) -> Rival:
    def make(urls: int) -> Filter:
        seen = make_seen(SeenSettings(kind=kind, fpp=FPP, capacity=urls))
        if "growth" in seen.parameters():
            return make_seen(SeenSettings(kind=kind, fpp=FPP, capacity=_first(urls)))
        return seen

    return _seen(kind, make)


def _of_layout(layout: str) -> Rival:
    return _seen(f"bloom, {layout}", lambda urls: BloomFilter(urls, FPP, layout=layout))


def rivals() -> list[Rival]:
    """The old answers, then every kind, then what else there is of the Bloom filter."""
    old = [
        Rival("sqlite", lambda path, _: Sqlite(path), Sqlite),
        Rival("rocksdb", lambda path, _: Rocks(path), Rocks),
        Rival("set of str", lambda path, _: StringSet(path), StringSet.reopen),
        _hash_set("md5"),
        _hash_set("sha1"),
        _seen(
            f"bitmap, {BITMAP_BITS} bits a key",
            lambda urls: BloomFilter.with_geometry(urls * BITMAP_BITS, 1, urls),
        ),
    ]
    usual = BloomFilter(1).layout
    layouts = [_of_layout(layout) for layout in BLOOM_LAYOUTS if layout != usual]
    exact = Rival("exact", Exact.begin, Exact.reopen)
    return [*old, exact, *map(_of_kind, KINDS), *layouts]

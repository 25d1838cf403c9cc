"""The contract of an ordered store: a map in families, and batches that are written whole or not at all.

The interface is small on purpose: whatever keeps bytes in key order and writes a batch atomically can implement it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

PAGE = 2_048  # rows that `Reader.pages` reads at a time

Row = tuple[bytes, bytes]  # key, value


class Family(StrEnum):
    """The families of keys; each is ordered by itself."""

    PENDING = "pending"  # host NUL slot -> entry
    HOSTS = "hosts"  # host -> host record
    ROBOTS = "robots"  # host -> robots record
    ADMITTED = "admitted"  # journal sequence -> digests of the keys admitted in one step
    DONE = "done"  # journal sequence -> a finished URL and where its record ends in the output
    PAGES = "pages"  # href -> what is known of a page that is visited again
    DUE = "due"  # time, href -> nothing; such pages by the time of their next visit
    META = "meta"  # name -> counters, scope entries
    TRAPS = "traps"  # kind, digest of what is counted -> how many; which traps are closed
    CONTENT = "content"  # host, mark of a page's content -> URL of the first page that had it
    SEEN = "seen"  # host hash, key digest -> nothing; only where the seen-set is exact or has a ledger
    LEDGER = "ledger"  # host hash, key digest -> entry; URLs that the seen-set calls seen, until that is confirmed


class Batch:
    """Changes that become visible and durable together, in the order in which they were asked for.

    A plain list: a batch that could not be written, for want of space, is written again later, to a store that was
    opened anew meanwhile. Each change is (family, key, value, end): a value to put, or no value and no end for one key
    to delete, or no value and the end of a range to delete."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes: list[tuple[Family, bytes, bytes | None, bytes | None]] = []

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        self.changes.append((family, key, value, None))

    def delete(self, family: Family, key: bytes) -> None:
        self.changes.append((family, key, None, None))

    def delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        """Delete all keys from ``start`` up to and without ``end``."""
        self.changes.append((family, start, None, end))


class Reader(Protocol):
    """The reading half."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The same for several keys; sorted ones are the cheapest."""

    def holds_prefix(self, family: Family, prefix: bytes) -> bool:
        """Does any key begin with ``prefix``? In the family ``SEEN`` prefixes of 8 bytes have filters of their own."""

    def scan(self, family: Family, start: bytes, end: bytes | None = None, limit: int | None = None) -> list[Row]:
        """(key, value) in key order from ``start`` up to and without ``end``, at most ``limit`` of them."""

    def pages(
        self, family: Family, start: bytes = b"", end: bytes | None = None, size: int = PAGE
    ) -> Iterator[list[Row]]:
        """All rows from ``start`` up to and without ``end``, in lists of at most ``size``; none of them is empty.

        Memory is bounded by one list. Rows that are written or deleted between two lists are met as they are then."""
        while rows := self.scan(family, start, end, size):
            yield rows
            start = rows[-1][0] + b"\0"

    def rows(self, family: Family, start: bytes = b"", end: bytes | None = None) -> Iterator[Row]:
        """The same one by one."""
        for rows in self.pages(family, start, end):
            yield from rows


class Store(Reader, Protocol):
    """The whole interface. ``write`` hands every change to the operating system before it returns, ``sync`` makes
    all that was written before it durable. Both raise OSError when the disk fails; the store then takes no more until
    ``reopen`` succeeds, which loses nothing that was written."""

    def batch(self) -> Batch: ...

    def write(self, batch: Batch) -> None: ...

    def sync(self) -> None: ...

    def reopen(self) -> None: ...

    def close(self) -> None: ...

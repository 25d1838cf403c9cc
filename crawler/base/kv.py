"""The contract of an ordered store: a map divided into families, and batches that are written atomically.

The interface is deliberately small: any store that keeps bytes in key order and writes a batch atomically can implement
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec.msgpack

PAGE = 2_048  # number of rows that `Reader.pages` reads at a time

Row = tuple[bytes, bytes]  # key, value


class Family(StrEnum):
    """The families of keys; each has its own order."""

    PENDING = "pending"  # host NUL slot -> entry
    HOSTS = "hosts"  # host -> host record
    ROBOTS = "robots"  # host -> robots record
    ADMITTED = "admitted"  # journal sequence -> digests of the keys that a transaction admitted
    DONE = "done"  # journal sequence -> a finished URL and the end of its record in the output
    PAGES = "pages"  # href -> state of a page that is visited again
    DUE = "due"  # time of the next visit, href -> nothing; for those pages in PAGES that will be visited again
    META = "meta"  # name -> counters, scope entries
    TRAPS = "traps"  # kind, digest of the subject -> count; closed traps
    CONTENT = "content"  # host, fingerprint of a page's content -> URL of the first page with it
    SEEN = "seen"  # host hash, key digest -> nothing; only if the seen-set is exact or has a ledger
    LEDGER = "ledger"  # host hash, key digest -> entry; URLs that the seen-set reports as seen, until it is checked
    LEFT_OUT = "left_out"  # rule or nothing, NUL href -> URLs and links left out by a limit, until it is lifted
    SOFT404 = "soft404"  # host NUL fingerprint of a page -> whether the host sends it for paths that do not exist

    ASIDES = "asides"  # journal sequence -> output other than finished URLs, and its position
    PAYLOADS = "payloads"  # digest of archived content -> journal sequence, and the capture that contains it
    REQUESTS = "requests"  # name of a request made by another fetcher -> the request, as that fetcher wrote it
    OUTBOX = "outbox"  # another partition, number -> a message for it, until it is durable there
    INLET = "inlet"  # another partition -> the last batch from it that was admitted


# Only jobs that need these families have them, because each family makes opening a store slower.
ON_DEMAND = frozenset({Family.REQUESTS, Family.OUTBOX, Family.INLET})

Change = tuple[Family, bytes, bytes | None, bytes | None]  # family, key, value, end of the range
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Change]).decode


class BatchError(ValueError):
    """Raised when bytes are not an encoded batch."""


class Batch:
    """Changes that become visible and durable together, applied in order.

    ``changes`` is a plain list, so that a batch that failed on a full disk can be written again to a reopened store.
    Each change is (family, key, value, end): with a value it puts the key; without value and end it deletes the key;
    without value it deletes the range from the key up to and excluding ``end``.
    """

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        self.changes.append((family, key, value, None))

    def delete(self, family: Family, key: bytes) -> None:
        self.changes.append((family, key, None, None))

    def delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        """Delete all keys from ``start`` up to and excluding ``end``."""
        self.changes.append((family, start, None, end))

    def encode(self) -> bytes:
        """Return the batch as bytes (docs/internals/format-steps.md)."""
        return _encode(self.changes)

    @classmethod
    def decode(cls, data: bytes) -> Batch:
        """Inverse of ``encode``. Raises BatchError."""
        batch = cls()
        try:
            batch.changes = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BatchError(f"not a batch: {error}") from error
        return batch


class Reader(Protocol):
    """The reading half of a store. All methods may raise OSError."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Get several keys; fastest when they are sorted."""

    def scan(self, family: Family, start: bytes, end: bytes | None = None, limit: int | None = None) -> list[Row]:
        """Return at most ``limit`` (key, value) pairs in key order, from ``start`` up to and excluding ``end``."""

    def pages(
        self, family: Family, start: bytes = b"", end: bytes | None = None, size: int = PAGE
    ) -> Iterator[list[Row]]:
        """Yield all rows from ``start`` up to and excluding ``end``, in non-empty lists of at most ``size``.

        Memory is bounded by one list. Changes that are written between two lists are visible in the later list.
        """
        while rows := self.scan(family, start, end, size):
            yield rows
            start = rows[-1][0] + b"\0"

    def rows(self, family: Family, start: bytes = b"", end: bytes | None = None) -> Iterator[Row]:
        """Yield the rows of ``pages`` one at a time."""
        for rows in self.pages(family, start, end):
            yield from rows


class Store(Reader, Protocol):
    """The whole interface.

    ``write`` passes every change to the operating system before it returns. ``sync`` makes all earlier writes durable.
    Both methods raise OSError when the disk fails.

    After a failed write, each later write raises the same error until ``reopen`` succeeds; ``reopen`` loses no written
    batch. Until then, all written batches can be read, even after a failed ``reopen``, and can be synced even on a full
    disk.
    """

    def batch(self) -> Batch: ...

    def write(self, batch: Batch) -> None: ...

    def sync(self) -> None: ...

    def snapshot(self, path: str) -> None:
        """Copy the store, as it is between two writes, to the directory ``path``, which must not exist.

        May be called from another thread while the store is being written. Raises OSError.
        """

    def reopen(self) -> None: ...

    def expect_lookups(self, family: Family) -> None:
        """Announce that nearly every new URL is looked up in the family, so that the store should cache more of the
        family in memory. This does not affect results, and a store may ignore the hint."""
        return

    def close(self) -> None: ...

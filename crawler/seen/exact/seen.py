"""The exact seen-set: a scalable Bloom filter, backed by a row for each key.

    a key  ->  absent from the filter in front?  -> new      memory only; all but `fpp` of the unknown keys end here
           ->  its row is absent?                -> new      filter over whole rows, otherwise a read
           ->  known

The rows are authoritative. They are written in the batch of the transaction that queues the URLs (``admit``), so a key
is seen if and only if it was queued. The filter in front is a cache of the rows, as the bits of other seen-sets are a
cache of the journal: it is stored in generations and brought up to date with ``restore``. A superfluous bit in the
filter costs a lookup. A URL whose key is missing from the filter would be fetched twice, but never skipped.

Order of calls: later calls with the same batch see its changes; calls with other batches see them only once the batch
is written. So write a batch before starting the next. Use one thread at a time: the store and the batch are not locked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.kv import Batch, Family, Store
from crawler.base.settings.parts import SeenSettings
from crawler.seen.exact.rows import HOST_BYTES, rows_of
from crawler.seen.filters import (
    JSON,
    AbsentKeyError,
    FilterError,
    Key,
    KeyHash,
    Lookup,
    NotForgotten,
    Part,
    ScalableBloomFilter,
    SeenSet,
    SeenSnapshot,
    SeenStatistics,
    Segment,
    TimesAdmitted,
)
from crawler.seen.filters import load_seen as load_filter
from crawler.seen.filters import make_seen as make_filter
from crawler.seen.filters.planning import Room, planned_parameters
from crawler.seen.slices.digests import list_keys

ROW_COUNT = b"seen-count"  # key of the stored number of rows
ROW_COUNT_FORM = struct.Struct("<Q")


class ExactSeenSet(SeenSet):
    """A seen-set without false positives. Its digests cannot be mixed with those of other kinds. A row
    cannot be found by its digest alone, without the host of the key."""

    kind = "exact"
    certain = True

    def __init__(self, store: Store, front: ScalableBloomFilter) -> None:
        """``front`` must hold the keys of all rows, or be filled with ``restore`` before the first lookup.
        Raises OSError, or FilterError if the stored number of rows is damaged."""
        self.hash = front.hash
        self._store = store
        store.expect_lookups(Family.SEEN)
        self._front = front
        stored = store.get(Family.META, ROW_COUNT)
        if stored is not None and len(stored) != ROW_COUNT_FORM.size:
            raise FilterError(f"the stored row count of the exact seen-set is damaged: it has {len(stored)} bytes")
        self._count: int = 0 if stored is None else ROW_COUNT_FORM.unpack(stored)[0]
        self._batch: Batch | None = None
        self._changed: dict[bytes, bool] = {}  # row -> True if it exists once the batch is written

    # -- keys in a transaction -----------------------------------------------------------------------------

    def admit(self, keys: Iterable[Key], batch: Batch) -> tuple[bytes, list[int]]:
        """Put rows for the new keys into ``batch``. Returns the digests of all keys, 16 bytes each, and the positions
        of the new ones, ascending. Raises OSError if the store cannot be read."""
        keys = list_keys(keys)
        digests = self.hash.digest_keys(keys)
        rows = rows_of(keys, digests)
        changed = self._changes(batch)
        known = self._known(rows, digests, changed)
        fresh: dict[bytes, int] = {}
        for position, row in enumerate(rows):
            if row not in known:
                fresh.setdefault(row, position)
        if fresh:
            for row in fresh:
                batch.put(Family.SEEN, row, b"")
                changed[row] = True
            self._front.restore(b"".join([row[HOST_BYTES:] for row in fresh]))
            self._put_count(batch, len(fresh))
        return digests, list(fresh.values())

    def forget_keys(self, keys: Iterable[Key], batch: Batch, admitted: TimesAdmitted) -> dict[int, NotForgotten]:
        """Delete the rows of ``keys`` with ``batch``. Returns the positions of the keys that have no row. The filter in
        front cannot forget, so each later lookup of a deleted key reads the store. Raises OSError if the store cannot
        be read."""
        return dict.fromkeys(self._delete_rows(list_keys(keys), batch), NotForgotten.NOT_SEEN)

    def _delete_rows(self, keys: Sequence[Key], batch: Batch) -> list[int]:
        """Delete rows with ``batch``. Returns the positions of the keys that have no row."""
        digests = self.hash.digest_keys(keys)
        rows = rows_of(keys, digests)
        changed = self._changes(batch)
        known = self._known(rows, digests, changed)
        absent = []
        for position, row in enumerate(rows):
            if row in known:
                known.discard(row)
                batch.delete(Family.SEEN, row)
                changed[row] = False
            else:
                absent.append(position)
        if len(absent) < len(rows):
            self._put_count(batch, len(absent) - len(rows))
        return absent

    def _changes(self, batch: Batch) -> dict[bytes, bool]:
        if batch is not self._batch:
            self._batch = batch
            self._changed = {}
        return self._changed

    def _put_count(self, batch: Batch, more: int) -> None:
        self._count += more
        batch.put(Family.META, ROW_COUNT, ROW_COUNT_FORM.pack(self._count))

    # -- keys outside transactions -----------------------------------------------------------------------------

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """Add ``keys`` in a batch of their own. Returns the positions of the new ones, ascending. Raises OSError if the
        store fails; after a failed write, the set must be reopened."""
        batch = self._store.batch()
        _, new = self.admit(keys, batch)
        self._store.write(batch)
        return new

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """Return, for each key, True if its row is in the store. Raises OSError."""
        keys = list_keys(keys)
        digests = self.hash.digest_keys(keys)
        rows = rows_of(keys, digests)
        known = self._known(rows, digests, {})
        return [row in known for row in rows]

    def lookup(self, key: Key) -> Lookup:
        """Look up the key. The answer is always certain, and names no slices."""
        return Lookup(key in self, self.certain, 0.0, 0, ())

    def forget(self, key: Key) -> None:
        """Delete the row of one key. Raises OSError, or AbsentKeyError if the key has no row."""
        batch = self._store.batch()
        if self._delete_rows((key,), batch):
            raise AbsentKeyError(f"not in the exact seen-set: {key!r}")
        self._store.write(batch)

    def __len__(self) -> int:
        """Return the number of keys with a row, including those of the newest batch before it is written."""
        return self._count

    # -- looking up --------------------------------------------------------------------------------------------

    def _known(self, rows: Sequence[bytes], digests: bytes, changed: Mapping[bytes, bool]) -> set[bytes]:
        """Return those of the rows that are in the store, or will be once the changes are written."""
        maybe = {row for row, held in zip(rows, self._front.contains_digests(digests), strict=True) if held}
        asked = sorted(maybe.difference(changed))  # sorted, so that neighbours are read together
        found = self._store.get_many(Family.SEEN, asked) if asked else ()
        stored = {row for row, value in zip(asked, found, strict=True) if value is not None}
        return stored.union(row for row in maybe if changed.get(row))

    # -- the filter in front -----------------------------------------------------------------------------------

    def restore(self, digests: bytes) -> None:
        """Add digests of new keys, as returned by ``admit``, to the filter in front. Their rows are already in the
        store."""
        self._front.restore(digests)

    def restore_forgotten(self, digests: bytes) -> None:
        """Do nothing: the rows of these keys are already deleted, and the filter in front cannot forget."""

    def might_contain_digests(self, digests: bytes) -> list[bool]:
        """Return, for each digest, True if its key would be looked up in the rows. False for an admitted key is damage:
        the URL would be fetched twice."""
        return self._front.contains_digests(digests)

    def parameters(self) -> dict[str, JSON]:
        """Return the parameters that shape the stored state: those of the filter in front."""
        return {**self._front.parameters(), "kind": self.kind}

    def statistics(self) -> SeenStatistics:
        """Return the statistics. ``slices``, ``bytes`` and ``bits_per_url`` describe the filter in front, the only part
        in memory. The fpp of a slice is the share of unknown keys that it passes on to the rows. The fpp of the set is
        0 (see ``rows``)."""
        front = self._front.statistics()
        return {
            **front,
            "kind": self.kind,
            "count": self._count,
            "fpp_target": 0.0,
            "fpp_bound": 0.0,
            "fpp_estimated": 0.0,
            "fpp_measured": None,
            "expected_urls_skipped": 0.0,
            "bits_per_url": front["bytes"] * 8 / self._count if self._count else None,
        }

    def snapshot(self, *, whole: bool = True) -> SeenSnapshot:
        """Take a snapshot of the filter in front, to be stored as a generation. ``load_seen`` reads it."""
        shot = self._front.snapshot(whole=whole)
        return SeenSnapshot({"parameters": self.parameters(), "front": shot.state}, shot.segments, shot.copies)

    def parts(self) -> list[Part]:
        """Return the segments of a snapshot, see ``SeenSet``."""
        return self._front.parts()

    def unjournaled_segments(self) -> list[Segment]:
        """Return the segments that the journal cannot restore, see ``SeenSet``."""
        return self._front.unjournaled_segments()

    def __repr__(self) -> str:
        return f"<ExactSeenSet kind={self.kind} count={len(self)} fpp=0>"


class KeptRows(Struct, frozen=True):
    """The rows of a job in the family SEEN, one for each admitted key. If it ``forgets``, removing a key from the
    seen-set deletes its row, and the number of rows is stored."""

    forgets: bool


def kept_rows(settings: SeenSettings) -> KeptRows | None:
    """Return the kind of rows of a job with these settings, or None if it has none."""
    exact = settings.kind == ExactSeenSet.kind
    return KeptRows(exact) if exact or settings.ledger else None


def make_seen(settings: SeenSettings, store: Store, hash: KeyHash) -> SeenSet:
    """Return an empty seen-set of the kind in ``settings``; an exact one keeps its rows in ``store``.

    Raises OSError, or FilterError for an unknown kind or invalid parameters.
    """
    if settings.kind != ExactSeenSet.kind:
        return make_filter(settings, hash)
    if hash.forgeable:
        raise FilterError(f"the exact seen-set needs a hash that cannot be forged, unlike {hash}")
    front = ScalableBloomFilter(
        settings.fpp,
        settings.capacity,
        layout=settings.layout,
        hash=hash,
    )
    return ExactSeenSet(store, front)


def check_room(settings: SeenSettings) -> None:
    """Check that there is memory for the first slice, without allocating it. Raises FilterError if there is too little,
    or for an unknown kind."""
    kind = ScalableBloomFilter.kind if settings.kind == ExactSeenSet.kind else settings.kind
    Room(planned_parameters(replace(settings, kind=kind), settings.layout)).need(1)


def load_seen(state: Mapping[str, Any], segments: Mapping[str, memoryview], store: Store) -> SeenSet:
    """Load a seen-set of any kind from a snapshot. The caller must then ``restore`` the keys added since.

    Raises OSError, or FilterError if the parts do not fit together.
    """
    try:
        if state["parameters"]["kind"] != ExactSeenSet.kind:
            return load_filter(state, segments)
        return ExactSeenSet(store, ScalableBloomFilter.from_snapshot(state["front"], segments))
    except (LookupError, TypeError) as problem:
        raise FilterError(f"the state of the stored seen-set is damaged: {problem!r}") from problem

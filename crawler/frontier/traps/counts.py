"""Counters keyed by 16-byte digests, in the store, with the most recently used ones cached in memory."""

from __future__ import annotations

import struct
from collections import OrderedDict
from hashlib import blake2b

from crawler.base.kv import Batch, Family, Reader

COUNT = b"n"  # key: this byte and a digest; value: the count
MAX_RECORDS = 100  # `excluded` records per trap; further URLs are only counted
KEPT_MAX = 50_000  # counters in memory, about 200 bytes each
_NUMBER = struct.Struct("<Q")


class TrapRecordError(ValueError):
    """Raised when a stored row is neither a count nor a closed trap."""


class Counts:
    """The counters of one job. Those in memory include the last written batch and the batch being filled."""

    def __init__(self, store: Reader) -> None:
        self._store = store
        self._kept: OrderedDict[bytes, int] = OrderedDict()

    def number(self, key: bytes) -> int:
        """Return the count under a digest, or 0; raises TrapRecordError."""
        number = self._kept.get(key)
        if number is not None:
            self._kept.move_to_end(key)
            return number
        stored = self._store.get(Family.TRAPS, COUNT + key)
        number = 0 if stored is None else decode_count(stored)
        self._keep(key, number)
        return number

    def set(self, key: bytes, number: int, batch: Batch) -> int:
        """Put a count into the batch. Returns its increase."""
        grown = number - self.number(key)
        batch.put(Family.TRAPS, COUNT + key, _NUMBER.pack(number))
        self._keep(key, number)
        return grown

    def _keep(self, key: bytes, number: int) -> None:
        self._kept[key] = number
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


def decode_count(value: bytes) -> int:
    """Decode a stored count; raises TrapRecordError."""
    if len(value) != _NUMBER.size:
        raise TrapRecordError(f"not a count: {len(value)} bytes")
    return int(_NUMBER.unpack(value)[0])


def digest_of(text: str) -> bytes:
    """Return the digest of the text. It is cryptographic, so that no host can fill the counters of another."""
    return blake2b(text.encode(), digest_size=16).digest()

"""The store in memory: for tests and simulations."""

from __future__ import annotations

import errno
from bisect import bisect_left, insort
from collections.abc import Sequence

from crawler.base.kv import Batch, Family, Store


class MemoryStore(Store):
    """A dict and a sorted list of its keys for each family."""

    def __init__(self) -> None:
        self._values: dict[Family, dict[bytes, bytes]] = {family: {} for family in Family}
        self._keys: dict[Family, list[bytes]] = {family: [] for family in Family}

    def batch(self) -> Batch:
        return Batch()

    def write(self, batch: Batch) -> None:
        for family, key, value, end in batch.changes:
            if value is not None:
                if key not in self._values[family]:
                    insort(self._keys[family], key)
                self._values[family][key] = value
            elif end is None:
                if self._values[family].pop(key, None) is not None:
                    del self._keys[family][bisect_left(self._keys[family], key)]
            else:
                keys = self._keys[family]
                first, last = bisect_left(keys, key), bisect_left(keys, end)
                for gone in keys[first:last]:
                    del self._values[family][gone]
                del keys[first:last]

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._values[family].get(key)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._values[family].get(key) for key in keys]

    def scan(
        self, family: Family, start: bytes, end: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        keys = self._keys[family]
        first = bisect_left(keys, start)
        last = len(keys) if end is None else bisect_left(keys, end)
        if limit is not None:
            last = min(last, first + limit)
        return [(key, self._values[family][key]) for key in keys[first:last]]

    def sync(self) -> None:
        """Nothing to do: a memory store is never durable."""

    def snapshot(self, path: str) -> None:
        raise OSError(errno.ENOTSUP, "a store in memory has no files to copy", path)

    def reopen(self) -> None:
        """Nothing to do: a write cannot fail."""

    def close(self) -> None:
        """Nothing to release."""

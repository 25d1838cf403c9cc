"""A store that loses its power, fails when told to, and needs no disk: RocksDB's contract without RocksDB.

What RocksDB promises of its log (a prefix of the batches written since the last sync survives, each whole) is all that
the rest of the program relies on; this double keeps exactly that promise and no more.
"""

from __future__ import annotations

import errno
import os
import random

from crawler.kv import Batch
from crawler.store.memory_store import MemoryStore


class FaultyStore(MemoryStore):
    """In memory, with a log of what was written and how much of it was synced."""

    def __init__(self) -> None:
        super().__init__()
        self._log: list[Batch] = []
        self._synced = 0
        self._broken: int | None = None
        self.fail_next_write: int | None = None  # an errno; the store then takes no more until it is reopened
        self.full = False  # no write succeeds, and no reopening

    def write(self, batch: Batch) -> None:
        if self.full and self._broken is None:
            self._broken = errno.ENOSPC
        if self.fail_next_write is not None:
            self._broken, self.fail_next_write = self.fail_next_write, None
        if self._broken is not None:
            raise OSError(self._broken, os.strerror(self._broken))
        super().write(batch)
        copy = Batch()
        copy.changes = list(batch.changes)
        self._log.append(copy)

    def sync(self) -> None:
        self._synced = len(self._log)

    def reopen(self) -> None:
        if self.full and self._broken is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._broken = None

    def lose_power(self, chance: random.Random) -> FaultyStore:
        """The store as it is found afterwards."""
        found = FaultyStore()
        for batch in self._log[: chance.randint(self._synced, len(self._log))]:
            found.write(batch)
        found.sync()
        return found

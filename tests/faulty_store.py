"""A store in memory that simulates power loss and write errors: RocksDB's contract without RocksDB.

The program relies on one promise of RocksDB's log: of the batches written since the last sync, a prefix survives, each
batch whole. This double keeps exactly that promise.
"""

from __future__ import annotations

import errno
import os
import random

from crawler.base.kv import Batch
from tests.memory_store import MemoryStore


class FaultyStore(MemoryStore):
    """A memory store with a log of the batches written, and how many of them were synced."""

    def __init__(self) -> None:
        super().__init__()
        self._log: list[Batch] = []
        self._synced = 0
        self._broken: int | None = None
        self.fail_next_write: int | None = None  # an errno; the store then refuses writes until it is reopened
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
        """The store after a power loss: a random prefix of the unsynced batches survives."""
        found = FaultyStore()
        for batch in self._log[: chance.randint(self._synced, len(self._log))]:
            found.write(batch)
        found.sync()
        return found

"""Where the frontier's bytes lie: RocksDB for a job, memory for tests and simulations."""

from crawler.store.faulty import FaultyStore
from crawler.store.memory import MemoryStore
from crawler.store.rocks import Broken, RocksStore, StoreError

__all__ = ["Broken", "FaultyStore", "MemoryStore", "RocksStore", "StoreError"]

"""Where the frontier's bytes lie: RocksDB for a job, memory for tests and simulations."""

from crawler.store.faulty_store import FaultyStore
from crawler.store.memory_store import MemoryStore
from crawler.store.rocks import Broken, RocksStore, StoreError

__all__ = ["Broken", "FaultyStore", "MemoryStore", "RocksStore", "StoreError"]

"""The ordered store of a job: RocksDB on disk, or memory for tests and simulations."""

from crawler.job.store.closed_copy import copy_closed
from crawler.job.store.faulty_store import FaultyStore
from crawler.job.store.memory_store import MemoryStore
from crawler.job.store.rocks import (
    Broken,
    PartitionStore,
    RequestStore,
    RocksStore,
    StoreDamagedError,
    StoreError,
    StoreVersionError,
    is_made,
)
from crawler.job.store.store_budget import StoreBudget

__all__ = [
    "Broken",
    "FaultyStore",
    "MemoryStore",
    "PartitionStore",
    "RequestStore",
    "RocksStore",
    "StoreBudget",
    "StoreDamagedError",
    "StoreError",
    "StoreVersionError",
    "copy_closed",
    "is_made",
]

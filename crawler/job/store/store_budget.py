"""Resources shared by the open stores of a process, so that many stores need about as much memory and as many files as
one large store.

    blocks      one cache for all, and one for the rows of all seen-sets
    memtables   a fixed share for each store. RocksDB could also share one limit among all, but it then flushes only
                the store that is being written: while idle stores use up the limit, every write to a busy one flushes
    tables      each store gets a share of the files that the process may open
    threads     RocksDB has one flushing and one compacting thread per process, whatever the number of databases
"""

from __future__ import annotations

from rocksdict import Cache

from crawler.base.memory import return_blocks

BLOCK_CACHE = 16 * 2**20  # bytes, for all families except SEEN
# Bytes for the rows of SEEN: for a ledger, few lookups reach the store; for an exact seen-set, all do.
SEEN_CACHE, EXACT_CACHE = 8 * 2**20, 64 * 2**20
# Additional bytes for each further store, so that the top levels of its tables' indexes stay in the cache.
_BLOCKS_OF_EACH = 2**18
_ALL_MEMTABLES = 96 * 2**20  # bytes: about what one large crawl uses
_RETURNED = 2**18  # bytes: memtables allocate up to 1 MB at a time, and are freed in another order
_LEAST_MEMTABLES = 3 * 2**20  # bytes per store: with fewer, a store flushes after a few thousand changes
_ARENA = 32 * 2**10  # bytes that a memtable allocates at a time: with the default, half a MB, even empty ones fill up
_FIXED_FILES = 36  # open files of a crawl except tables and connections, for example a directory for each family
_FILES_OF_EACH = 16  # additional open files for each further job
_LEAST_TABLES = 10  # table files that each store may always keep open
_FEW_FILES = 4_096  # limit of open files per store below which RocksDB may not keep every table open
_CACHE_SLACK = 10  # RocksDB stays this many open files below its limit


class StoreBudget:
    """The budget of at most ``stores`` stores open at the same time."""

    def __init__(self, stores: int = 1) -> None:
        return_blocks(_RETURNED)
        more = _BLOCKS_OF_EACH * (stores - 1)
        self.stores = stores
        self.cache = Cache(BLOCK_CACHE + more)
        # A separate cache, so that rows that are looked up once do not evict the queue's blocks.
        self.seen_cache = Cache(SEEN_CACHE + more)

    @property
    def memtables(self) -> int | None:
        """The limit on the total size of one store's memtables, in bytes; None if only each single memtable is
        limited."""
        return None if self.stores == 1 else max(_LEAST_MEMTABLES, _ALL_MEMTABLES // self.stores)

    @property
    def arena(self) -> int | None:
        """The number of bytes that a memtable allocates at a time; None for RocksDB's default."""
        return None if self.stores == 1 else _ARENA


def open_tables(limit: int, stores: int = 1) -> int | None:
    """Return RocksDB's own limit on open files for one store, if the process may open ``limit`` files; None: no
    limit."""
    return None if limit // stores >= _FEW_FILES else _CACHE_SLACK + table_files(limit, stores)


def table_files(limit: int, stores: int = 1) -> int:
    """Return how many of the ``limit`` open files of a process RocksDB may use for the tables of one store, if files
    are scarce."""
    return max(_LEAST_TABLES, (limit - _fixed_files(stores)) // 2 // stores)


def files_left(limit: int, stores: int = 1) -> int:
    """Return how many of the ``limit`` open files of a process are left for connections; negative if there are too few
    even for the stores."""
    return limit - _fixed_files(stores) - stores * table_files(limit, stores)


def _fixed_files(stores: int) -> int:
    return _FIXED_FILES + _FILES_OF_EACH * (stores - 1)

"""What the open stores of one process share, so that many of them take about as much memory and as many files as one
large one, and little more for each.

    blocks      one cache for all, and one for the rows of all seen-sets
    memtables   a part for each. RocksDB could also share one sum among all, but it then makes room only in the store
                that is being written: beside idle ones that hold the sum, a busy one would flush with every write
    tables      a part of the files that the process may open for each
    threads     RocksDB has one flushing and one compacting thread a process, whatever the number of its databases
"""

from __future__ import annotations

from rocksdict import Cache

BLOCK_CACHE = 24 * 2**20  # bytes, for all families but one
# Bytes for the rows of a ledger, most of whose lookups are answered before; and of an exact seen-set, all of whose are.
SEEN_CACHE, EXACT_CACHE = 8 * 2**20, 64 * 2**20
_BLOCKS_OF_EACH = (
    2**18
)  # bytes more for each store besides the first: the tops of its tables' indexes stay in the cache
_ALL_MEMTABLES = 96 * 2**20  # bytes, about what one large crawl has in them
_LEAST_MEMTABLES = 3 * 2**20  # bytes of each: below, a store flushes a few thousand changes at a time
_ARENA = 32 * 2**10  # bytes that a memtable takes at a time; with the usual half a MB, empty ones would fill their part
_FIXED_FILES = 36  # files that a crawl has open besides tables and connections, such as a directory for each family
_FILES_OF_EACH = 16  # more, for each job besides the first
_LEAST_TABLES = 10  # table files that a store may always keep open
_FEW_FILES = 4_096  # below this limit on open files for each, RocksDB may not keep every table open
_CACHE_SLACK = 10  # RocksDB keeps so many files fewer open than its limit says


class StoreBudget:
    """The budget of at most ``stores`` stores that are open at a time."""

    def __init__(self, stores: int = 1) -> None:
        more = _BLOCKS_OF_EACH * (stores - 1)
        self.stores = stores
        self.cache = Cache(BLOCK_CACHE + more)
        self.seen_cache = Cache(SEEN_CACHE + more)  # rows that are looked up once must not evict the queue's blocks

    @property
    def memtables(self) -> int | None:
        """Bytes of all memtables of one store; None: only each is limited."""
        return None if self.stores == 1 else max(_LEAST_MEMTABLES, _ALL_MEMTABLES // self.stores)

    @property
    def arena(self) -> int | None:
        """Bytes that a memtable takes at a time; None: as usual."""
        return None if self.stores == 1 else _ARENA


def open_tables(limit: int, stores: int = 1) -> int | None:
    """How many files RocksDB may hold open for one store, by its own count, if the process may open ``limit``; None: as
    many as there are."""
    return None if limit // stores >= _FEW_FILES else _CACHE_SLACK + table_files(limit, stores)


def table_files(limit: int, stores: int = 1) -> int:
    """How many of the ``limit`` open files of a process RocksDB may use for the tables of one store, if they are
    few."""
    return max(_LEAST_TABLES, (limit - _fixed_files(stores)) // 2 // stores)


def files_left(limit: int, stores: int = 1) -> int:
    """How many of the ``limit`` open files of a process are left for connections; negative if they are too few for the
    stores."""
    return limit - _fixed_files(stores) - stores * table_files(limit, stores)


def _fixed_files(stores: int) -> int:
    return _FIXED_FILES + _FILES_OF_EACH * (stores - 1)

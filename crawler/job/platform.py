"""The platform of a job: the real disk, store and thread, or the replacements of a simulation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.disk import Disk, RealDisk
from crawler.base.kv import Store
from crawler.job.checkpoint.renewal import Renewal
from crawler.job.step_log import StepRoom
from crawler.job.store.rocks import PartitionStore, RocksStore


def _durability_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="durability")


class Platform(Struct, frozen=True):
    """``executor`` creates an executor that runs syncs and checkpoints one after the other, outside the event loop.

    ``renewal`` controls how often the seen-set is stored again. ``fetcher`` is the program whose jobs can be opened;
    None for this one. ``partition``: the job's partition number and the number of partitions of its crawl; None if it
    is not partitioned. ``line``: the random number of the log of steps that this opening of the job keeps for the store
    of the crawl; 0 for none. ``room``: shared by the logs of all jobs of the process."""

    disk: Disk = field(default_factory=RealDisk)
    open_store: Callable[[Path], Store] = RocksStore
    executor: Callable[[], Executor] = _durability_thread
    renewal: Renewal = field(default_factory=Renewal)
    fetcher: str | None = None
    partition: tuple[int, int] | None = None
    line: int = 0
    room: StepRoom = field(default_factory=StepRoom)

    def of_partition(self, number: int, partitions: int) -> Platform:
        """Return the platform for a partition of a crawl."""
        usual = self.open_store is RocksStore
        return replace(self, open_store=PartitionStore if usual else self.open_store, partition=(number, partitions))


def new_line() -> int:
    """Return a random number for an opening of a job that keeps a log of its steps."""
    return int.from_bytes(entropy.random_bytes(8), "big") or 1

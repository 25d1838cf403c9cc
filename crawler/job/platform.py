"""The platform of a job: the real disk, store and thread, or the replacements of a simulation.

``SharedPlatform`` serves several jobs open in one process: they share one budget for their stores, and one thread that
makes them durable. However many jobs there are, one fsync runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.disk import Disk, RealDisk
from crawler.base.kv import Store
from crawler.job.checkpoint.generations import Renewal
from crawler.job.step_log import StepRoom
from crawler.job.store.rocks import PartitionStore, RocksStore
from crawler.job.store.store_budget import StoreBudget


def _durability_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="durability")


class Platform(Struct, frozen=True):
    """``executor`` creates an executor that runs syncs and checkpoints one at a time, outside the event loop.

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


T = TypeVar("T")
P = ParamSpec("P")


class SharedPlatform:
    """A context manager for at most ``jobs`` jobs at a time, which must all be closed when it ends."""

    def __init__(self, jobs: int) -> None:
        self._budget = StoreBudget(jobs)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="durability")

    def __enter__(self) -> Platform:
        """Return the platform for each of the jobs, which are partitions."""
        budget = self._budget
        return Platform(open_store=lambda path: PartitionStore(path, budget), executor=lambda: _Share(self._thread))

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()


class _Share(Executor):
    """One job's view of the shared thread, which keeps running after the job has shut down its view."""

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._begun = set[Future[Any]]()
        self._is_over = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See ``Executor``. Called from one thread of the job."""
        if self._is_over:
            raise RuntimeError("the job is closed")
        future = self._thread.submit(fn, *args, **kwargs)
        self._begun.add(future)
        future.add_done_callback(self._begun.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more work. ``wait``: wait until all work of this job is done."""
        self._is_over = True
        begun = list(self._begun)
        if cancel_futures:
            for future in begun:
                future.cancel()
        if wait:
            futures.wait(begun)

"""The platform of several jobs open in one process: one budget for their stores, and one thread that makes them
durable. However many jobs there are, one fsync runs at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from crawler.job.platform import Platform
from crawler.job.store.rocks import PartitionStore
from crawler.job.store.store_budget import StoreBudget

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
    """One job's view of the shared thread, which keeps running after the job has shut it down."""

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

"""Opens a partition in the directory of a home, and looks beforehand whether a replica could be opened as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL
from crawler.base.kv import PAGE, Batch, BatchError, Family, Row, Store
from crawler.base.settings.parts import Settings
from crawler.cluster.member_options import Crawl
from crawler.cluster.replica_directory import is_held
from crawler.inspect.integrity.left_out import fetch_left_out
from crawler.job.crawl_file import check_none_gone, note_begun
from crawler.job.directory import LACKS_BODIES, JobError
from crawler.job.follower import Follower, GapError
from crawler.job.job import Job
from crawler.job.kept_steps import KeptSteps
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import Platform
from crawler.job.stored_errors import DAMAGE

# What a directory raises that cannot be opened. An error of a full disk is among these.
UNOPENED = (JobError, GapError, BatchError, OSError, *DAMAGE)


class Opening(Struct):
    """How the partitions of one process are opened. ``settings()`` are those of a run that begins now."""

    crawl: Crawl
    platform: Platform
    clock: Callable[[], float]
    settings: Callable[[], Settings]

    def open(self, number: int, followed: KeptSteps | None) -> tuple[Job, int]:
        """The open job, which was sent the last steps as a replica, and how many finished pages are fetched again
        because it was not sent what was fetched then. Raises what ``Job`` does."""
        directory = self.crawl.partition(number)
        anchor = self.clock.anchor if isinstance(self.clock, SteadyClock) else None
        line = int.from_bytes(entropy.random_bytes(8), "big") or 1
        platform = replace(self.platform, line=line if self.crawl.replicas else 0, followed=followed)
        check_none_gone(self.crawl.directory)
        again = fetch_left_out(directory, self.clock(), self.platform.disk)
        job = Job(directory, self.settings(), self.clock(), platform, anchor, self._router(number))
        try:
            note_begun(job.disk, self.crawl.directory, number)
        except BaseException:
            job.close()
            raise
        return job, again

    def check(self, number: int, directory: Path) -> None:
        """Open the directory as the partition, without writing a step, and close it: what that raises, ``open`` would
        raise there. It stays a replica that follows its owner. Raises one of ``UNOPENED``."""
        settings, platform = self.settings(), self.platform.of_partition(number, self.crawl.partitions)
        if (directory / LACKS_BODIES).exists():  # what makes it a partition is a repair
            Follower(directory, platform, settings.output).close()
            return
        open_store = platform.open_store
        unwritten = replace(platform, line=0, open_store=lambda path: _Unwritten(open_store(path)))
        Job(directory, settings, self.clock(), unwritten, None, self._router(number)).close()

    def fault(self, number: int, directory: Path) -> str:
        """Why the directory, which nobody has open, cannot be opened as the partition; "" if it can. Raises JobError if
        a process has it open after all, OSError if the disk is full."""
        try:
            self.check(number, directory)
        except UNOPENED as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            if isinstance(error, JobError) and is_held(directory):
                raise
            return error.fault if isinstance(error, JobError) else str(error)
        return ""

    def _router(self, number: int) -> PartitionRouter:
        return PartitionRouter(number, self.crawl.placement)


class _Unwritten(Store):
    """A store whose changes are forgotten."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def batch(self) -> Batch:
        return self._store.batch()

    def write(self, batch: Batch) -> None:
        pass

    def sync(self) -> None:
        pass

    def reopen(self) -> None:
        pass

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._store.get(family, key)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._store.get_many(family, keys)

    def holds_prefix(self, family: Family, prefix: bytes) -> bool:
        return self._store.holds_prefix(family, prefix)

    def scan(self, family: Family, start: bytes, end: bytes | None = None, limit: int | None = None) -> list[Row]:
        return self._store.scan(family, start, end, limit)

    def pages(
        self, family: Family, start: bytes = b"", end: bytes | None = None, size: int = PAGE
    ) -> Iterator[list[Row]]:
        return self._store.pages(family, start, end, size)

    def snapshot(self, path: str) -> None:
        self._store.snapshot(path)

    def close(self) -> None:
        self._store.close()

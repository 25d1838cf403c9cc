"""The jobs in a directory: the partitions of a crawl, or a single job. ``crawl.json`` has the number of partitions;
each gets a job directory once it receives its first URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from crawler.inspect.job_reader import open_job
from crawler.job.crawl_file import PARTITIONS, check_any_here, holds_crawl, partition_directories, read_crawl_file
from crawler.job.directory import holds_job
from crawler.job.division import read_descent
from crawler.job.found import KEEP_ALL, Router
from crawler.job.partition.placement import SECRET_LEAST, Placement
from crawler.job.partition.router import PartitionRouter
from crawler.job.run_settings import read_run
from crawler.job.stored_errors import DAMAGE, DamagedPartitionError
from crawler.url.urls.canonicaliser import Canonicaliser

__all__ = ["PARTITIONS", "CrawlPartitions", "Partition", "crawl_partitions", "holds_any", "holds_crawl", "whole_job"]

T = TypeVar("T")

_ONE = Placement(bytes(SECRET_LEAST), 1)


class Partition(Struct, frozen=True):
    """A crawl's partition that has a job directory, or a single job."""

    number: int
    directory: Path
    of_crawl: bool = True

    @property
    def as_json(self) -> dict[str, int]:
        """The fields that name the partition in JSON."""
        return {"partition": self.number} if self.of_crawl else {}

    @contextmanager
    def named(self) -> Iterator[None]:
        """Return a context that turns errors about damage into DamagedPartitionError, which names the partition's
        directory."""
        try:
            yield
        except DAMAGE as error:
            if isinstance(error, DamagedPartitionError) or not self.of_crawl:
                raise
            text = str(error)
            named = text if text.startswith(str(self.directory)) else f"{self.directory}: {text}"
            raise DamagedPartitionError(named) from error


class CrawlPartitions(Struct, frozen=True):
    """A crawl of ``count`` partitions in ``directory``. ``found`` lists the partitions that have started, in order;
    there is at least one. ``placement`` assigns URLs to partitions."""

    directory: Path
    count: int
    placement: Placement
    found: list[Partition]

    @property
    def is_job(self) -> bool:
        """True for a job without partitions, the only entry of ``found``."""
        return not self.found[0].of_crawl

    @property
    def jobs(self) -> list[Path]:
        """The job directories to read."""
        return [partition.directory for partition in self.found]

    def canonicaliser(self) -> Canonicaliser:
        """Return the canonicaliser of the last run, which is the same in all partitions. Raises JobError,
        SettingsError."""
        return Canonicaliser(read_run(self.jobs[0]).settings.canonical.rules)

    def router(self, partition: Partition) -> Router:
        """Return the router for opening the partition's job in order to change it."""
        return PartitionRouter(partition.number, self.placement) if partition.of_crawl else KEEP_ALL

    def with_records(self, partition: Partition) -> list[Path]:
        """Return the job directories with records of the partition's URLs, latest first: records from before a split
        are in the partitions from which this partition was split. Raises the exceptions of ``open_job``,
        JournalError."""
        if self.is_job:
            return self.jobs
        with open_job(partition.directory) as job:
            descent = read_descent(job.store)
        before = () if descent is None else descent.ancestors
        others = [each.directory for number in before if (each := self.partition(number)) is not None]
        return [partition.directory, *others]

    def each(self, look: Callable[[Path], T]) -> Iterator[tuple[Partition, T]]:
        """Yield each started partition with the result of calling ``look`` for it. Raises DamagedPartitionError and the
        exceptions of ``look``."""
        for partition in self.found:
            with partition.named():
                seen = look(partition.directory)
            yield partition, seen

    def partition(self, number: int) -> Partition | None:
        """Return the partition with that number; None if it has not started."""
        return next((each for each in self.found if each.number == number), None)


def crawl_partitions(directory: Path) -> CrawlPartitions:
    """Return the partitions of the crawl in a directory, or the single job there. Raises JobError, including when no
    partition has started, and OSError."""
    if not holds_crawl(directory):
        return CrawlPartitions(directory, 1, _ONE, [whole_job(directory)])
    crawl = read_crawl_file(directory)
    found = [Partition(int(each.name), each) for each in partition_directories(directory)]
    check_any_here(directory, len(found))
    return CrawlPartitions(directory, crawl.partitions, crawl.placement, found)


def holds_any(directory: Path) -> bool:
    """True if the directory holds a job or a crawl of partitions."""
    return holds_job(directory) or holds_crawl(directory)


def whole_job(directory: Path) -> Partition:
    """Return a single job in the form of a partition."""
    return Partition(0, directory, of_crawl=False)

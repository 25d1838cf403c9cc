"""Which jobs a directory has, for those who look at them: the partitions of a crawl, or the job itself as the only one.
``crawl.json`` names how many partitions there are; one has a job directory once something was given to it."""

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
    """A partition of a crawl that has a job directory; or a job that is the only one."""

    number: int
    directory: Path
    of_crawl: bool = True

    @property
    def as_json(self) -> dict[str, int]:
        """How objects in JSON name it."""
        return {"partition": self.number} if self.of_crawl else {}

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within it, damage of a partition is reported with its directory. Raises DamagedPartitionError."""
        try:
            yield
        except DAMAGE as error:
            if isinstance(error, DamagedPartitionError) or not self.of_crawl:
                raise
            text = str(error)
            named = text if text.startswith(str(self.directory)) else f"{self.directory}: {text}"
            raise DamagedPartitionError(named) from error


class CrawlPartitions(Struct, frozen=True):
    """A crawl of so many partitions in ``directory``, ``found`` those that have begun, in order: at least one.
    ``placement`` says which one a URL belongs to."""

    directory: Path
    count: int
    placement: Placement
    found: list[Partition]

    @property
    def is_job(self) -> bool:
        """Whether it is a job without partitions, which is ``found`` alone."""
        return not self.found[0].of_crawl

    @property
    def jobs(self) -> list[Path]:
        """The job directories to look at."""
        return [partition.directory for partition in self.found]

    def canonicaliser(self) -> Canonicaliser:
        """That of the last run, the same in all partitions. Raises JobError, SettingsError."""
        return Canonicaliser(read_run(self.jobs[0]).settings.canonical.rules)

    def router(self, partition: Partition) -> Router:
        """What one who opens the partition to change it hands to the job."""
        return PartitionRouter(partition.number, self.placement) if partition.of_crawl else KEEP_ALL

    def with_records(self, partition: Partition) -> list[Path]:
        """The job directories that have records of URLs of the partition, the latest first: those from before a split
        are where the URLs were then. Raises what ``open_job`` raises, JournalError."""
        if self.is_job:
            return self.jobs
        with open_job(partition.directory) as job:
            descent = read_descent(job.store)
        before = () if descent is None else descent.ancestors
        others = [each.directory for number in before if (each := self.partition(number)) is not None]
        return [partition.directory, *others]

    def each(self, look: Callable[[Path], T]) -> Iterator[tuple[Partition, T]]:
        """Yield what there is to see of each partition that has begun. Raises DamagedPartitionError, and what ``look``
        raises."""
        for partition in self.found:
            with partition.named():
                seen = look(partition.directory)
            yield partition, seen

    def partition(self, number: int) -> Partition | None:
        """The partition of that number; None if it has not begun."""
        return next((each for each in self.found if each.number == number), None)


def crawl_partitions(directory: Path) -> CrawlPartitions:
    """The partitions of the crawl in a directory, or the job that may be there instead. Raises JobError, also if no
    partition has begun, and OSError."""
    if not holds_crawl(directory):
        return CrawlPartitions(directory, 1, _ONE, [whole_job(directory)])
    crawl = read_crawl_file(directory)
    found = [Partition(int(each.name), each) for each in partition_directories(directory)]
    check_any_here(directory, len(found))
    return CrawlPartitions(directory, crawl.partitions, crawl.placement, found)


def holds_any(directory: Path) -> bool:
    """Whether the directory holds a job, or a crawl of partitions."""
    return holds_job(directory) or holds_crawl(directory)


def whole_job(directory: Path) -> Partition:
    """A job as the only partition."""
    return Partition(0, directory, of_crawl=False)

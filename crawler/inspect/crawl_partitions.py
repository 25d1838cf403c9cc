"""Which partitions a crawl directory has, for those who look at it. ``crawl.json`` names how many; a partition has a
job directory once something was given to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from crawler.job.crawl_file import PARTITIONS, holds_crawl, partition_directories, read_crawl_file
from crawler.job.home_register import check_any_here
from crawler.job.partition.placement import Placement
from crawler.job.stored_errors import DAMAGE, DamagedPartitionError

__all__ = ["PARTITIONS", "CrawlPartitions", "Partition", "crawl_partitions", "holds_crawl", "jobs_of", "of_each"]

T = TypeVar("T")


class Partition(Struct, frozen=True):
    """A partition of a crawl that has a job directory."""

    number: int
    directory: Path

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within it, damage is reported with the directory of the partition. Raises DamagedPartitionError."""
        try:
            yield
        except DAMAGE as error:
            if isinstance(error, DamagedPartitionError):
                raise
            text = str(error)
            named = text if text.startswith(str(self.directory)) else f"{self.directory}: {text}"
            raise DamagedPartitionError(named) from error


class CrawlPartitions(Struct, frozen=True):
    """A crawl of so many partitions in ``directory``, ``found`` those that have begun, in order. ``placement`` says
    which one a URL belongs to."""

    directory: Path
    count: int
    placement: Placement
    found: list[Partition]

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
    """The partitions of the crawl in a directory. Raises JobError, also if none has begun, and OSError."""
    crawl = read_crawl_file(directory)
    found = [Partition(int(each.name), each) for each in partition_directories(directory)]
    check_any_here(directory, crawl.id, len(found))
    return CrawlPartitions(directory, crawl.partitions, crawl.placement, found)


def of_each(directory: Path, look: Callable[[Path], T]) -> Iterator[tuple[Path, T]]:
    """Yield each job directory of a job or a crawl, and what there is to see of it. Raises DamagedPartitionError,
    JobError, OSError, and what ``look`` raises."""
    if not holds_crawl(directory):
        yield directory, look(directory)
        return
    for partition, seen in crawl_partitions(directory).each(look):
        yield partition.directory, seen


def jobs_of(directory: Path) -> list[Path]:
    """The job directories to look at: those of the partitions of a crawl, or the directory itself. Raises JobError,
    OSError."""
    if not holds_crawl(directory):
        return [directory]
    return [partition.directory for partition in crawl_partitions(directory).found]

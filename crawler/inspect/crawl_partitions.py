"""Which partitions a crawl directory has: ``DIR/crawl.json`` names how many, ``DIR/partitions/07`` is the job directory
of number 7, once something was given to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from crawler.checkpoint import EnvelopeError, read_envelope
from crawler.job.directory import JobError, holds_job
from crawler.job.stored_errors import DAMAGE, DamagedPartitionError

T = TypeVar("T")

CRAWL = "crawl.json"
PARTITIONS = "partitions"
_MAGIC, _VERSION = "crawler-crawl", 1


class Partition(Struct, frozen=True, order=True):
    """A partition of a crawl that has a job directory."""

    number: int
    directory: Path

    @property
    def name(self) -> str:
        """What its directory is called, in the directory of the crawl."""
        return f"{PARTITIONS}/{self.directory.name}"

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
    """A crawl of so many partitions in ``directory``, ``found`` those that have begun, in order."""

    directory: Path
    count: int
    found: list[Partition]

    def each(self, look: Callable[[Path], T]) -> Iterator[tuple[Partition, T]]:
        """Yield what there is to see of each partition that has begun. Raises DamagedPartitionError, and what ``look``
        raises."""
        for partition in self.found:
            with partition.named():
                seen = look(partition.directory)
            yield partition, seen


def holds_crawl(directory: Path) -> bool:
    """Whether the directory is that of a crawl in partitions."""
    return (directory / CRAWL).is_file()


def crawl_partitions(directory: Path) -> CrawlPartitions:
    """The partitions of the crawl in a directory. Raises JobError, also if none has begun, and OSError."""
    path = directory / CRAWL
    try:
        content = read_envelope(path, _MAGIC, _VERSION, str(path))
    except FileNotFoundError:
        raise JobError(f"{directory} holds no crawl") from None
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    found = sorted(
        Partition(int(each.name), each)
        for each in (directory / PARTITIONS).glob("*")
        if each.name.isdecimal() and holds_job(each)
    )
    if not found:
        raise JobError(f"{directory} holds a crawl that has not begun: no partition has a job yet")
    return CrawlPartitions(directory, int(content["partitions"]), found)


def jobs_of(directory: Path) -> list[Path]:
    """The job directories to look at: those of the partitions of a crawl, or the directory itself. Raises JobError,
    OSError."""
    if not holds_crawl(directory):
        return [directory]
    return [partition.directory for partition in crawl_partitions(directory).found]

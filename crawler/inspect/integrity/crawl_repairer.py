"""Repairs a job, or each partition of a crawl as a job.

Two problems are reported but not repaired: a missing partition, as its URLs are stored nowhere else, and URLs that
belong to another partition. The latter comes from directories that were moved by hand, which a run refuses; moving
them back is better than crawling part of the web again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from crawler.inspect.crawl_partitions import Partition, holds_crawl, whole_job
from crawler.inspect.integrity.change import Change
from crawler.inspect.integrity.crawl_verifier import verify_places
from crawler.inspect.integrity.finding import Finding
from crawler.inspect.integrity.repairer import Repaired, repair_job
from crawler.job.crawl_at_rest import at_rest
from crawler.job.crawl_file import CrawlFile, check_any_here, partition_directory, partitions_gone, read_crawl_file

Left = list[tuple[Partition, Finding]]


def repair_crawl(directory: Path, now: float, tell: Callable[[Partition, Change], None]) -> tuple[list[Repaired], Left]:
    """Repair the job, or each partition. Returns the results, and the remaining findings with their partitions.
    ``tell`` is called with each change. Raises the exceptions of ``repair_job``; JobError also if the crawl is running,
    before anything is changed."""
    crawl = read_crawl_file(directory) if holds_crawl(directory) else None
    done, left = list[Repaired](), Left()
    with at_rest(directory):
        there = [whole_job(directory)] if crawl is None else _there(directory, crawl)
        for partition in there:
            with partition.named():
                repaired = repair_job(partition.directory, now, partial(tell, partition))
            done.append(repaired)
            left += [(partition, finding) for finding in repaired.left]
        if crawl is not None:
            left += verify_places(directory, crawl.placement, there)
    return done, left


def _there(directory: Path, crawl: CrawlFile) -> list[Partition]:
    """Return the partitions with a directory, including those that no longer contain the files of a job. Raises
    JobError."""
    gone = set(partitions_gone(directory))
    found = [(number, partition_directory(directory, number)) for number in range(crawl.partitions)]
    there = [
        Partition(number, place)
        for number, place in found
        if place.is_dir() and (place not in gone or any(place.iterdir()))
    ]
    check_any_here(directory, len(there))
    return there

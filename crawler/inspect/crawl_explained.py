"""Explains a URL of a job, or of a crawl of partitions, from the partition that owns the URL."""

from __future__ import annotations

from pathlib import Path

from crawler.inspect.crawl_partitions import CrawlPartitions, crawl_partitions, whole_job
from crawler.inspect.explanation import Explanation, Ownership, explain_url
from crawler.job.crawl_file import crawl_around, partition_directory
from crawler.job.directory import PAGES
from crawler.job.output.reverse_reader import last_record
from crawler.url.urls.canonicaliser import Canonical


def owner_of(crawl: CrawlPartitions, text: str) -> int | None:
    """Return the number of the partition that owns a URL; None if the text is not a URL. Raises JobError."""
    url = crawl.canonicaliser().canonicalise(text)
    return crawl.placement.of(url.href) if isinstance(url, Canonical) else None


def explain_in(directory: Path, text: str) -> Explanation:
    """Return everything a job or crawl knows about a URL; for a crawl, from the partition that owns it. For the
    directory of a single partition, the explanation also names the owner. Raises the exceptions of ``open_job``.

    If the owner has not started, none of its URLs has been found: any other partition has the same settings and gives
    the same explanation."""
    around = crawl_around(directory)
    crawl = crawl_partitions(around or directory)
    number = None if crawl.is_job else owner_of(crawl, text)
    owner = None if number is None else crawl.partition(number)
    partition = (owner or crawl.found[0]) if around is None else whole_job(directory)
    with partition.named():
        found = explain_url(partition.directory, text)
        if found.record is None and owner is not None and found.href is not None and found.damage is None:
            before = (last_record(job / PAGES, found.href) for job in crawl.with_records(owner)[1:])
            found.record = next((each for records in before for each in records if each is not None), None)
    is_here = number is None or (around and partition_directory(around, number).resolve() == directory.resolve())
    if number is not None and not is_here:
        found.partition = Ownership(number, crawl.count, begun=owner is not None)
    return found

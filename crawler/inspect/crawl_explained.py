"""Explains a URL of a job, or of a crawl of partitions: by the one that it belongs to."""

from __future__ import annotations

from pathlib import Path

from crawler.inspect.crawl_partitions import CrawlPartitions, crawl_partitions, whole_job
from crawler.inspect.explanation import Explanation, Ownership, explain_url
from crawler.job.crawl_file import crawl_around, partition_directory
from crawler.job.directory import PAGES
from crawler.job.output.reverse_reader import last_record
from crawler.url.urls.canonicaliser import Canonical


def owner_of(crawl: CrawlPartitions, text: str) -> int | None:
    """The number of the partition that a URL belongs to; None for a text that is no URL. Raises JobError."""
    url = crawl.canonicaliser().canonicalise(text)
    return crawl.placement.of(url.href) if isinstance(url, Canonical) else None


def explain_in(directory: Path, text: str) -> Explanation:
    """Return what a job knows of a URL, of a crawl the partition to which it belongs; of a directory of a partition,
    also to which other one the URL belongs. Raises what ``open_job`` raises.

    If the partition of a URL has not begun, no URL of it was found: the settings by which another one explains the URL
    are the same, and so is what it says of it."""
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

"""Explains a URL of a crawl of partitions: by the one that it belongs to."""

from __future__ import annotations

from pathlib import Path

from crawler.inspect.crawl_partitions import CrawlPartitions, crawl_partitions
from crawler.inspect.explanation import Explanation, Ownership, explain_url
from crawler.job.crawl_file import crawl_around, partition_directory
from crawler.job.run_settings import read_run
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser


def owner_of(crawl: CrawlPartitions, text: str) -> int | None:
    """The number of the partition that a URL belongs to; None for a text that is no URL. Raises JobError."""
    rules = read_run(crawl.found[0].directory).settings.canonical.rules
    url = Canonicaliser(rules).canonicalise(text)
    return crawl.placement.of(url.href) if isinstance(url, Canonical) else None


def explain_in_crawl(crawl: CrawlPartitions, text: str, now: float | None = None) -> Explanation:
    """Return what the partition knows of a URL to which it belongs. Raises what ``open_job`` raises.

    If that partition has not begun, no URL of it was found: the settings by which another one explains the URL are the
    same, and so is what it says of it."""
    number = owner_of(crawl, text)
    owner = None if number is None else crawl.partition(number)
    partition = owner or crawl.found[0]
    with partition.named():
        found = explain_url(partition.directory, text, now)
    if number is not None:
        found.partition = Ownership(number, crawl.count, begun=owner is not None)
    return found


def explain_in_partition(partition: Path, text: str) -> Explanation:
    """Return what a job knows of a URL; of a partition of a crawl, also to which other one the URL belongs. Raises what
    ``open_job`` raises."""
    found, around = explain_url(partition, text), crawl_around(partition)
    if around is not None:
        crawl = crawl_partitions(around)
        number = owner_of(crawl, text)
        if number is not None and partition_directory(around, number).resolve() != partition.resolve():
            found.partition = Ownership(number, crawl.count, begun=crawl.partition(number) is not None)
    return found

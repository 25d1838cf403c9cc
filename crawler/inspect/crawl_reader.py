"""Reads a crawl of partitions, running or not, without touching it: its statistics and its hosts, as those of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crawler.inspect.crawl_partitions import CrawlPartitions, Partition, crawl_partitions, holds_crawl
from crawler.inspect.host_table import Row, Selection
from crawler.inspect.job_reader import job_stats
from crawler.job.job_lock import lock_holder
from crawler.metrics.pooled_stats import Part, pool


def stats_of(directory: Path) -> dict[str, Any]:
    """Return the dictionary of ``stats --json`` of a job or of a crawl. Raises what ``open_job`` raises."""
    return crawl_stats(crawl_partitions(directory)) if holds_crawl(directory) else job_stats(directory)


def crawl_stats(crawl: CrawlPartitions) -> dict[str, Any]:
    """Return the dictionary of ``stats --json`` of a crawl. Raises what ``open_job`` raises."""
    return pooled(crawl, [stats for _, stats in crawl.each(job_stats)])


def pooled(crawl: CrawlPartitions, stats: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the statistics of a crawl whose partitions have told theirs, in order."""
    return pool([_part(*each) for each in zip(crawl.found, stats, strict=True)], crawl.count)


def _part(partition: Partition, stats: dict[str, Any]) -> Part:
    return Part(partition.number, stats, lock_holder(partition.directory) or None)


def merged_hosts(
    crawl: CrawlPartitions, ranked: Callable[[Path], tuple[int, Sequence[Row]]], selection: Selection
) -> tuple[int, list[Row]]:
    """Return how many hosts the crawl has that match, and the rows that ``selection`` chooses, each with its partition.

    ``ranked`` returns the same of the job in a directory: how many match, and the first rows by the order of the
    selection, as many as it takes from the very first on."""
    total = 0
    for partition, (count, rows) in crawl.each(ranked):
        total += count
        selection.add(row | {"partition": partition.number} for row in rows)
    return total, selection.rows()

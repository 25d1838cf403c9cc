"""Reads a crawl of partitions, running or not, without touching it: its statistics, as those of a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crawler.base.kv import Family
from crawler.inspect.crawl_partitions import CrawlPartitions, crawl_partitions
from crawler.inspect.job_reader import job_stats, open_job
from crawler.job.crawl_file import partitions_gone, read_crawl_file
from crawler.job.home_register import homes_elsewhere
from crawler.job.job_lock import lock_holder
from crawler.job.metrics.pooled_stats import GONE, Part, pool


def stats_of(directory: Path) -> dict[str, Any]:
    """Return the dictionary of ``stats --json`` of a job or of a crawl. Raises what ``open_job`` raises."""
    crawl = crawl_partitions(directory)
    stats = [stats for _, stats in crawl.each(job_stats)]
    return stats[0] if crawl.is_job else pooled(crawl, stats, [told for _, told in crawl.each(waiting_messages)])


def pooled(crawl: CrawlPartitions, stats: Sequence[dict[str, Any]], waiting: Sequence[int | None]) -> dict[str, Any]:
    """Return the statistics of a crawl whose partitions have told theirs, in order, and how many messages wait in each
    for others; None is not known."""
    parts = [
        Part(partition.number, told, lock_holder(partition.directory) or None, messages)
        for partition, told, messages in zip(crawl.found, stats, waiting, strict=True)
    ]
    elsewhere = homes_elsewhere(crawl.directory, read_crawl_file(crawl.directory).id)
    made = pool(parts, crawl.count, at_work=lock_holder(crawl.directory) is not None, elsewhere=elsewhere)
    gone = {int(path.name) for path in partitions_gone(crawl.directory)}
    for line in made["partitions"]:
        if line["partition"] in gone:
            line["state"] = GONE
    return made


def waiting_messages(directory: Path) -> int:
    """Return how many messages wait in a partition until they are durable in others. Raises what ``open_job``
    raises."""
    with open_job(directory) as job:
        return sum(len(page) for page in job.store.pages(Family.OUTBOX))

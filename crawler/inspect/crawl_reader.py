"""Reads the statistics and hosts of a job or crawl of partitions, running or not, without changing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from crawler.base.kv import Family
from crawler.base.settings.sites import Sites
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition, crawl_partitions
from crawler.inspect.host_table import HostsAsked, Row, Selection, Table, all_host_rows, merged, told_by
from crawler.inspect.hosts_now import hosts_now
from crawler.inspect.job_reader import job_stats, open_job
from crawler.job.clock_anchor import job_time
from crawler.job.crawl_file import partitions_gone, partitions_left
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import read_live
from crawler.job.metrics.pooled_stats import GONE, Part, pool


def stats_of(directory: Path) -> dict[str, Any]:
    """Return the dictionary that ``stats --json`` prints for a job or crawl. Raises the exceptions of ``open_job``."""
    crawl = crawl_partitions(directory)
    stats = [stats for _, stats in crawl.each(job_stats)]
    return stats[0] if crawl.is_job else pooled(crawl, stats, [told for _, told in crawl.each(waiting_messages)])


def pooled(crawl: CrawlPartitions, stats: Sequence[dict[str, Any]], waiting: Sequence[int | None]) -> dict[str, Any]:
    """Return the statistics of a crawl from those of its partitions, in order. ``waiting`` has, for each partition, the
    number of its messages that wait for other partitions; None if unknown."""
    parts = [
        Part(partition.number, told, lock_holder(partition.directory) or None, messages)
        for partition, told, messages in zip(crawl.found, stats, waiting, strict=True)
    ]
    elsewhere = partitions_left(crawl.directory)
    made = pool(parts, crawl.count, at_work=lock_holder(crawl.directory) is not None, elsewhere=elsewhere)
    gone = {int(path.name) for path in partitions_gone(crawl.directory)}
    for line in made["partitions"]:
        if line["partition"] in gone:
            line["state"] = GONE
    return made


def hosts_of(directory: Path, asked: HostsAsked) -> Table:
    """Return part of the table of hosts; each row of a crawl also names its partition. Raises the exceptions of
    ``open_job``."""
    tables = list[tuple[dict[str, int], Table]]()
    for partition in crawl_partitions(directory).found:
        selection = Selection(asked.of_partition(), told_by(asked.sort))
        selection.add(_host_rows(partition, selection.wants))
        tables.append((partition.as_json, selection.table()))
    return merged(tables, asked)


def all_hosts_of(directory: Path) -> Iterator[Row]:
    """Yield the rows of all hosts, by partition and name. Raises the exceptions of ``open_job``."""
    for partition in crawl_partitions(directory).found:
        yield from (row | partition.as_json for row in _host_rows(partition, lambda name, value: True))


def _host_rows(partition: Partition, wants: Callable[[str, bytes], bool]) -> Iterator[Row]:
    live = read_live(partition.directory)
    with partition.named(), open_job(partition.directory) as job:
        sites, beside = Sites(job.settings), hosts_now(live, job.store)
        yield from all_host_rows(job.store, sites, job_time(job.store), beside, wants)


def waiting_messages(directory: Path) -> int:
    """Return how many messages from a partition wait until other partitions have made them durable. Raises the
    exceptions of ``open_job``."""
    with open_job(directory) as job:
        return sum(len(page) for page in job.store.pages(Family.OUTBOX))

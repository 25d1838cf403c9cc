"""Verifies a job, or each partition of a crawl as a job, and that each partition holds only its own URLs.

A URL belongs to exactly one partition. If all URLs of each partition belong to it, no URL is in two.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from crawler.base.kv import Family
from crawler.base.settings.load import SettingsError
from crawler.frontier.host import host_name, stored_host
from crawler.inspect.crawl_partitions import Partition, crawl_partitions
from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.inspect.integrity.verifier import verify_job
from crawler.inspect.job_reader import open_job
from crawler.inspect.record_stream import Tail
from crawler.job.crawl_file import partitions_gone
from crawler.job.directory import PAGES, STORE, JobError
from crawler.job.division import read_descent
from crawler.job.partition.placement import Placement
from crawler.job.store.rocks import StoreError
from crawler.job.stored_errors import DAMAGE

_URL = re.compile(rb'\{"url":("(?:[^"\\]|\\.)*")')


def verify_crawl(directory: Path) -> Iterator[tuple[Partition, Finding]]:
    """Yield the findings of each partition; none if all are intact. Raises the exceptions of ``verify_job``."""
    crawl = crawl_partitions(directory)
    for partition in crawl.found:
        yield from ((partition, finding) for finding in verify_job(partition.directory))
    if not crawl.is_job:
        yield from verify_places(directory, crawl.placement, crawl.found)


def verify_places(
    directory: Path, placement: Placement, partitions: Sequence[Partition]
) -> Iterator[tuple[Partition, Finding]]:
    """Yield the missing partitions of the crawl, and the hosts and records that belong to another partition."""
    for gone in partitions_gone(directory):
        yield Partition(int(gone.name), gone), Finding(Kind.PARTITION_GONE, gone.name)
    for partition in partitions:
        # Unreadable data is reported by the verification of the partition itself.
        with contextlib.suppress(JobError, StoreError, SettingsError, *DAMAGE):
            yield from ((partition, finding) for finding in _hosts_elsewhere(partition, placement))
            yield from ((partition, finding) for finding in _records_elsewhere(partition, placement))


def _hosts_elsewhere(partition: Partition, placement: Placement) -> Iterator[Finding]:
    with open_job(partition.directory) as job:
        for page in job.store.pages(Family.HOSTS):
            for key, value in page:
                name, host = host_name(key), stored_host(value)
                owner = placement.of_host(name)
                if owner != partition.number and (host.size or host.tally.fetched or host.tally.failed):
                    yield Finding(Kind.HOST_ELSEWHERE, STORE, {"host": name, "owner": owner}, Family.HOSTS, key)


def _records_elsewhere(partition: Partition, placement: Placement) -> Iterator[Finding]:
    """Yield one finding for all misplaced records: the first one, and their number. Those from before a split stay."""
    first, count = None, 0
    with open_job(partition.directory) as job:
        descent = read_descent(job.store)
    begin = 0 if descent is None else descent.records
    for offset, line in Tail(partition.directory, at=begin).placed():
        found = _URL.match(line)
        url = None if found is None else str(json.loads(found[1]))
        if url is not None and placement.of(url) != partition.number:
            count += 1
            first = first or (offset, url)
    if first is not None:
        offset, url = first
        details: dict[str, Detail] = {"offset": offset, "url": url, "owner": placement.of(url), "records": count}
        yield Finding(Kind.RECORDS_ELSEWHERE, PAGES, details)

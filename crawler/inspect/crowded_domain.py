"""Whether one domain has most of a crawl in partitions. All its hosts are in one partition then, and one process does
most of the work, unless the crawl was begun with ``partitions.placed_by = "host"``. That is said once a crawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crawler.base.disk import Disk, write_file
from crawler.base.kv import Family
from crawler.frontier.host import stored_counts
from crawler.inspect.job_reader import open_job
from crawler.job.crawl_file import CrawlFile, partition_directory
from crawler.job.metrics import counted
from crawler.url.urls.domain import domain_of_key

LEAST = 10_000  # URLs, finished or pending, of a crawl: with fewer, it does not matter
TOLD = "told-placed-by"  # the file in the crawl's directory that says that it was said


class CrowdWatch:
    """Watches one crawl. Partitions are looked into only if one of them has most of the URLs, and then again when there
    are twice as many."""

    def __init__(self, directory: Path, crawl: CrawlFile, disk: Disk, least: int = LEAST) -> None:
        self._directory = directory
        self._disk = disk
        self._next = least
        self._is_done = crawl.by_host or crawl.partitions == 1

    def look(self, partitions: Sequence[Mapping[str, Any]]) -> str | None:
        """The line to say now, if there is one. ``partitions``: as in the statistics of the crawl. Raises JobError,
        OSError, any of DAMAGE."""
        urls = {each["partition"]: each["pages_fetched"] + each["urls_pending"] for each in partitions}
        number, all_of_it = max(urls, key=lambda each: urls[each]), sum(urls.values())
        if self._is_done or all_of_it < self._next or 2 * urls[number] <= all_of_it:
            return None
        if (self._directory / TOLD).exists():
            self._is_done = True
            return None
        self._next = 2 * all_of_it
        domain, of_domain, hosts = _greatest(partition_directory(self._directory, number))
        if hosts < 2 or 2 * of_domain <= all_of_it:
            return None
        self._is_done = True
        write_file(self._disk, self._directory / TOLD, b"")
        return (
            f"{domain} has {of_domain:,} of {counted(all_of_it, 'URL')} on {hosts:,} hosts, all in partition "
            f'{number:02}, which one process works on: a crawl that is begun with partitions.placed_by = "host" '
            "spreads them"
        )


def _greatest(job: Path) -> tuple[str, int, int]:
    """The domain with the most URLs, finished or pending: its name, how many, and on how many hosts."""
    urls, hosts, before = Counter[bytes](), Counter[bytes](), b""
    with open_job(job) as opened:
        for page in opened.store.pages(Family.HOSTS):
            for key, value in page:
                domain, host = domain_of_key(key), key.rpartition(b":")[0]
                urls[domain] += sum(stored_counts(value)[:3])
                hosts[domain] += host != before  # one with several ports is one, and they come one after the other
                before = host
    ((greatest, count),) = urls.most_common(1) or [(b"", 0)]
    return greatest.decode("ascii", "replace"), count, hosts[greatest]

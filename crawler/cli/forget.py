"""``crawler forget``: removes URLs from a job's seen-set, so that the crawl fetches them when it finds them again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import Settings
from crawler.cli.damaged_job import changing
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.cli.named_urls import named_urls
from crawler.inspect.crawl_partitions import CrawlPartitions, crawl_partitions
from crawler.inspect.job_reader import queue
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.job_lock import at_rest
from crawler.seen.filters import NotForgotten
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.host_key import host_key


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Forget URLs: each is fetched again when a link or seed leads to it. Only the seen-sets counting, "
        "cuckoo and exact can forget."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    crawl = crawl_partitions(arguments.job)
    rules = _settings(crawl.jobs[0]).canonical.rules
    urls = [each.url for each in named_urls(arguments.urls, Canonicaliser(rules))]
    with changing(arguments.job):
        left = _forget(crawl, urls)
    for position, url in enumerate(urls):
        print(f"{left.get(position, 'forgotten')}: {url.href}")
    return Exit.FAILED if left else Exit.OK


def _settings(job: Path) -> Settings:
    return settings_from(read_identity(job).shaping, str(job))


def _forget(crawl: CrawlPartitions, urls: Sequence[Canonical]) -> dict[int, str]:
    """Make each URL's partition forget it, unless any of the URLs is pending. Returns the positions of the URLs that
    were not forgotten, with the reasons. Raises JobError, UsageError, OSError, any of DAMAGE."""
    clock, left = SteadyClock(), dict[int, str]()
    owned: dict[int, list[int]] = {}
    for position, url in enumerate(urls):
        owned.setdefault(crawl.placement.of(url.href), []).append(position)
    with ExitStack() as stack:
        stack.enter_context(at_rest(crawl.directory))
        jobs = list[tuple[Job, Sequence[int]]]()
        for number, positions in owned.items():
            partition = crawl.partition(number)
            if partition is None:
                left |= dict.fromkeys(positions, str(NotForgotten.NOT_SEEN))
                continue
            place, router = partition.directory, crawl.router(partition)
            job = Job(place, _settings(place), clock(), anchor=clock.anchor, router=router)
            jobs.append((stack.enter_context(closing(job)), positions))
        return left | _forgotten(jobs, urls, clock)


def _forgotten(
    jobs: Sequence[tuple[Job, Sequence[int]]], urls: Sequence[Canonical], clock: SteadyClock
) -> dict[int, str]:
    """Make each job forget the URLs at its positions, unless any URL of any job is pending. Returns what ``_forget``
    returns. Raises UsageError, OSError, any of DAMAGE."""
    left = dict[int, str]()
    for job, positions in jobs:
        _check_none_pending(job, [urls[position] for position in positions])
    for job, positions in jobs:
        kept = job.forget([urls[position].key for position in positions])
        left |= {positions[index]: reason for index, reason in kept.items()}
        run_interruptible(partial(_checkpoint, job, clock))
    return left


async def _checkpoint(job: Job, clock: SteadyClock) -> None:
    await job.checkpoint(clock())


def _check_none_pending(job: Job, urls: Sequence[Canonical]) -> None:
    """Raise UsageError if a URL is pending. Raises OSError, any of DAMAGE."""
    waiting = {entry.href for url in urls for _, entry in queue(job.store, host_key(url.href))}
    pending = [url for url in urls if url.href in waiting]
    if pending:
        raise UsageError(f"{pending[0].href} is pending: it will be fetched anyway")

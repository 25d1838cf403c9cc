"""``crawler forget``: removes URLs from a job's seen-set, so that they are fetched again when they are found again."""

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
from crawler.inspect.crawl_partitions import crawl_partitions, holds_crawl
from crawler.inspect.job_reader import queue
from crawler.job.crawl_at_rest import at_rest
from crawler.job.crawl_file import read_crawl_file
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.partition.router import PartitionRouter
from crawler.seen.filters import NotForgotten
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.host_key import host_key


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Forget URLs: each is fetched again when a link or a seed leads to it. Only the seen-sets counting, "
        "cuckoo and exact can forget."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    of_crawl = holds_crawl(arguments.job)
    kept = read_crawl_file(arguments.job).shaping if of_crawl else read_identity(arguments.job).shaping
    settings = settings_from(kept, str(arguments.job))
    urls = [each.url for each in named_urls(arguments.urls, Canonicaliser(settings.canonical.rules))]
    with changing(arguments.job):
        left = _forget_in_crawl(arguments.job, urls) if of_crawl else _forget(arguments.job, settings, urls)
    for position, url in enumerate(urls):
        print(f"{left.get(position, 'forgotten')}: {url.href}")
    return Exit.FAILED if left else Exit.OK


def _forget(directory: Path, settings: Settings, urls: Sequence[Canonical]) -> dict[int, str]:
    """Forget the URLs of a job. Return the positions of those that were not forgotten, and why. Raises JobError,
    UsageError, OSError, any of DAMAGE."""
    clock = SteadyClock()
    with closing(Job(directory, settings, clock(), anchor=clock.anchor)) as job:
        return _forgotten([(job, range(len(urls)))], urls, clock)


def _forget_in_crawl(directory: Path, urls: Sequence[Canonical]) -> dict[int, str]:
    """The same of a crawl: each URL is forgotten by the partition that it belongs to, or none is if one is pending."""
    clock, left, crawl = SteadyClock(), dict[int, str](), crawl_partitions(directory)
    owned: dict[int, list[int]] = {}
    for position, url in enumerate(urls):
        owned.setdefault(crawl.placement.of(url.href), []).append(position)
    with ExitStack() as stack:
        stack.enter_context(at_rest(directory))
        jobs = list[tuple[Job, Sequence[int]]]()
        for number, positions in owned.items():
            partition = crawl.partition(number)
            if partition is None:
                left |= dict.fromkeys(positions, str(NotForgotten.NOT_SEEN))
                continue
            settings = settings_from(read_identity(partition.directory).shaping, str(partition.directory))
            router = PartitionRouter(number, crawl.placement)
            job = Job(partition.directory, settings, clock(), anchor=clock.anchor, router=router)
            jobs.append((stack.enter_context(closing(job)), positions))
        return left | _forgotten(jobs, urls, clock)


def _forgotten(
    jobs: Sequence[tuple[Job, Sequence[int]]], urls: Sequence[Canonical], clock: SteadyClock
) -> dict[int, str]:
    """Have each job forget the URLs at these positions, if none of all is pending. Raises UsageError, OSError, any of
    DAMAGE."""
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
    """Raise UsageError if one of them is. Raises OSError, any of DAMAGE."""
    waiting = {entry.href for url in urls for _, entry in queue(job.store, host_key(url.href))}
    pending = [url for url in urls if url.href in waiting]
    if pending:
        raise UsageError(f"{pending[0].href} is pending: it will be fetched anyway")

"""``crawler forget``: removes URLs from a job's seen-set, so that they are fetched again when they are found again."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from crawler.checkpoint import EnvelopeError
from crawler.cli.damaged_job import stopped_text
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.named_urls import named_urls
from crawler.clock import SteadyClock
from crawler.filters import NoMemoryError
from crawler.frontier import queue_of
from crawler.inspect.job_reader import queue
from crawler.job.directory import JobError
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.stored_errors import DAMAGE
from crawler.progress.say import say
from crawler.settings import Settings, SettingsError, settings_from
from crawler.urls import Canonical, Canonicaliser


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Forget URLs: each is fetched again when a link or a seed leads to it. Only the seen-sets counting, "
        "cuckoo and exact can forget."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        settings = settings_from(read_identity(arguments.job).shaping, str(arguments.job))
    except (JobError, SettingsError) as error:
        raise UsageError(str(error)) from error
    urls = [each.url for each in named_urls(arguments.urls, Canonicaliser(settings.canonical.rules))]
    try:
        left = _forget(arguments.job, settings, urls)
    except (JobError, EnvelopeError) as error:
        raise UsageError(str(error)) from error
    except NoMemoryError as error:
        say(sys.stderr, f"crawler: error: {error}")
        return Exit.FAILED
    except DAMAGE as error:
        say(sys.stderr, f"crawler: {stopped_text(arguments.job, error)}")
        return Exit.FAILED
    for position, url in enumerate(urls):
        print(f"{left.get(position, 'forgotten')}: {url.href}")
    return Exit.FAILED if left else Exit.OK


def _forget(directory: Path, settings: Settings, urls: Sequence[Canonical]) -> dict[int, str]:
    """Forget the URLs. Return the positions of those that were not forgotten, and why. Raises JobError, UsageError,
    OSError, any of DAMAGE."""
    clock = SteadyClock()
    job = Job(directory, settings, clock(), anchor=clock.anchor)
    try:
        waiting = {entry.href for url in urls for _, entry in queue(job.store, queue_of(url.href))}
        pending = [url for url in urls if url.href in waiting]
        if pending:
            raise UsageError(f"{pending[0].href} is pending: it will be fetched anyway")
        left = job.forget([url.key for url in urls])
        asyncio.run(job.checkpoint(clock()))
        return left
    finally:
        job.close()

"""``crawler forget``: take URLs out of a job's seen-set, so that they are fetched again when they are found again."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from crawler.cli.errors import Exit, UsageError
from crawler.clock import SteadyClock
from crawler.crawl.identity import JobError, read_identity
from crawler.crawl.job import Job
from crawler.crawl.look import queue
from crawler.settings import SettingsError, settings_from
from crawler.urls import Canonicaliser, Rejected, host_key


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The URLs are fetched again when they are found again, as a link or a seed. Only the seen-sets "
        "counting, cuckoo and exact can forget."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        settings = settings_from(read_identity(arguments.job), str(arguments.job))
    except (JobError, SettingsError) as error:
        raise UsageError(str(error)) from error
    canonicaliser = Canonicaliser(settings.canonical.rules)
    urls = []
    for text in arguments.urls:
        url = canonicaliser.canonicalise(text)
        if isinstance(url, Rejected):
            raise UsageError(f"{text!r}: {url.reason}")
        urls.append(url)
    clock = SteadyClock()
    try:
        job = Job(arguments.job, settings, clock(), anchor=clock.anchor)
    except JobError as error:
        raise UsageError(str(error)) from error
    try:
        waiting = {entry.href for url in urls for _, entry in queue(job.store, host_key(url.href))}
        pending = [url for url in urls if url.href in waiting]
        if pending:
            raise UsageError(f"{pending[0].href} is pending: it will be fetched, there is nothing to forget")
        try:
            absent = set(job.forget([url.key for url in urls]))
        except JobError as error:
            raise UsageError(str(error)) from error
        asyncio.run(job.checkpoint(clock()))
    finally:
        job.close()
    for position, url in enumerate(urls):
        print(f"{'was not seen' if position in absent else 'forgotten'}: {url.href}")
    return Exit.FAILED if absent else Exit.OK

"""``crawler reload DIR``: makes the running crawl read its configuration again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from crawler.base.disk import RealDisk
from crawler.base.say import say
from crawler.base.settings.live import Change
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.inspect.crawl_partitions import crawl_partitions, holds_any
from crawler.job.inbox import Inbox
from crawler.job.job_lock import lock_holder
from crawler.service.commands import NOT_RUNNING, Command, Refusal, Refused, Reloaded, give_command


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Have the running crawl read its configuration file again. The whole file is checked before anything changes. "
        "Settings that cannot change during a run are listed; flags that the crawl was started with take precedence."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    if not holds_any(directory):
        raise UsageError(f"{directory} holds no crawl: name a job directory")
    running = {job: pid for job in crawl_partitions(directory).jobs if (pid := lock_holder(job))}
    if not running:
        raise FailedError(f"error: {NOT_RUNNING.text}: the next run will read its configuration")
    # Partitions of one process share one configuration.
    return max(_reload(job, pid) for pid, job in {pid: job for job, pid in running.items()}.items())


def _reload(directory: Path, pid: int) -> int:
    result = run_interruptible(lambda: give_command(Inbox(directory, RealDisk()), pid, Command("reload")))
    if isinstance(result, Refused):
        say(sys.stderr, f"crawler: error: {result.text}")
        return Exit.USAGE if result.why is Refusal.SENSELESS else Exit.FAILED
    if isinstance(result, Reloaded):
        _print(result.changed, "")
        _print(result.restart, "needs a restart: ")
        if not result.changed:
            print("nothing changed")
    return Exit.OK


def _print(changes: Sequence[Change], before: str) -> None:
    for change in changes:
        print(f"{before}{change.words}")

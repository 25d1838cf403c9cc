"""``crawler stats``, ``crawler explain`` and ``crawler verify``: looking at a job, running or not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawler.cli.errors import DAMAGE, Exit, UsageError
from crawler.clock import SteadyClock
from crawler.crawl.explain import explain_url
from crawler.crawl.identity import JobError
from crawler.crawl.look import job_stats
from crawler.crawl.verify import verify_job
from crawler.progress import summary
from crawler.settings import SettingsError


def add_parsers(commands: Any) -> None:
    stats = commands.add_parser("stats", help="seen-set and frontier statistics of a job, running or not")
    stats.add_argument("job", type=Path, metavar="DIR")
    stats.add_argument("--json", action="store_true", help="one JSON object")
    stats.set_defaults(run=guarded(_stats))
    explain = commands.add_parser("explain", help="all that a job knows of one URL")
    explain.add_argument("job", type=Path, metavar="DIR")
    explain.add_argument("url", metavar="URL")
    explain.set_defaults(run=guarded(_explain))
    verify = commands.add_parser("verify", help="check every checksum and cross-count of a job")
    verify.add_argument("job", type=Path, metavar="DIR")
    verify.set_defaults(run=guarded(_verify))


def guarded(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """No job, or one that cannot be read: one line."""

    def run(arguments: argparse.Namespace) -> int:
        try:
            return command(arguments)
        except JobError as error:
            raise UsageError(str(error)) from error
        except (*DAMAGE, SettingsError) as error:
            print(f"{arguments.job}: {error}")
            return Exit.FAILED

    return run


def _stats(arguments: argparse.Namespace) -> int:
    stats = job_stats(arguments.job)
    print(json.dumps(stats, indent=2) if arguments.json else summary(stats))
    return Exit.OK


def _explain(arguments: argparse.Namespace) -> int:
    for line in explain_url(arguments.job, arguments.url, SteadyClock()()):
        print(line)
    return Exit.OK


def _verify(arguments: argparse.Namespace) -> int:
    faults = 0
    for fault in verify_job(arguments.job):
        print(f"{arguments.job}: {fault}")
        faults += 1
    if faults:
        return Exit.FAILED
    print(f"{arguments.job}: whole")
    return Exit.OK

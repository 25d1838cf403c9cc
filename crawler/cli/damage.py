"""What commands that look at a job say when it cannot be read."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from crawler.checkpoint import EnvelopeError
from crawler.cli.errors import Exit, UsageError
from crawler.crawl.identity import JobError
from crawler.filters import FilterError, FormatError
from crawler.frontier import EntryError, HostRecordError, PageError
from crawler.records import JournalError
from crawler.robots import RobotsRecordError
from crawler.settings import SettingsError
from crawler.traps import CopyRecordError, TrapRecordError

# What a reader of stored bytes raises when they are not what the program wrote.
DAMAGE = (
    EnvelopeError,
    FilterError,
    FormatError,
    EntryError,
    HostRecordError,
    JournalError,
    PageError,
    RobotsRecordError,
    TrapRecordError,
    CopyRecordError,
)


def guarded(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """No job in ``arguments.job``, or one that cannot be read: one line."""

    def run(arguments: argparse.Namespace) -> int:
        try:
            return command(arguments)
        except JobError as error:
            raise UsageError(str(error)) from error
        except (*DAMAGE, SettingsError) as error:
            print(f"{arguments.job}: {error}")
            return Exit.FAILED

    return run

"""What can be wrong with what the user gave, and how the program ends."""

from __future__ import annotations

from enum import IntEnum

from crawler.checkpoint import EnvelopeError
from crawler.crawl.robots_cache import RobotsRecordError
from crawler.filters import FilterError, FormatError
from crawler.frontier import EntryError, HostRecordError
from crawler.records import JournalError
from crawler.traps import TrapRecordError


class Exit(IntEnum):
    """The exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    LIMIT = 3
    INTERRUPTED = 130


class UsageError(Exception):
    """Bad usage, configuration or input; the text is one line that says what, and what to do."""


# What a reader of stored bytes raises when they are not what the program wrote.
DAMAGE = (
    EnvelopeError,
    FilterError,
    FormatError,
    EntryError,
    HostRecordError,
    JournalError,
    RobotsRecordError,
    TrapRecordError,
)

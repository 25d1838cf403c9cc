"""The errors that readers of stored bytes raise, for code that must distinguish damage from a bug."""

from __future__ import annotations

from crawler.frontier.entry import EntryError
from crawler.frontier.host import HostRecordError
from crawler.frontier.page import PageError
from crawler.frontier.traps.copies import CopyRecordError
from crawler.frontier.traps.counts import TrapRecordError
from crawler.frontier.traps.soft404 import Soft404RecordError
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.left_out import LeftOutError
from crawler.job.records import JournalError
from crawler.job.steps.seal import ChunkError
from crawler.seen.filters import FilterError, FormatError
from crawler.url.robots.parse import RobotsRecordError
from crawler.url.scope.bounds import BoundsError


class DamagedPartitionError(Exception):
    """An error from reading one partition of a crawl. ``str`` is one line that starts with the partition's
    directory."""


# Raised by a reader if the stored bytes are not what the program wrote.
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
    Soft404RecordError,
    LeftOutError,
    BoundsError,
    ChunkError,
    DamagedPartitionError,
)

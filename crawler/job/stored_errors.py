"""The errors that readers of stored bytes raise, for code that must tell damage from a bug."""

from __future__ import annotations

from crawler.checkpoint import EnvelopeError
from crawler.filters import FilterError, FormatError
from crawler.frontier import EntryError, HostRecordError, PageError
from crawler.job.border import BorderError
from crawler.job.held_back import HeldBackError
from crawler.partition.quota import QuotaError
from crawler.records import JournalError
from crawler.replica import ChunkError
from crawler.robots import RobotsRecordError
from crawler.scope import BoundsError
from crawler.traps import CopyRecordError, Soft404RecordError, TrapRecordError


class DamagedPartitionError(Exception):
    """What a reader of stored bytes raises of one partition of a crawl. ``str`` is one line that begins with its
    directory."""


# Raised by a reader of stored bytes when they are not what the program wrote.
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
    HeldBackError,
    BorderError,
    BoundsError,
    QuotaError,
    ChunkError,
    DamagedPartitionError,
)

"""The records of a job that no crash can undo, for a single complete read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from crawler.inspect.record_stream import Tail
from crawler.job.directory import PAGES, JobError
from crawler.job.output import Record, record_of
from crawler.job.records import JournalError

T = TypeVar("T")

_BUSY = 10.0  # seconds to wait for a job in use to report how far its records are final
_POLL = 0.1  # seconds between two checks


def final_records(directory: Path) -> Iterator[tuple[Record, int]]:
    """Yield (record, its length in bytes) for each finished URL, in order of completion. Raises JobError, OSError and,
    for a line that is not a record, JournalError."""
    for number, line in enumerate(final_lines(directory), 1):
        record = record_of(line)
        if record is None:
            raise JournalError(f"{PAGES}: line {number} is not a record; run `crawler verify`")
        yield record, len(line)


def final_lines(directory: Path) -> Iterator[bytes]:
    """Yield the unchanged lines of these records. Raises JobError, OSError."""
    tail = Tail(directory)
    once_known(directory, lambda: tail.knows_end() or None)
    yield from tail.more()


def once_known(directory: Path, look: Callable[[], T | None]) -> T:
    """Poll until it is known how far records are final, and return the result. Raises JobError."""
    deadline = time.monotonic() + _BUSY
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise JobError(f"{directory} is in use by a process that shows no records: try again later")
        time.sleep(_POLL)
    return found

"""``pages.jsonl``, in one file or several: one JSON object for each finished URL, in finishing order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from crawler.job.output.record_text import has_text, open_text

_LINE_MAX = 2**20  # bytes; a record has three URLs at most, and none of 64 KiB is read


def lines_of(path: Path, end: int | None = None, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """(offset, line with its line feed) of the lines that begin at ``start`` or later and before ``end``. A line longer
    than any record comes in pieces. Empty if there is no file. Raises OSError."""
    if not has_text(path):
        return
    with open_text(path) as stream:
        stream.seek(start)
        while (end is None or start < end) and (line := stream.readline(_LINE_MAX)):
            yield start, line
            start += len(line)

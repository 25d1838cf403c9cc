"""``pages.jsonl``, in one or several files: one JSON object for each finished URL, in finishing order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from crawler.job.output.record_text import has_text, open_text

_LINE_MAX = 2**20  # bytes; a record has at most three URLs, each shorter than 64 KiB


def lines_of(path: Path, end: int | None = None, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line with its line feed) for the lines that start in the range from ``start`` to ``end``.

    A line longer than any record comes in pieces. Empty if there is no file. Raises OSError."""
    if not has_text(path):
        return
    with open_text(path) as stream:
        stream.seek(start)
        while (end is None or start < end) and (line := stream.readline(_LINE_MAX)):
            yield start, line
            start += len(line)

"""Reads ``pages.jsonl`` backwards, because users ask for the latest records.

The file is read backwards in pieces from a given offset, so memory stays bounded whatever the file's size. The
iterators yield None between pieces, so that the caller can stop a long search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from crawler.job.output.record_reader import Record, decoded
from crawler.job.output.record_text import has_text, open_text

PIECE = 2**20  # bytes read at a time


def lines_backwards(
    path: Path, end: int | None = None, piece: int = PIECE, *, whole: bool = False
) -> Iterator[tuple[int, bytes] | None]:
    """Yield (offset, line with its line feed) from the last complete line before ``end`` (default: the end of the file)
    to the first, and None after every ``piece`` bytes. ``whole``: see ``open_text``. Raises OSError."""
    if not has_text(path):
        return
    with open_text(path, whole=whole) as stream:
        size = stream.seek(0, 2)
        at = size if end is None else min(end, size)
        rest = b""  # of the line that crosses ``at``: the part after ``at``
        while at > 0:
            start = max(0, at - piece)
            stream.seek(start)
            first, *lines = (stream.read(at - start) + rest).split(b"\n")
            rest = first
            if lines:
                lines.pop()  # not a line: the bytes after the last line feed
                offset = start + len(first) + 1 + sum(len(line) + 1 for line in lines)
                for line in reversed(lines):
                    offset -= len(line) + 1
                    yield offset, line + b"\n"
                rest += b"\n"
            at = start
            yield None
        if rest.endswith(b"\n"):
            yield 0, rest


def line_before(path: Path, end: int) -> bytes | None:
    """Return the line that ends at the offset ``end``, with its line feed; None if there is none. Raises OSError."""
    found = next((each for each in lines_backwards(path, end, whole=True) if each is not None), None)
    return None if found is None or found[0] + len(found[1]) != end else found[1]


def last_record(path: Path, href: str, piece: int = PIECE) -> Iterator[Record | None]:
    """Yield None for each piece searched, then the last record of the URL, if there is one. Raises OSError, and
    JournalError if the record is damaged."""
    wanted = f'{{"url":{json.dumps(href)},'.encode("ascii")
    for found in lines_backwards(path, None, piece):
        if found is None:
            yield None
        elif found[1].startswith(wanted):
            yield decoded(*found, path.name)
            return

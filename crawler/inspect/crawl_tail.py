"""Shows each record of a crawl once, as it arrives, by merging its partitions' streams by time.

Each partition yields its records in the order in which they finished. Of the records that are final in several
partitions at one read, the earliest comes first; those that become final later come later, whatever their time.

A cursor of a crawl holds the position in each partition: ``2-`` and, in base64url, 16 bytes for each partition with
records read, ordered by number: the number (2 bytes), the offset after the last record (6) and the mark of that record
(8), as made by ``crawler.job.output.changes``. ``0`` is the start.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from crawler.inspect.crawl_partitions import PARTITIONS, crawl_partitions, holds_crawl
from crawler.inspect.record_stream import Tail
from crawler.job.crawl_file import partitions_left
from crawler.job.directory import PAGES
from crawler.job.output.changes import BEGINNING, Cursor, CursorError, told_change
from crawler.job.output.reverse_reader import decoded

_TIME = re.compile(rb',"fetched_at":"([^"]*)"')  # text from pages cannot match: its quotation marks are escaped
_PLACE = struct.Struct(">H6s8s")
_VERSION = "2-"


def tail_of(directory: Path, outcomes: Collection[str] = ()) -> Tail | CrawlTail:
    """Return the stream of records of a job or crawl. Raises JobError, OSError."""
    return CrawlTail(directory, outcomes) if holds_crawl(directory) else Tail(directory, outcomes)


class _Found(NamedTuple):
    """A record of a partition: its sort key and position."""

    time: bytes
    number: int
    offset: int
    line: bytes


class CrawlTail:
    """The records of the crawl in ``directory`` with one of these ``outcomes``, or all if none is given. Partitions
    that start or arrive later are included, those that moved to another directory are not. Raises JobError, OSError."""

    def __init__(self, directory: Path, outcomes: Collection[str] = ()) -> None:
        self._directory = directory
        self._outcomes = outcomes
        self._tails: dict[int, Tail] = {}
        self._read: dict[int, Cursor] = {}  # position after the last record shown with its change
        self._away: dict[int, int] = {}  # positions in partitions that moved to another directory
        self._look()

    def last(self, count: int) -> list[bytes] | None:
        """Like `Tail.last`; None until all partitions know how far their records are final."""
        self._look()
        found = list[_Found]()
        for number, tail in self._tails.items():
            lines = tail.last(count)
            if lines is None:
                return None
            found += [_Found(_time(line), number, place, line) for place, line in enumerate(lines)]
        return [each.line for each in sorted(found)[-count:]] if count else []

    def resume(self, since: str) -> bool:
        """Like `Tail.resume`. Raises CursorError."""
        read = parse_places(since)
        self._look()
        # A partition now in another directory may come back: its position stays in the cursor until then.
        if not read.keys() - self._tails.keys() <= partitions_left(self._directory):
            raise CursorError(f"the cursor {since} does not belong to this crawl: start again with 0 and an empty copy")
        for number, tail in self._tails.items():
            try:
                if not tail.resume(str(read.get(number, BEGINNING))):
                    return False
            except CursorError as error:
                raise CursorError(f"partition {number}: {error}") from error
        self._read = dict(read)
        return True

    def more(self) -> Iterator[bytes]:
        """Like `Tail.more`."""
        for found in self._more():
            yield found.line

    def changes(self) -> Iterator[bytes]:
        """Yield the same records, each with its change and the cursor after it."""
        for found in self._more():
            self._read[found.number] = Cursor.after(found.line, found.offset + len(found.line))
            record = decoded(found.offset, found.line, f"{PARTITIONS}/{found.number:02}/{PAGES}")
            yield told_change(found.line, record, cursor_text(self._read))

    def _more(self) -> Iterator[_Found]:
        self._look()
        return heapq.merge(*(_records(number, tail) for number, tail in self._tails.items()))

    def _look(self) -> None:
        found = {each.number: each.directory for each in crawl_partitions(self._directory).found}
        moved = self._tails.keys() - found.keys()
        for number in moved & partitions_left(self._directory) if moved else ():
            self._away[number] = self._tails.pop(number).at
        for number, directory in found.items():
            if number not in self._tails:
                self._tails[number] = Tail(directory, self._outcomes, self._place(number))
                self._away.pop(number, None)

    def _place(self, number: int) -> int:
        """Return the position in a partition that is new here or has returned."""
        read = self._read.get(number)
        return self._away.get(number, 0) if read is None else read.end


def _records(number: int, tail: Tail) -> Iterator[_Found]:
    """Yield the new records of a partition. Times are raised to the latest so far, so that merging keeps the order."""
    latest = b""
    for offset, line in tail.placed():
        latest = max(latest, _time(line))
        yield _Found(latest, number, offset, line)


def _time(line: bytes) -> bytes:
    """Return when the URL of a record was finished, in RFC 3339: these texts sort like the times."""
    found = _TIME.search(line)
    return b"" if found is None else found[1]


def cursor_text(read: Mapping[int, Cursor]) -> str:
    """Return the cursor for the positions in all partitions."""
    places = [
        _PLACE.pack(number, cursor.end.to_bytes(6), bytes.fromhex(cursor.mark))
        for number, cursor in sorted(read.items())
        if cursor != BEGINNING
    ]
    return _VERSION + base64.urlsafe_b64encode(b"".join(places)).decode("ascii") if places else str(BEGINNING)


def parse_places(text: str) -> dict[int, Cursor]:
    """The inverse of ``cursor_text``. Raises CursorError."""
    if text == str(BEGINNING):
        return {}
    try:
        data = base64.b64decode(text.removeprefix(_VERSION), b"-_", validate=True)
        places = list(_PLACE.iter_unpack(data))
        if not text.startswith(_VERSION) or not places:
            raise ValueError(text)
    except (ValueError, binascii.Error, struct.error) as error:
        raise CursorError(
            f"{text!r} is not a cursor of a crawl of partitions: give the cursor of one of its records, or 0 "
            "for the start"
        ) from error
    return {number: Cursor(0, int.from_bytes(end), mark.hex()) for number, end, mark in places}

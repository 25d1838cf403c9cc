"""Shows each record of a crawl once, as it arrives: the streams of its partitions, merged by their times.

A partition shows its records in the order in which they finished. Of what is final in several partitions at a look, the
earliest comes first; what becomes final later comes later, whatever its time.

A cursor of a crawl says how far each partition was read: ``2-`` and, in base64url, 16 bytes for each partition of which
something was read, by number: the number (2 bytes), the offset after the last record (6) and the mark of that record
(8), as ``crawler.job.output.changes`` makes it. ``0`` is the beginning.
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

_TIME = re.compile(rb',"fetched_at":"([^"]*)"')  # in text of strangers, the quotation marks would be escaped
_PLACE = struct.Struct(">H6s8s")
_VERSION = "2-"


def tail_of(directory: Path, outcomes: Collection[str] = ()) -> Tail | CrawlTail:
    """The records in a directory of a job or a crawl. Raises JobError, OSError."""
    return CrawlTail(directory, outcomes) if holds_crawl(directory) else Tail(directory, outcomes)


class _Found(NamedTuple):
    """A record of a partition: what it is sorted by, and its place there."""

    time: bytes
    number: int
    offset: int
    line: bytes


class CrawlTail:
    """The records of the crawl in ``directory`` with one of these ``outcomes``, or all if that is empty; also of
    partitions that begin or come here later, and without those that have moved to another directory. Raises JobError,
    OSError."""

    def __init__(self, directory: Path, outcomes: Collection[str] = ()) -> None:
        self._directory = directory
        self._outcomes = outcomes
        self._tails: dict[int, Tail] = {}
        self._read: dict[int, Cursor] = {}  # the last record that was shown with its change
        self._away: dict[int, int] = {}  # how far partitions were read that have moved to another directory
        self._look()

    def last(self, count: int) -> list[bytes] | None:
        """As of a `Tail`; None until all partitions know how far their records are final."""
        self._look()
        found = list[_Found]()
        for number, tail in self._tails.items():
            lines = tail.last(count)
            if lines is None:
                return None
            found += [_Found(_time(line), number, place, line) for place, line in enumerate(lines)]
        return [each.line for each in sorted(found)[-count:]] if count else []

    def resume(self, since: str) -> bool:
        """As of a `Tail`. Raises CursorError."""
        read = parse_places(since)
        self._look()
        # A partition that is in another directory now may come back: its place stays in the cursor until then.
        if not read.keys() - self._tails.keys() <= partitions_left(self._directory):
            raise CursorError(
                f"the cursor {since} does not belong to this crawl: begin again, with 0 and an empty copy"
            )
        for number, tail in self._tails.items():
            try:
                if not tail.resume(str(read.get(number, BEGINNING))):
                    return False
            except CursorError as error:
                raise CursorError(f"partition {number}: {error}") from error
        self._read = dict(read)
        return True

    def more(self) -> Iterator[bytes]:
        """As of a `Tail`."""
        for found in self._more():
            yield found.line

    def changes(self) -> Iterator[bytes]:
        """The same, each with its change and the cursor after it."""
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
        """How far a partition was read that was not here, or not for a while."""
        read = self._read.get(number)
        return self._away.get(number, 0) if read is None else read.end


def _records(number: int, tail: Tail) -> Iterator[_Found]:
    """What is new in a partition. In its order no time is earlier than the one before, so that merging keeps it."""
    latest = b""
    for offset, line in tail.placed():
        latest = max(latest, _time(line))
        yield _Found(latest, number, offset, line)


def _time(line: bytes) -> bytes:
    """When the URL of a record was finished, in RFC 3339: these sort as the times do."""
    found = _TIME.search(line)
    return b"" if found is None else found[1]


def cursor_text(read: Mapping[int, Cursor]) -> str:
    """The cursor after what was read of each partition."""
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
            f"{text!r} is no cursor of a crawl of partitions: give one that was shown with a record of it, or 0 for "
            "the beginning"
        ) from error
    return {number: Cursor(0, int.from_bytes(end), mark.hex()) for number, end, mark in places}

"""Shows each record once, as it arrives: ``crawler tail``. Finds the URLs that now refuse a use of their pages.

A killed crawl may leave records in ``pages.jsonl`` that are not in its journal. They are cut off when the crawl
resumes, and their URLs are fetched again. Readers of the stream must not see them, so a record is shown only once it is
final. Every second, a running crawl writes to ``live.json`` the offset up to which records are final: the end of the
output when output and journal were last synced to disk. If no crawl is running, the journal has this offset.

The streams of a crawl's partitions are merged by time (``CrawlTail``). Each partition yields its records in the order
in which they finished. Records found final in the same read are sorted by time; records that become final later come
after these, whatever their time.

A cursor of a crawl holds the position in each partition: ``2-``, then, in base64url, 16 bytes for each partition whose
records were read, ordered by number: the number (2 bytes), the offset after the last record (6) and the mark of that
record (8), as made by ``crawler.job.output.changes``. ``0`` is the start.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import os
import re
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from crawler.inspect.crawl_partitions import PARTITIONS, crawl_partitions, holds_crawl
from crawler.inspect.job_reader import open_job
from crawler.job.crawl_file import partitions_left
from crawler.job.directory import PAGES, JobError
from crawler.job.identity import read_identity
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import read_live
from crawler.job.output.changes import BEGINNING, Cursor, CursorError, told_change, with_change
from crawler.job.output.record_reader import Record, decoded
from crawler.job.output.record_text import open_text, path_at, segments_of
from crawler.job.output.reverse_reader import line_before, lines_backwards
from crawler.job.records import JournalError, Outcome
from crawler.job.recovery import journalled_end
from crawler.job.revisit import NOT_MODIFIED

T = TypeVar("T")

_BUSY = 10.0  # seconds to wait for a job in use to report which of its records are final
_POLL = 0.1  # seconds between two checks


class ReplacedError(JobError):
    """The file of records has been replaced or truncated since it was last read."""


class Tail:
    """The records of the job in ``directory``, from offset ``at`` on: those with one of these ``outcomes``, or all
    records if no outcome is given. Raises JobError if there is no job, and the exceptions of ``open_job``."""

    def __init__(
        self,
        directory: Path,
        outcomes: Collection[str] = (),
        at: int = 0,
        end: Callable[[], int | None] | None = None,
    ) -> None:
        """``end`` returns the offset up to which records are final, or None if it is not known yet; by default, this
        offset is read from the job."""
        if end is None:
            read_identity(directory)
        self._end = end
        self._directory = directory
        self._path = directory / PAGES
        self._wanted = [f'"outcome":"{outcome}"'.encode("ascii") for outcome in outcomes]
        self._outcomes = frozenset(outcomes)
        self._file: tuple[int, int] | None = None
        self.at = at  # the offset up to which records have been read
        # The end of the output if no crawl is running, with the file's size and modification time when it was read.
        self._idle_end: tuple[tuple[int, int], int] | None = None

    def last(self, count: int) -> list[bytes] | None:
        """Return the last ``count`` records, in order; ``more`` continues after them. Returns None if it is not yet
        known which records are final; in a new run this is known after the first sync."""
        end = self.end()
        if end is None:
            return None
        self.at, found = end, list[bytes]()
        if count == 0:
            return found
        for each in lines_backwards(self._path, end, whole=True):
            if each is not None and self._is_wanted(*self._checked(*each)):
                found.append(each[1])
                if len(found) == count:
                    break
        return found[::-1]

    def resume(self, since: str) -> bool:
        """Continue after a cursor. Returns False, and does nothing, if it is not known yet which records are final.
        Raises CursorError if the cursor does not belong to the job."""
        cursor, end = Cursor.parse(since), self.end()
        if end is None:
            return False
        cursor.check(end, partial(line_before, self._path))
        self.at = cursor.end
        return True

    def more(self) -> Iterator[bytes]:
        """Yield, in order, the records that have become final since the last call."""
        for _, line in self.placed():
            yield line

    def changes(self) -> Iterator[bytes]:
        """Yield the same records as ``more``, each with its change and the cursor after it."""
        for offset, line in self.placed():
            yield with_change(line, decoded(offset, line, PAGES), offset + len(line))

    def placed(self, most: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the same records as ``more``, each with its offset. With ``most``, only records that start in the next
        ``most`` bytes."""
        end, begin = self.end(), self.at
        if end is None or end == begin == 0:
            return
        with open_text(self._path, whole=True) as stream:
            self._check_same(self._path.stat(), end)
            stream.seek(self.at)
            while self.at < end and (most is None or self.at < begin + most):
                line = stream.readline()
                if self.at + len(line) > end or not line.endswith(b"\n"):
                    raise JobError(f"{self._path}: offset {self.at}: no record ends at {end}; run `crawler verify`")
                offset, self.at = self.at, self.at + len(line)
                if self._is_wanted(*self._checked(offset, line)):
                    yield offset, line

    def end(self) -> int | None:
        """Return the offset up to which records are final; None if not known yet."""
        if self._end is not None:
            return self._end()
        live = read_live(self._directory)
        if live is not None:
            self._idle_end = None
            return live.output_end
        if lock_holder(self._directory) is not None:
            self._idle_end = None
            return None
        # This also finds the records of a run that has started and ended since the last call.
        looks = self._looks()
        if self._idle_end is None or self._idle_end[0] != looks:
            with open_job(self._directory) as job:
                self._idle_end = looks, journalled_end(job.store)
        return self._idle_end[1]

    def _looks(self) -> tuple[int, int]:
        last = segments_of(self._path)[-1]
        try:
            return last.start + last.size, last.path.stat().st_mtime_ns
        except FileNotFoundError:
            return last.start + last.size, 0

    def _check_same(self, now: os.stat_result, end: int) -> None:
        file = (now.st_dev, now.st_ino)
        if (self._file is not None and self._file != file) or self.at > end:
            raise ReplacedError(
                f"{self._path} has been replaced or shortened since it was last read (by a repair?): start again"
            )
        self._file = file

    def _checked(self, offset: int, line: bytes) -> tuple[int, bytes]:
        """Return the arguments unchanged, or raise JournalError if the line cannot be a record, for example if it has
        the zeros of a hole in the file. Decoding each line would take much longer."""
        if line.startswith(b"{") and line.endswith(b"}\n") and b"\0" not in line:
            return offset, line
        raise JournalError(
            f"{path_at(self._path, offset)}: offset {offset}: not a record; run `crawler verify {self._directory}`"
        )

    def _is_wanted(self, offset: int, line: bytes) -> bool:
        if not self._outcomes:
            return True
        # These bytes may also be part of a URL, so the outcome is checked below.
        if not any(words in line for words in self._wanted):
            return False
        return decoded(offset, line, PAGES).get("outcome") in self._outcomes


# -- for a single complete read ---------------------------------------------------------------------------------------


def final_records(directory: Path) -> Iterator[tuple[Record, int]]:
    """Yield (record, its length in bytes) for each finished URL, in order of completion. Raises JobError, OSError and,
    for a line that is not a record, JournalError."""
    for offset, line in final_lines(directory):
        yield decoded(offset, line, PAGES), len(line)


def final_lines(directory: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the unchanged lines of these records, each with its offset. Raises JobError, OSError."""
    tail = Tail(directory)
    once_known(directory, tail.end)
    yield from tail.placed()


def once_known(directory: Path, look: Callable[[], T | None]) -> T:
    """Poll ``look`` until it is known which records are final, and return the result. Raises JobError."""
    deadline = time.monotonic() + _BUSY
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise JobError(f"{directory} is in use by a process that shows no records: try again later")
        time.sleep(_POLL)
    return found


# -- pages that refuse a use -----------------------------------------------------------------------------------------

Purposes = Collection[str]


def refused(jobs: Iterable[Path], purposes: Purposes) -> set[str]:
    """Return the URLs that now refuse one of the purposes. A visit that returned a page can add or remove a refusal;
    other visits, such as those with status 304, can only add one. Raises JobError, OSError and JournalError."""
    found = set[str]()
    for record, _ in chain.from_iterable(map(final_records, jobs)) if purposes else ():
        stated = record.get("consent", {})
        if any(stated.get(purpose) == "no" for purpose in purposes):
            found.add(str(record["url"]))
        elif _is_page(record):
            found.discard(str(record["url"]))
    return found


def retracted(jobs: Collection[Path], purposes: Purposes) -> list[str]:
    """Return the URLs that now refuse one of the purposes, and of which a job holds pages. Raises JobError, OSError and
    JournalError."""
    found, records = refused(jobs, purposes), chain.from_iterable(map(final_records, jobs))
    held = (record["url"] for record, _ in records if _is_page(record) and record["outcome"] == Outcome.FETCHED)
    return sorted(found.intersection(held))


def _is_page(record: Record) -> bool:
    status = record["status"]
    good = isinstance(status, int) and 200 <= status < 400 and status != NOT_MODIFIED
    return good and record["outcome"] in (Outcome.FETCHED, Outcome.EXCLUDED)


# -- the streams of partitions, merged -------------------------------------------------------------------------------

_TIME = re.compile(rb',"fetched_at":"([^"]*)"')  # text from pages cannot match, because its quotation marks are escaped
_PLACE = struct.Struct(">H6s8s")
_VERSION = "2-"


def tail_of(directory: Path, outcomes: Collection[str] = ()) -> Tail | CrawlTail:
    """Return the stream of records of a job or crawl. Raises JobError, OSError."""
    return CrawlTail(directory, outcomes) if holds_crawl(directory) else Tail(directory, outcomes)


class _Found(NamedTuple):
    """A record found in a partition, with its sort key and position."""

    time: bytes
    number: int
    offset: int
    line: bytes


class CrawlTail:
    """The records of the crawl in ``directory``: those with one of these ``outcomes``, or all records if no outcome is
    given. Partitions that start or arrive later are included; those that move to another directory are left out. Raises
    JobError, OSError."""

    def __init__(self, directory: Path, outcomes: Collection[str] = ()) -> None:
        self._directory = directory
        self._outcomes = outcomes
        self._tails: dict[int, Tail] = {}
        self._read: dict[int, Cursor] = {}  # position after the last record shown with its change
        self._away: dict[int, int] = {}  # positions in partitions that moved to another directory
        self._look()

    def last(self, count: int) -> list[bytes] | None:
        """Like `Tail.last`; returns None until the end of the final records is known for all partitions."""
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
        # A partition that moved to another directory may return: until then, its position stays in the cursor.
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
        """Yield the same records as ``more``, each with its change and the cursor after it."""
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
        """Return the position at which to read a partition that is new in this directory or has returned to it."""
        read = self._read.get(number)
        return self._away.get(number, 0) if read is None else read.end


def _records(number: int, tail: Tail) -> Iterator[_Found]:
    """Yield the new records of a partition. A time earlier than the latest so far is replaced by the latest, so that
    merging keeps the order."""
    latest = b""
    for offset, line in tail.placed():
        latest = max(latest, _time(line))
        yield _Found(latest, number, offset, line)


def _time(line: bytes) -> bytes:
    """Return when the URL of a record was finished, as RFC 3339 text, which sorts in order of time."""
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
    return {number: Cursor(int.from_bytes(end), mark.hex()) for number, end, mark in places}

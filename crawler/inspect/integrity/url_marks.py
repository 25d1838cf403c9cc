"""Finds out which URLs a damaged job still knows, from 8 bytes of each, and the state of each URL.

For each URL of an intact job, admitted = finished + pending. Each side is stored twice (in queue and journal, in
journal and output), so URLs lost in one part may still be in another:

    a pending URL                               is fetched, whatever the output contains: its links may be lost
    a record in the output, not pending         is finished
    a finished URL without a complete record    is pending again, if the journal still has its address
    a digest only in the journal                has lost its address: it is forgotten, and admitted when found again
    a URL missing from the journal              is added by a new event

Memory holds the first half of each URL's digest, in the order in which the job is read. The few rows that differ are
then read again.
"""

from __future__ import annotations

import zlib
from array import array

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from crawler.frontier.entry import Entry
from crawler.inspect.integrity.inventory import Observer, UrlKeys
from crawler.job.output import Record
from crawler.job.records import DIGEST_SIZE, Done

_TOGETHER = 1_024  # keys hashed together

Halves = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


def halves(digests: bytes) -> array[int]:
    """Return the first 8 bytes of each digest."""
    words = np.frombuffer(digests, "<u8").reshape(-1, 2)[:, 0]
    return array("Q", words.tobytes())


def as_halves(values: array[int]) -> Halves:
    """Return the values as a numpy array. It is a copy, because an array cannot grow while another object uses its
    buffer."""
    return np.array(values, np.uint64)


def each_digest(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)]


class UrlMarks:
    """The first halves of the keys' digests; keys are hashed in groups."""

    def __init__(self, digests: UrlKeys) -> None:
        self._digests = digests
        self._waiting: list[str] = []
        self._marks = array("Q")

    def add(self, key: str) -> None:
        self._waiting.append(key)
        if len(self._waiting) == _TOGETHER:
            self._hash()

    def all(self) -> array[int]:
        """Return the marks in the order in which keys were added. Deleting from this array removes them."""
        self._hash()
        return self._marks

    def _hash(self) -> None:
        self._marks.extend(halves(self._digests.digests(self._waiting)))
        self._waiting.clear()


class JournalMarks(Struct):
    """The URLs of the journal."""

    admitted: array[int] = field(default_factory=lambda: array("Q"))
    forgotten: set[int] = field(default_factory=set)  # halves of all digests ever removed from the seen-set
    out: set[bytes] = field(default_factory=set)  # digests not in the seen-set after their last removal
    done: dict[str, list[Done]] = field(default_factory=dict)  # by URL; several if it was forgotten and found again
    start: int = 0  # start of the record of the first kept event


class QueueMarks(Struct):
    """The pending URLs. ``revisits`` is 1 for each that was finished before."""

    urls: UrlMarks
    revisits: bytearray = field(default_factory=bytearray)

    @property
    def unfinished(self) -> Halves:
        """The URLs that were never finished."""
        chosen: Halves = as_halves(self.urls.all())[np.frombuffer(bytes(self.revisits), np.uint8) == 0]
        return chosen


class OutputMarks(Struct):
    """The lines of the output: the end of each, its URL, whether it is a valid record, and whether the other outputs
    have the parts it names."""

    urls: UrlMarks
    ends: array[int] = field(default_factory=lambda: array("Q"))
    whole: bytearray = field(default_factory=bytearray)
    held: bytearray = field(default_factory=bytearray)

    @property
    def size(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def whole_flags(self) -> Flags:
        return np.frombuffer(bytes(self.whole), np.bool_)


class Remembered(Observer):
    """Collects the marks of every URL in an inventory."""

    def __init__(self, digests: UrlKeys) -> None:
        self.journal = JournalMarks()
        self.queue = QueueMarks(UrlMarks(digests))
        self.output = OutputMarks(UrlMarks(digests))

    def admitted(self, number: int, digests: bytes) -> None:
        self.journal.admitted.extend(halves(digests))
        if self.journal.out:
            self.journal.out.difference_update(each_digest(digests))

    def forgotten(self, digests: bytes) -> None:
        self.journal.forgotten.update(halves(digests))
        self.journal.out.update(each_digest(digests))

    def finished(self, done: Done) -> None:
        if not self.journal.done:
            self.journal.start = done.positions[0].end - done.positions[0].length
        self.journal.done.setdefault(done.entry.href, []).append(done)

    def pending(self, row: bytes, entry: Entry, key: str) -> None:
        self.queue.urls.add(key)
        self.queue.revisits.append(entry.revisit)

    def line(self, start: int, line: bytes, record: Record | None, key: str | None, *, held: bool) -> None:
        """Record a line. The journal has the checksums of the records from its first kept event on."""
        end = start + len(line)
        # An older record may belong to a URL that was forgotten and has been finished again since.
        told = record is not None and end > self.journal.start
        events = self.journal.done.get(str(record["url"]), []) if record is not None and told else []
        self.output.ends.append(end)
        self.output.urls.add(key or "")
        self.output.held.append(held)
        self.output.whole.append(key is not None and (not events or any(_is(line, event) for event in events)))


def _is(line: bytes, done: Done) -> bool:
    position = done.positions[0]
    return position.length == len(line) and position.crc == zlib.crc32(line)


class Belief(Struct, frozen=True):
    """The facts known about the other parts.

    ``journal_names_all``: every admitted URL is in the journal. ``end`` is the end of the output according to the
    journal, None if unknown. ``repeats``: a URL may have several records."""

    journal_names_all: bool
    end: int | None
    repeats: bool


def finished_lines(found: Remembered, belief: Belief) -> Flags:
    """Return a flag for each line of the output: True if it is the record of a finished URL."""
    urls, ends = as_halves(found.output.urls.all()), as_halves(found.output.ends)
    good = found.output.whole_flags & np.frombuffer(bytes(found.output.held), np.bool_)
    # A forgotten URL may be finished, and then pending or finished again.
    free = np.isin(urls, np.array(sorted(found.journal.forgotten), np.uint64))
    good &= free | ~np.isin(urls, found.queue.unfinished)
    if belief.journal_names_all:
        good &= np.isin(urls, as_halves(found.journal.admitted))
    elif belief.end is not None:
        good &= ends <= belief.end
    if belief.repeats:
        return good
    places = np.flatnonzero(good)
    _, first = np.unique(urls[places], return_index=True)
    if len(first) < len(places):
        later = np.ones(len(places), np.bool_)
        later[first] = False
        later &= ~free[places]
        good[places[later]] = False
    return good

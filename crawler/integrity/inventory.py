"""What a damaged job still knows, put together anew.

The truth of a job is one equation: admitted = finished + pending, URL by URL. Each side is written down twice (queue
and journal, journal and output), so what one has lost the other may still tell:

    a URL that is pending                     is fetched, whatever the output says: its links may be lost with its step
    a record in the output, not pending       is finished
    a finished URL without a whole record     is pending again, if the journal still has its address
    a digest in the journal, nothing else     its address is gone: forgotten, so that it is admitted when found again
    a URL that the journal does not name      is named by a new event

Everything is read once, in order, and remembered as 8 bytes a URL (the first half of its digest); then the few rows
that differ are read again. Any moment at which this is broken off leaves a job that it can be run on again.
"""

from __future__ import annotations

import contextlib
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from crawler.exact import digest_exactly
from crawler.filters import digest_keys
from crawler.frontier import Entry, EntryError, decode_entry, queue_of
from crawler.frontier.entry import is_retry, split_pending_key
from crawler.kv import Family, Store
from crawler.output import Record, record_of
from crawler.records import DIGEST_SIZE, Counters, Done, JournalError, Outcome, decode_done, decode_seen
from crawler.settings import Settings
from crawler.traps import CopyRecordError, TrapRecordError, check_content, check_row
from crawler.urls import Canonical, Canonicaliser

_SCAN = 2_048
_LINES = 1_024  # lines of the output hashed together
_RESPONDED = (Outcome.FETCHED.value, Outcome.REDIRECT.value)

Halves = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]
Row = tuple[bytes, bytes]


@dataclass
class Keys:
    """From a URL as it is stored to the digest that stands for it in this job."""

    settings: Settings
    canonicaliser: Canonicaliser = field(init=False)

    def __post_init__(self) -> None:
        self.canonicaliser = Canonicaliser(self.settings.canonical.rules)

    def key(self, href: str) -> str | None:
        """The key; None for what no crawl stores."""
        url = self.canonicaliser.canonicalise(href)
        return url.key if isinstance(url, Canonical) and url.href == href else None

    def digests(self, keys: Sequence[str]) -> bytes:
        return digest_exactly(keys) if self.settings.seen.kind == "exact" else digest_keys(keys)


def halves(digests: bytes) -> array[int]:
    """The first 8 bytes of each digest."""
    words = np.frombuffer(digests, "<u8").reshape(-1, 2)[:, 0]
    return array("Q", words.tobytes())


@dataclass
class Journal:
    """The journal as it was found."""

    admitted: array[int] = field(default_factory=lambda: array("Q"))
    forgotten: set[int] = field(default_factory=set)  # halves of digests ever taken out of the seen-set
    out: set[bytes] = field(default_factory=set)  # digests that are out of it now
    done: dict[str, list[Done]] = field(default_factory=dict)  # by URL; more than one where it was forgotten
    start: int = 0  # where the record of the first event that is kept begins
    end: int | None = None  # of the output, by the last event
    events: int = 0
    sequence: int = 0  # above every number in use
    bad: list[tuple[Family, bytes, bytes]] = field(default_factory=list)


def read_journal(store: Store) -> Journal:
    """Raises OSError."""
    found = Journal()
    for key, value in store.rows(Family.ADMITTED):
        try:
            _sequence(found, key)
            forgotten, digests = decode_seen(value)
        except JournalError:
            found.bad.append((Family.ADMITTED, key, value))
            continue
        each = [digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)]
        if forgotten:
            found.forgotten.update(halves(digests))
            found.out.update(each)
        else:
            found.admitted.extend(halves(digests))
            if found.out:
                found.out.difference_update(each)
    for key, value in store.rows(Family.DONE):
        found.events += 1
        try:
            _sequence(found, key)
            done = decode_done(value)
        except JournalError:
            found.bad.append((Family.DONE, key, value))
            continue
        if not found.done:
            found.start = done.positions[0].end - done.positions[0].length
        found.done.setdefault(done.entry.href, []).append(done)
        found.end = done.positions[0].end
    return found


def _sequence(journal: Journal, key: bytes) -> None:
    if len(key) != 8:
        raise JournalError("a key that is no sequence number")
    journal.sequence = max(journal.sequence, int.from_bytes(key, "big") + 1)


@dataclass
class Queue:
    """The pending URLs as they were found. ``size`` counts (all, retries) of a host; the URLs of ``again`` stood in
    rows where they cannot stay."""

    urls: array[int] = field(default_factory=lambda: array("Q"))
    size: dict[str, list[int]] = field(default_factory=dict)
    first: dict[str, bytes] = field(default_factory=dict)  # of each host the first slot of its fresh lane
    number: int = 0  # above every slot number in use
    bad: list[Row] = field(default_factory=list)
    again: list[Entry] = field(default_factory=list)
    gone: int = 0  # rows without a URL that could be read
    revisits: bytearray = field(default_factory=bytearray)  # for each of ``urls``: was it finished before?

    @property
    def unfinished(self) -> Halves:
        """The URLs that were never finished."""
        chosen: Halves = as_halves(self.urls)[np.frombuffer(bytes(self.revisits), np.uint8) == 0]
        return chosen


def read_queue(store: Store, keys: Keys) -> Queue:
    """Raises OSError."""
    found = Queue()
    known: list[str] = []
    for row in store.rows(Family.PENDING):
        try:
            entry = decode_entry(row[1])
        except EntryError:
            entry = None
        key = None if entry is None else keys.key(entry.href)
        try:
            host, slot = split_pending_key(row[0])
        except EntryError:
            host, slot = "", b""
        if slot:
            found.number = max(found.number, int.from_bytes(slot[-8:], "big") + 1)
        if entry is None or key is None or host != queue_of(entry.href):
            found.bad.append(row)
            if entry is not None and key is not None:
                found.again.append(entry)
            else:
                found.gone += 1
            continue
        size = found.size.setdefault(host, [0, 0])
        size[0] += 1
        size[1] += is_retry(slot)
        if not is_retry(slot):
            found.first.setdefault(host, slot)
        known.append(key)
        found.revisits.append(entry.revisit)
        if len(known) == _SCAN:
            found.urls.extend(halves(keys.digests(known)))
            known.clear()
    found.urls.extend(halves(keys.digests(known)))
    return found


@dataclass
class Output:
    """The records as they were found: for each line where it ends, its URL and whether it is whole."""

    ends: array[int] = field(default_factory=lambda: array("Q"))
    urls: array[int] = field(default_factory=lambda: array("Q"))
    whole: bytearray = field(default_factory=bytearray)
    size: int = 0


def read_output(lines: Iterable[bytes], keys: Keys, journal: Journal) -> Output:
    """The journal knows what the bytes of the records sum to, from the first event that is kept. Raises OSError."""
    found = Output()
    waiting: list[str] = []
    for line in lines:
        found.size += len(line)
        record = record_of(line)
        key = None if record is None else keys.key(str(record["url"]))
        # A record from before those events may be of a URL that was forgotten, and finished once more since.
        judged = None if record is None or found.size <= journal.start else str(record["url"])
        events = [] if judged is None else journal.done.get(judged, [])
        whole = key is not None and (not events or any(_is(line, event) for event in events))
        found.ends.append(found.size)
        found.whole.append(whole)
        waiting.append(key or "")
        if len(waiting) == _LINES:
            found.urls.extend(halves(keys.digests(waiting)))
            waiting.clear()
    found.urls.extend(halves(keys.digests(waiting)))
    return found


def _is(line: bytes, done: Done) -> bool:
    position = done.positions[0]
    return position.length == len(line) and position.crc == zlib.crc32(line)


def finished(
    output: Output, queue: Queue, journal: Journal, *, trusted: bool, end: int | None, repeats: bool = False
) -> npt.NDArray[np.bool_]:
    """Which lines of the output are records of finished URLs. ``trusted``: the journal names every admitted URL;
    ``end``: where the output ends by the journal, None where it does not say; ``repeats``: a URL may have several."""
    urls, ends = as_halves(output.urls), as_halves(output.ends)
    good = np.frombuffer(bytes(output.whole), np.bool_).copy()
    # A URL that was forgotten may be finished, and pending or finished once more.
    free = np.isin(urls, np.array(sorted(journal.forgotten), np.uint64))
    good &= free | ~np.isin(urls, queue.unfinished)
    if trusted:
        good &= np.isin(urls, as_halves(journal.admitted))
    elif end is not None:
        good &= ends <= end
    if repeats:
        return good
    places = np.flatnonzero(good)
    _, first = np.unique(urls[places], return_index=True)
    if len(first) < len(places):
        later = np.ones(len(places), np.bool_)
        later[first] = False
        later &= ~free[places]
        good[places[later]] = False
    return good


def as_halves(values: array[int]) -> Halves:
    """A copy: an array that is looked at cannot grow."""
    return np.array(values, np.uint64)


@dataclass(frozen=True, slots=True)
class Difference:
    """How often a URL stands too often or not often enough in the journal: counts by the first half of its digest."""

    excess: dict[int, int]
    lacking: dict[int, int]


def compare(admitted: Halves, there: Halves) -> Difference:
    """The journal's URLs against those that are there."""
    named, named_times = np.unique(admitted, return_counts=True)
    found, found_times = np.unique(there, return_counts=True)
    return Difference(
        _more(named, named_times, found, found_times),
        _more(found, found_times, named, named_times),
    )


def _more(
    left: Halves, left_times: npt.NDArray[np.int64], right: Halves, right_times: npt.NDArray[np.int64]
) -> dict[int, int]:
    times = np.zeros(len(left), np.int64)
    at = np.searchsorted(right, left)
    inside = at < len(right)
    same = np.zeros(len(left), np.bool_)
    same[inside] = right[at[inside]] == left[inside]
    times[same] = right_times[at[same]]
    more = left_times - times
    which = np.flatnonzero(more > 0)
    return dict(zip(left[which].tolist(), more[which].tolist(), strict=True))


class Ended:
    """How many URLs of each host ended with a response, and how many failed, by the records in the output."""

    def __init__(self) -> None:
        self._hosts: dict[str, list[int]] = {}

    def add(self, record: object) -> None:
        """Count a record; what is none of a URL that was fetched or failed is passed over."""
        if not isinstance(record, dict) or not isinstance(url := record.get("url"), str):
            return
        outcome = record.get("outcome")
        if outcome in _RESPONDED or outcome == Outcome.FAILED.value:
            self._hosts.setdefault(queue_of(url), [0, 0])[outcome == Outcome.FAILED.value] += 1

    def pop(self, host: str) -> tuple[int, int]:
        """(fetched, failed) of the host, taken out."""
        fetched, failed = self._hosts.pop(host, (0, 0))
        return fetched, failed

    def rest(self) -> dict[str, tuple[int, int]]:
        """Those of all hosts that were not taken out."""
        return {host: (fetched, failed) for host, (fetched, failed) in self._hosts.items()}


def count_records(counters: Counters, records: Iterable[Record]) -> Counters:
    """Fresh counters of finished URLs, with all else as ``counters`` have it."""
    fresh = Counters(**{name: getattr(counters, name) for name in Counters.__dataclass_fields__})
    fresh.fetched = fresh.redirected = fresh.failed = fresh.excluded = fresh.seeds_fetched = 0
    fresh.status_2xx = fresh.status_3xx = fresh.status_4xx = fresh.status_5xx = 0
    for record in records:
        outcome, status = Outcome(str(record["outcome"])), record.get("status")
        fresh.count_done(outcome, status if isinstance(status, int) else None)
        fresh.seeds_fetched += outcome is Outcome.FETCHED and record.get("depth") == 0
    return fresh


def count_traps(store: Store) -> tuple[int, list[Row]]:
    """What all numbers of traps add up to, and the rows that are none. Raises OSError."""
    total, bad = 0, []
    for row in store.rows(Family.TRAPS):
        try:
            total += check_row(*row)
        except TrapRecordError:
            bad.append(row)
    return total, bad


def bad_content(store: Store) -> list[Row]:
    """Rows that are no mark of a page's content. Raises OSError."""
    bad = []
    for row in store.rows(Family.CONTENT):
        try:
            check_content(*row)
        except CopyRecordError:
            bad.append(row)
    return bad


def stored_counters_or_none(value: bytes | None) -> Counters | None:
    """None where they are gone or no version of the program wrote them."""
    if value is None:
        return None
    with contextlib.suppress(JournalError):
        return Counters.decode(value)
    return None

"""Makes a new store, and a file of kept records, from the data in a damaged job.

Readable rows of the old store are copied: entries, hosts, revisited pages, rows of rules and limits. Everything that
can be derived from these and from the records is recreated: order and numbers of the queues, the journal of admitted
URLs, the digests kept besides the seen-set, the schedule, the counters. So it does not matter which of these derived
parts were damaged. Until the new store replaces the old one, the repair changes nothing in the job, except that it
moves damaged bodies away.

To find out which URLs a damaged job still knows, and the state of each, 8 bytes of each URL's digest are enough. In an
intact job, admitted = finished + pending holds for each URL, and each state is stored twice: pending in queue and
journal, finished in journal and output. So URLs lost in one part may still be in another:

    a pending URL                               is fetched, whatever the output contains: its links may be lost
    a URL with a record, and not pending        is finished
    a finished URL without a complete record    is pending again, if the journal still has its address
    a digest only in the journal                has lost its address: it is forgotten, and admitted when found again
    a URL missing from the journal              is added by a new event

Memory holds the first half of each URL's digest, in the order in which the job is read. The few rows on which two parts
disagree are then read again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.disk import Appender, Disk
from crawler.base.kv import Batch, Family, Reader, Row, Store
from crawler.base.settings.parts import Settings
from crawler.frontier.entry import (
    FRESH_START,
    Entry,
    EntryError,
    decode_entry,
    encode_entry,
    pending_key,
    queue_of,
    split_pending_key,
)
from crawler.frontier.host import BackQueue, Host, RevisitLane, decode_host, encode_host, host_name
from crawler.frontier.order import Order, slot_of
from crawler.frontier.page import pack_page, unpack_page
from crawler.frontier.request_outcome import HostResult
from crawler.frontier.revisits import due_key
from crawler.inspect.integrity.finding import Change, Detail, Done, Tell
from crawler.inspect.integrity.inventory import Inventory, Observer, OutputTally, Queue, Source, UrlKeys
from crawler.inspect.integrity.output_files import OutputFiles, PartReader, Quarantine, is_broken
from crawler.job.directory import PAGES
from crawler.job.left_out import decode_row
from crawler.job.metrics.catalogue import URL_KINDS, Counters
from crawler.job.output import Record, entry_of, lines_of, record_of
from crawler.job.output.body_files import BODY_SIZES, encode_sizes, sizes_found
from crawler.job.output.record_text import page_paths
from crawler.job.partition.outbox import read_key, row_key
from crawler.job.records import (
    DIGEST_SIZE,
    JournalError,
    Outcome,
    count_done,
    decode_counters,
    encode_admitted,
    encode_counters,
    encode_forgotten,
    sequence_key,
    url_kind,
)
from crawler.job.records import Done as Finished
from crawler.job.recovery import COUNTERS, OUTPUT_END, REPAIRING, encode_end
from crawler.job.step_log import MARK as FOLLOWED
from crawler.job.store.wal import MARK as SYNCED
from crawler.job.transaction import OUTPUT_ENDS
from crawler.seen.exact.ledger import LEDGER_COUNTS, LedgerCounts
from crawler.seen.exact.rows import rows_of
from crawler.seen.exact.seen import ROW_COUNT, ROW_COUNT_FORM, kept_rows
from crawler.seen.filters import FilterError, KeyHash

_TOGETHER = 1_024  # keys hashed together

Halves = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


def halves(digests: bytes) -> array[int]:
    """Return the first 8 bytes of each digest."""
    words = np.frombuffer(digests, "<u8").reshape(-1, 2)[:, 0]
    return array("Q", words.tobytes())


def as_halves(values: array[int]) -> Halves:
    """Return the values as a numpy array. This is a copy, because ``values`` could not grow while another object uses
    its buffer."""
    return np.array(values, np.uint64)


def each_digest(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)]


class UrlMarks:
    """The marks of keys: the first half of each key's digest. Keys are hashed in groups."""

    def __init__(self, digests: UrlKeys) -> None:
        self._digests = digests
        self._waiting: list[str] = []
        self._marks = array("Q")

    def add(self, key: str) -> None:
        self._waiting.append(key)
        if len(self._waiting) == _TOGETHER:
            self._hash()

    def all(self) -> array[int]:
        """Return the marks in the order in which their keys were added. This is not a copy: a mark deleted from it is
        removed here too."""
        self._hash()
        return self._marks

    def _hash(self) -> None:
        self._marks.extend(halves(self._digests.digests(self._waiting)))
        self._waiting.clear()


class JournalMarks(Struct):
    """The marks of the URLs in the journal."""

    admitted: array[int] = field(default_factory=lambda: array("Q"))
    forgotten: set[int] = field(default_factory=set)  # first halves of all digests ever removed from the seen-set
    out: set[bytes] = field(default_factory=set)  # digests that were removed from the seen-set and not added again
    done: dict[str, list[Finished]] = field(default_factory=dict)  # by URL; a URL forgotten and found again has several
    start: int = 0  # where the record of the first kept event starts


class QueueMarks(Struct):
    """The pending URLs. ``revisits`` has a 1 for each URL that was finished before, and a 0 for each other URL."""

    urls: UrlMarks
    revisits: bytearray = field(default_factory=bytearray)

    @property
    def unfinished(self) -> Halves:
        """The URLs that were never finished."""
        chosen: Halves = as_halves(self.urls.all())[np.frombuffer(bytes(self.revisits), np.uint8) == 0]
        return chosen


class OutputMarks(Struct):
    """The lines of the output: the end of each, its URL, whether it is a valid record, and whether the other outputs
    have the parts that the record names."""

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

    def finished(self, done: Finished) -> None:
        if not self.journal.done:
            self.journal.start = done.positions[0].end - done.positions[0].length
        self.journal.done.setdefault(done.entry.href, []).append(done)

    def pending(self, row: bytes, entry: Entry, key: str) -> None:
        self.queue.urls.add(key)
        self.queue.revisits.append(entry.revisit)

    def line(self, start: int, line: bytes, record: Record | None, key: str | None, *, held: bool) -> None:
        """Record a line. From its first kept event on, the journal has the checksums of the records."""
        end = start + len(line)
        # The URL of an older record may have been forgotten and finished again since, so its event is not that of the
        # record.
        told = record is not None and end > self.journal.start
        events = self.journal.done.get(str(record["url"]), []) if record is not None and told else []
        self.output.ends.append(end)
        self.output.urls.add(key or "")
        self.output.held.append(held)
        self.output.whole.append(key is not None and (not events or any(_is(line, event) for event in events)))


def _is(line: bytes, done: Finished) -> bool:
    position = done.positions[0]
    return position.length == len(line) and position.crc == zlib.crc32(line)


class Belief(Struct, frozen=True):
    """Facts about the other parts of the job, as far as they are known.

    ``journal_names_all``: every admitted URL is in the journal. ``end`` is the end of the output according to the
    journal, None if unknown. ``repeats``: a URL may have several records."""

    journal_names_all: bool
    end: int | None
    repeats: bool


def finished_lines(found: Remembered, belief: Belief) -> Flags:
    """Return a flag for each line of the output: True if it is the record of a finished URL."""
    urls, ends = as_halves(found.output.urls.all()), as_halves(found.output.ends)
    good = found.output.whole_flags & np.frombuffer(bytes(found.output.held), np.bool_)
    # A URL that was forgotten after it was finished may be pending or finished again.
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


WHOLE = f"{PAGES}.whole"  # file of all kept records, until it replaces the old files of records
_CHANGES = 4_096  # number of changes in one batch
_EVENT = 256  # number of URLs in one event of the journal
# Names that are rewritten, or that have no meaning in another store.
_DERIVED = frozenset(
    {COUNTERS, OUTPUT_END, OUTPUT_ENDS, BODY_SIZES, LEDGER_COUNTS, ROW_COUNT, REPAIRING, FOLLOWED, SYNCED}
)
_COPIED = (Family.TRAPS, Family.CONTENT, Family.SOFT404, Family.INLET)


class RepairContext(Struct, frozen=True):
    """A job under repair: its old store, open for reading, its new store, and what the repair needs for its work."""

    directory: Path
    settings: Settings
    hash: KeyHash
    old: Reader
    new: Store
    disk: Disk
    quarantine: Quarantine
    tell: Tell

    def done(self, what: Done, **details: Detail) -> None:
        self.tell(Change(what, details))


class Rebuild:
    """Rebuilds a job in one pass. ``finish`` is called once the new store is in its place."""

    def __init__(self, context: RepairContext, order: Order) -> None:
        self._context = context
        self._old = context.old
        self._path = context.directory / PAGES
        self._order = order
        self._digests = UrlKeys(context.settings, context.hash)
        self._kept = _stored_counters_or_none(context.old.get(Family.META, COUNTERS))
        self._found = Remembered(self._digests)
        source = Source(context.directory, context.settings, context.hash, context.old, self._kept)
        self._inventory = Inventory(source, self._found, beyond_end=True)
        self._files = OutputFiles(context.directory, context.old, context.disk, context.quarantine)
        self._rows = kept_rows(context.settings.seen)
        self._queue = Queue()
        self._batch = Batch()

    def run(self, *, whole_store: bool) -> None:
        """Fill the new store, which is still empty, and make it durable. ``whole_store`` is False if rows of the old
        one were lost. Raises OSError."""
        context, found, inventory = self._context, self._found, self._inventory
        for part in inventory.parts():
            for _ in part:
                pass  # a repair reports its changes, not the findings
        self._report_rows()
        belief = self._belief(whole_store)
        good = finished_lines(found, belief)
        again = self._unfinished(good, belief)
        self._write_output(good)
        number = self._write_queue(again)
        urls = np.unique(np.concatenate((as_halves(found.queue.urls.all()), as_halves(found.output.urls.all())[good])))
        forgotten = len(np.setdiff1d(as_halves(found.journal.admitted), urls))
        if forgotten:
            context.done(Done.URLS_FORGOTTEN, count=forgotten)
        sequence = max(inventory.journal.sequence, self._kept.sequence if self._kept else 0)
        journal = _Journal(context, self._put, sequence, found.journal)
        journal.write(urls, self._keys(good))
        counters, tally = self._count_records(good)
        pending, finished = sum(size for size, _ in self._queue.sizes.values()), int(good.sum())
        revisits = pending + finished - journal.admitted
        left_out = self._copy_rows({entry.href.encode("ascii") for entry in again if not entry.revisit})
        forget = bool(again) or self._kept is None or self._kept.done != finished
        counters = replace(
            counters,
            sequence=journal.sequence,
            next_number=number,
            urls_admitted=journal.admitted,
            hosts=self._write_hosts(tally),
            trap_counts=inventory.trap_counts,
            urls_held_back=left_out.urls_held_back,
            pages_at_border=left_out.pages_at_border,
            links_left_out=left_out.links_left_out,
            revisits=revisits,
            urls_returned=min(counters.urls_returned, revisits),
            revisits_pending=len(self._queue.revisits),
            pages_scheduled=self._write_schedule(forget=forget),
        )
        self._put(Family.META, COUNTERS, encode_counters(counters))
        self._write()
        context.done(Done.REBUILT, admitted=journal.admitted, pending=pending, finished=finished)

    def finish(self) -> None:
        """Move unreferenced files to the quarantine. Raises OSError."""
        place_whole(self._path, self._context.disk, self._context.quarantine)
        self._files.move_away()

    def _report_rows(self) -> None:
        if self._kept is None:
            self._context.done(Done.COUNTERS_LOST)
        for family, rows in self._inventory.damaged.items():
            if rows:
                self._context.done(Done.ROWS_REMOVED, family=family.value, count=len(rows))

    def _belief(self, whole_store: bool) -> Belief:
        kept = self._kept
        named = (
            whole_store
            and kept is not None
            and self._inventory.journal.urls == kept.urls_admitted
            and not self._inventory.damaged[Family.ADMITTED]
        )
        repeats = bool((kept and kept.revisits) or self._old.scan(Family.PAGES, b"", None, 1))
        return Belief(named, self._inventory.journal.end, repeats)

    # -- pending URLs ------------------------------------------------------------------------------------------

    def _unfinished(self, good: Flags, belief: Belief) -> list[Entry]:
        """Return the entries to be requeued: finished URLs without a record."""
        found, again = self._found, dict[str, Entry]()
        events = (done[-1].entry for done in found.journal.done.values())
        for entry in itertools.chain(events, self._readable_records(good, belief)):
            key = self._digests.key(entry.href)
            if key is not None:
                again.setdefault(key, entry)
        marks = as_halves(halves(self._digests.digests(list(again))))
        # Look up all URLs at once: a single look-up takes time in proportion to the number of URLs.
        there = np.concatenate((as_halves(found.queue.urls.all()), as_halves(found.output.urls.all())[good]))
        chosen = list(itertools.compress(again.values(), (~np.isin(marks, there)).tolist()))
        if chosen:
            self._context.done(Done.URLS_PENDING_AGAIN, count=len(chosen))
        return chosen

    def _readable_records(self, good: Flags, belief: Belief) -> Iterator[Entry]:
        """Yield the URLs of valid records that are not kept."""
        urls = as_halves(self._found.output.urls.all())
        other = ~good & self._found.output.whole_flags
        if belief.journal_names_all:
            other &= np.isin(urls, as_halves(self._found.journal.admitted))
        for record in self._records(other):
            yield entry_of(record, self._order)

    def _write_queue(self, again: Sequence[Entry]) -> int:
        """Queue each URL once, and return the next slot number."""
        found = self._found.queue
        number = max(self._inventory.queue.number, self._kept.next_number if self._kept else 0)
        _, first = np.unique(as_halves(found.urls.all()), return_index=True)
        stays = np.zeros(len(found.revisits), np.bool_)
        stays[first] = True
        rows = itertools.compress(self._whole_rows(Family.PENDING), stays)
        kept = ((key, decode_entry(value)) for key, value in rows)
        for key, entry in itertools.chain(kept, ((b"", entry) for entry in again)):
            name, slot = queue_of(entry.href), b""
            with contextlib.suppress(EntryError):  # the entry gets another slot
                host, slot = split_pending_key(key)
                slot = slot if host == name else b""
            if not slot:
                slot, number = slot_of(self._order, entry, number), number + 1
            self._queue.add(name, slot, entry)
            self._put(Family.PENDING, pending_key(name, slot), encode_entry(entry))
        for entry in again:
            found.urls.add(self._digests.key(entry.href) or "")
        return number

    # -- the output --------------------------------------------------------------------------------------------

    def _write_output(self, good: Flags) -> None:
        """Write the kept records to a new file if the old files cannot be kept as they are, and store the ends of the
        outputs."""
        context, files, size = self._context, self._files, self._found.output.size
        files.look(itertools.compress(self._lines(), good))
        damaged = sorted(name for name in self._inventory.bodies_lost if os.path.lexists(context.directory / name))
        for name in damaged:
            context.quarantine.move(context.directory / name)
        if damaged:
            context.done(Done.BODIES_MOVED, count=len(damaged))
        try:
            if not good.all() or files.names or is_broken(self._path):
                size = self._write_lines(good)
            files.settle(self._batch)
        finally:
            files.close()
        self._put(Family.META, OUTPUT_END, encode_end(size))
        bodies = sizes_found(context.directory)
        if bodies.files or self._old.get(Family.META, BODY_SIZES) is not None:
            self._put(Family.META, BODY_SIZES, encode_sizes(bodies))
        if not good.all():
            context.done(Done.LINES_REMOVED, removed=int((~good).sum()), kept=int(good.sum()))
        for name in files.names:
            context.done(Done.OUTPUT_REWRITTEN, output=name, files=files.files(name))
        if files.asides_lost:
            context.done(Done.ASIDES_REMOVED, count=len(files.asides_lost))

    def _write_lines(self, good: Flags) -> int:
        disk = self._context.disk
        file = disk.open(self._path.with_name(WHOLE), create=True)
        try:
            file.truncate(0)
            sink = Appender(file)
            size = 0
            with PartReader(self._context.directory) as reader:
                for line in itertools.compress(self._lines(), good):
                    size += sink.write(self._files.moved(line, reader))
            file.sync()
            self._files.sync()
        finally:
            file.close()
        disk.sync_directory(self._context.directory)
        return size

    def _lines(self) -> Iterator[bytes]:
        return (line for _, line in lines_of(self._path))

    def _records(self, chosen: Flags) -> Iterator[Record]:
        for line in itertools.compress(self._lines(), chosen):
            record = record_of(line)
            if record is not None:
                yield record

    def _count_records(self, good: Flags) -> tuple[Counters, OutputTally]:
        """Count the kept records. Returns new counters for the job, in which only those of finished URLs change, and
        the counts of each host."""
        tally, fresh = OutputTally(), replace(self._kept or Counters())
        fresh.pages_fetched = fresh.pages_redirected = fresh.pages_failed = fresh.seeds_fetched = 0
        fresh.urls_excluded = fresh.pages_soft404 = fresh.pages_blocked = 0
        fresh.status, fresh.urls = {}, [0] * len(URL_KINDS)
        last = np.zeros(np.count_nonzero(good), np.bool_)  # by record, last first: True if it is its URL's last
        last[np.unique(as_halves(self._found.output.urls.all())[good][::-1], return_index=True)[1]] = True
        for record, is_last in zip(self._records(good), last[::-1].tolist(), strict=True):
            tally.add(record)
            outcome, status = Outcome(str(record["outcome"])), record.get("status")
            status = status if isinstance(status, int) else None
            count_done(fresh, outcome, status)
            fresh.urls[url_kind(outcome, status)] += is_last and not record.get("probe")
            fresh.seeds_fetched += outcome is Outcome.FETCHED and record.get("depth") == 0
        return fresh, tally

    def _keys(self, good: Flags) -> Iterator[str]:
        """Yield the key of every pending and every finished URL."""
        self._write()
        for _, value in self._context.new.rows(Family.PENDING):
            yield self._digests.key(decode_entry(value).href) or ""
        for record in self._records(good):
            yield self._digests.key(str(record["url"])) or ""

    # -- other families ----------------------------------------------------------------------------------------

    def _copy_rows(self, again: set[bytes]) -> Counters:
        """Copy the rows that do not depend on queue and output. ``again`` are the pages that will be visited as if for
        the first time. Returns the counts of left-out links for all other pages."""
        for family in _COPIED:
            for key, value in self._whole_rows(family):
                self._put(family, key, value)
        for key, value in self._whole_rows(Family.META):
            if key not in _DERIVED:
                self._put(Family.META, key, value)
        for key, value in self._whole_rows(Family.ROBOTS):
            if key not in self._files.asides_lost:
                self._put(Family.ROBOTS, key, value)
        left_out = Counters()
        for key, value in self._whole_rows(Family.LEFT_OUT):
            if key[:1] != b"\0" or key[1:] not in again:
                decode_row(key, value).count(left_out)
                self._put(Family.LEFT_OUT, key, value)
        last = (-1, 0)
        for key, value in self._whole_rows(Family.OUTBOX):
            # Renumber the messages that follow a gap, so that all numbers are consecutive.
            target, number = read_key(key)
            last = target, number if target != last[0] else last[1] + 1
            self._put(Family.OUTBOX, row_key(*last), value)
        self._copy_doubts()
        return left_out

    def _copy_doubts(self) -> None:
        if self._rows is None or self._rows.forgets:
            return
        try:
            counts = LedgerCounts.decode(self._old.get(Family.META, LEDGER_COUNTS))
        except FilterError:
            counts = LedgerCounts()
        counts.waiting = 0
        for key, value in self._whole_rows(Family.LEDGER):
            counts.waiting += 1
            self._put(Family.LEDGER, key, value)
        self._put(Family.META, LEDGER_COUNTS, counts.encode())

    def _write_schedule(self, *, forget: bool) -> int:
        """Write the revisited pages and their schedule, and return the number of pages in it. A page that is not queued
        and has no time is due immediately. ``forget`` is True if records of visits are lost, so that a copy of the site
        may lack changes: the next visit to each page then fetches it unconditionally and compares it with nothing."""
        count = 0
        for key, value in self._whole_rows(Family.PAGES):
            page = unpack_page(value)
            due = None if key in self._queue.revisits else page.due or page.visited_at + page.interval
            page = (page.forgotten() if forget else page)._replace(due=due)
            self._put(Family.PAGES, key, pack_page(page))
            if due is not None:
                count += 1
                self._put(Family.DUE, due_key(due, page.entry.href), b"")
        return count

    def _write_hosts(self, tally: OutputTally) -> int:
        """Write the hosts with their counts from the queue and the output, and return their number."""
        self._write()
        hosts = {key for key, _ in self._whole_rows(Family.HOSTS)}
        count = len(hosts)
        for key, value in self._whole_rows(Family.HOSTS):
            self._put_host(decode_host(host_name(key), value), tally.pop(host_name(key)))
        rest = tally.rest()
        for name in (self._queue.sizes.keys() | rest.keys()) - {host_name(key) for key in hosts}:
            self._put_host(Host(name), rest.get(name, (0, 0, HostResult.NOTHING)))
            count += 1
        return count

    def _put_host(self, host: Host, counts: tuple[int, int, HostResult]) -> None:
        size, retries = self._queue.sizes.get(host.name, (0, 0))
        # Revisits that wait in the queue are found when it is read.
        host.queue = BackQueue(
            size,
            retries,
            self._queue.first.get(host.name, FRESH_START),
            complete=False,
            revisits=RevisitLane(0),
        )
        host.tally = replace(host.tally, fetched=counts[0], failed=counts[1], result=counts[2])
        key = host.name.encode("ascii")
        if self._context.new.get(Family.ROBOTS, key) is None:
            host.politeness.robots_until = 0.0
        self._put(Family.HOSTS, key, encode_host(host))

    # -- rows --------------------------------------------------------------------------------------------------

    def _whole_rows(self, family: Family) -> Iterator[Row]:
        """Yield the undamaged rows of the old store."""
        damaged = {key for key, _ in self._inventory.damaged[family]}
        return (row for row in self._old.rows(family) if row[0] not in damaged)

    def _put(self, family: Family, key: bytes, value: bytes) -> None:
        self._batch.put(family, key, value)
        if len(self._batch.changes) >= _CHANGES:
            self._write()

    def _write(self) -> None:
        if self._batch.changes:
            self._context.new.write(self._batch)
            self._batch = Batch()


class _Journal:
    """Writes the journal of admitted URLs, and the digests that the store keeps besides the seen-set."""

    def __init__(
        self, context: RepairContext, put: Callable[[Family, bytes, bytes], None], sequence: int, before: JournalMarks
    ) -> None:
        """``sequence`` is the number of the first event; ``before`` is the content of the damaged journal."""
        self.sequence = sequence
        self.admitted = 0  # number of admissions
        self._put = put
        self._before = before
        self._digest = context.hash.digest_keys
        self._rows = kept_rows(context.settings.seen)
        self._waiting = bytearray()

    def write(self, urls: Halves, keys: Iterator[str]) -> None:
        """Admit each key once, and once more for each time that the key was removed from the seen-set. ``urls`` are all
        URLs, sorted. Raises OSError."""
        met = bytearray(len(urls))
        out = dict[bytes, None]()
        while some := list(itertools.islice(keys, _EVENT)):
            digests = self._digest(some)
            rows = rows_of(some, digests) if self._rows is not None else ()
            places = np.searchsorted(urls, as_halves(halves(digests))).tolist()
            for at, (digest, place) in enumerate(zip(each_digest(digests), places, strict=True)):
                if met[place]:
                    if urls[place] not in self._before.forgotten:
                        continue  # another visit to a URL already admitted
                    self._event(encode_forgotten(digest))
                met[place] = True
                self._waiting += digest
                self.admitted += 1
                if digest in self._before.out:
                    out[digest] = None
                if self._rows is not None and not (self._rows.forgets and digest in out):
                    self._put(Family.SEEN, rows[at], b"")
            self._flush()
        if out:
            self._event(encode_forgotten(b"".join(out)))
        if self._rows is not None and self._rows.forgets:
            self._put(Family.META, ROW_COUNT, ROW_COUNT_FORM.pack(sum(met) - len(out)))

    def _flush(self) -> None:
        if self._waiting:
            waiting, self._waiting = bytes(self._waiting), bytearray()
            self._event(encode_admitted(waiting))

    def _event(self, value: bytes) -> None:
        self._flush()
        self._put(Family.ADMITTED, sequence_key(self.sequence), value)
        self.sequence += 1


def _stored_counters_or_none(value: bytes | None) -> Counters | None:
    """Return the counters, or None if they are missing or damaged."""
    try:
        return None if value is None else decode_counters(value)
    except JournalError:
        return None


def place_whole(pages: Path, disk: Disk, quarantine: Quarantine) -> None:
    """Replace the old files of records with the file of kept records. Raises OSError."""
    whole = pages.with_name(WHOLE)
    if not whole.exists():
        return
    for path in (*page_paths(pages), pages):
        if os.path.lexists(path):
            quarantine.move(path)
    disk.replace(whole, pages)
    disk.sync_directory(pages.parent)

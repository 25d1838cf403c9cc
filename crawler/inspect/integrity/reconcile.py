"""Makes the queue, journal, output and counters of a damaged job agree, based on the inventory.

The order matters in case the repair is interrupted: first queue what must be fetched again, then remove records, then
correct the journal, and the counters last. At each moment in between, an inventory finds the same URLs again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from crawler.base.disk import Appender, Disk, failpoint
from crawler.base.kv import Batch, Family, Store
from crawler.frontier import BackQueue, Entry, Host, Tally, decode_entry, decode_host, encode_entry, queue_of
from crawler.frontier.entry import FRESH_START, is_retry, pending_key, split_pending_key
from crawler.frontier.host import RevisitLane, encode_host, host_name
from crawler.frontier.order import Order, slot_of
from crawler.inspect.integrity.change import Change, Done, Tell
from crawler.inspect.integrity.digest_rows import DigestRows
from crawler.inspect.integrity.finding import Detail
from crawler.inspect.integrity.inventory import Inventory, InventorySettings, OutputTally, Source
from crawler.inspect.integrity.output_files import OutputFiles
from crawler.inspect.integrity.part_reader import PartReader
from crawler.inspect.integrity.quarantine import Quarantine
from crawler.inspect.integrity.record_files import is_broken
from crawler.inspect.integrity.revisit_rows import forget_answers, rebuild_schedule
from crawler.inspect.integrity.url_marks import (
    Belief,
    Digests,
    Flags,
    Remembered,
    as_halves,
    compare,
    each_digest,
    finished_lines,
    halves,
)
from crawler.job.border import COUNTS, BorderError, drop_page
from crawler.job.directory import PAGES
from crawler.job.output import Record, entry_of, lines_of, record_of
from crawler.job.output.body_files import BODY_SIZES, body_in, encode_sizes, is_whole, sizes_found
from crawler.job.output.record_text import page_paths
from crawler.job.partition.outbox import read_key, row_key
from crawler.job.records import (
    DIGEST_SIZE,
    Counters,
    JournalError,
    Outcome,
    count_done,
    count_refused,
    decode_counters,
    decode_seen,
    encode_admitted,
    encode_counters,
    refused_by,
    sequence_key,
)
from crawler.job.recovery import COUNTERS, OUTPUT_END, encode_end
from crawler.web.archive.payloads import DIGEST

WHOLE = f"{PAGES}.whole"  # all records that stay, until they take the place of the files that had them
_CHANGES = 4_096  # changes in one batch
_EVENT = 256  # URLs in one new event


class RepairContext(Struct, frozen=True):
    """A job whose store is open for writing, and the tools to repair it."""

    directory: Path
    settings: InventorySettings
    store: Store
    disk: Disk
    quarantine: Quarantine
    tell: Tell

    def done(self, what: Done, **details: Detail) -> None:
        self.tell(Change(what, details))


class Reconciliation:
    """Reconciles a job in one pass."""

    def __init__(self, context: RepairContext, order: Order) -> None:
        self._context = context
        self._store = context.store
        self._path = context.directory / PAGES
        self._order = order
        self._digests = Digests(context.settings)
        self._kept = _stored_counters_or_none(context.store.get(Family.META, COUNTERS))
        self._found = Remembered(self._digests)
        source = Source(context.directory, context.settings, context.store, self._kept)
        self._inventory = Inventory(source, self._found, beyond_end=True)
        self._batch = Batch()

    def run(self, *, whole_store: bool) -> bool:
        """Make the parts agree, and return whether the seen-set must be rebuilt because it knows URLs that were
        forgotten.

        ``whole_store`` is False if rows of the store were lost. Raises OSError."""
        context, kept, found, inventory = self._context, self._kept, self._found, self._inventory
        for part in inventory.parts():
            for _ in part:
                pass  # the changes are reported, not the findings
        self._drop_all(Family.META)
        self._write()
        if kept is None:
            context.done(Done.COUNTERS_LOST)
        belief = self._belief(whole_store)
        good = finished_lines(found, belief)
        number = max(inventory.queue.number, kept.next_number if kept else 0)
        sequence = max(inventory.journal.sequence, kept.sequence if kept else 0)

        again = self._unfinished(good, belief)
        number = self._queue(again, number)
        self._output(good, lost=bool(again))
        there = np.concatenate((as_halves(found.queue.urls.all()), as_halves(found.output.urls.all())[good]))
        visits, there = len(there), np.unique(there) if belief.repeats else there
        difference = compare(as_halves(found.journal.admitted), there)
        self._drop_events(difference.excess)
        sequence = self._name_events(difference.lacking, sequence)
        self._small_families()
        counters, tally = self._count_records()
        counters = replace(
            counters,
            sequence=sequence,
            next_number=number,
            admitted=len(there),
            hosts=self._hosts(tally),
            trap_counts=inventory.trap_counts,
            revisits=visits - len(there),
            returned=min(counters.returned, visits - len(there)),
            revisits_pending=sum(found.queue.revisits),
            scheduled=rebuild_schedule(context.store, context.quarantine, context.tell, inventory.queue.revisits),
        )
        for rule, count in inventory.held_back.items():
            count_refused(counters, rule, count - refused_by(counters, rule))
        self._settle(counters)
        return bool(difference.excess)

    def _belief(self, whole_store: bool) -> Belief:
        kept = self._kept
        named = (
            whole_store
            and kept is not None
            and self._inventory.journal.urls == kept.admitted
            and not self._inventory.damaged[Family.ADMITTED]
        )
        repeats = bool((kept and kept.revisits) or self._store.scan(Family.PAGES, b"", None, 1))
        return Belief(named, self._inventory.journal.end, repeats)

    def _settle(self, counters: Counters) -> None:
        """Write the counters, and the digests that the store keeps for the seen-set."""
        if self._store.get(Family.META, COUNTS) != self._inventory.border.encode() and (
            self._inventory.border.pages or self._store.get(Family.META, COUNTS) is not None
        ):
            self._put(Family.META, COUNTS, self._inventory.border.encode())
        if self._kept is not None and counters != self._kept:
            self._context.done(Done.COUNTERS_CORRECTED)
        self._put(Family.META, COUNTERS, encode_counters(counters))
        bodies = sizes_found(self._context.directory)
        if bodies.files or self._store.get(Family.META, BODY_SIZES) is not None:
            self._put(Family.META, BODY_SIZES, encode_sizes(bodies))
        self._write()
        failpoint("repair.counted")
        rows = DigestRows(self._context.settings, self._store, self._context.quarantine, self._context.tell)
        rows.rebuild(self._keys_there(), self._found.journal.out)
        self._store.sync()

    # -- what is pending again ---------------------------------------------------------------------------------

    def _unfinished(self, good: Flags, belief: Belief) -> dict[str, Entry]:
        """Return by key the URLs that must be queued again: finished ones without a record, and pending ones in a wrong
        row."""
        again: dict[str, Entry] = {}
        found = self._found
        for entry in found.queue.misplaced:
            self._add(again, entry)
        lost = 0
        key_of = self._digests.key
        events = [(done.entry, key_of(href)) for href, each in found.journal.done.items() for done in each[-1:]]
        known = [(entry, key) for entry, key in events if key is not None]
        if known:
            marks = self._digests.halves([key for _, key in known])
            finished, pending = as_halves(found.output.urls.all())[good], as_halves(found.queue.urls.all())
            for place in np.flatnonzero(~(np.isin(marks, finished) | np.isin(marks, pending))):
                lost += self._add(again, known[place][0])
        lost += self._readable_records(good, belief, again)
        if lost:
            self._context.done(Done.URLS_PENDING_AGAIN, count=lost)
        if found.queue.misplaced:
            self._context.done(Done.URLS_REQUEUED, count=len(found.queue.misplaced))
        return again

    def _readable_records(self, good: Flags, belief: Belief, again: dict[str, Entry]) -> int:
        """Queue the URLs of valid records that do not count if nothing else accounts for them. Returns how many."""
        found = self._found
        urls = as_halves(found.output.urls.all())
        other = ~good & found.output.whole_flags
        other &= ~(np.isin(urls, as_halves(found.queue.urls.all())) | np.isin(urls, urls[good]))
        if belief.journal_names_all:
            other &= np.isin(urls, as_halves(found.journal.admitted))
        if not other.any():
            return 0
        lost = 0
        for line in itertools.compress(self._lines(), other):
            record = record_of(line)
            if record is not None:
                lost += self._add(again, entry_of(record, self._order))
        return lost

    def _add(self, again: dict[str, Entry], entry: Entry) -> bool:
        key = self._digests.key(entry.href)
        if key is None or key in again:
            return False
        again[key] = entry
        return True

    def _queue(self, again: dict[str, Entry], number: int) -> int:
        """Queue the URLs, and return the next slot number."""
        found, queue = self._found.queue, self._inventory.queue
        gone = self._drop_all(Family.PENDING) - len(found.misplaced)
        if gone:
            self._context.done(Done.ENTRIES_REMOVED, count=gone)
        self._drop_repeated()
        urls = found.urls.all()
        marks = halves(self._digests.digests(list(again)))
        # All at once: to look for one URL takes as long as the queue has others.
        waiting = np.isin(as_halves(marks), as_halves(urls))
        for entry, mark, waits in zip(again.values(), marks, waiting.tolist(), strict=True):
            if waits:
                continue  # it also has a valid row
            name = queue_of(entry.href)
            slot = slot_of(self._order, entry, number)
            queue.first[name] = min(slot, queue.first.get(name, slot))
            self._put(Family.PENDING, pending_key(name, slot), encode_entry(entry))
            number += 1
            if not entry.revisit:
                with contextlib.suppress(BorderError):  # a damaged row is removed with the others
                    drop_page(self._store, self._inventory.border, entry.href, self._batch)
            queue.sizes.setdefault(name, [0, 0])[0] += 1
            if entry.revisit:
                queue.revisits.add(entry.href.encode("ascii"))
            urls.append(mark)
            found.revisits.append(entry.revisit)
        return number

    def _drop_repeated(self) -> None:
        found = self._found.queue
        marks = found.urls.all()
        urls, times = np.unique(as_halves(marks), return_counts=True)
        repeated = set(urls[times > 1].tolist())
        if not repeated:
            return
        met: dict[int, int] = {}  # URL -> its first place
        dropped: set[int] = set()
        place = -1
        bad = {key for key, _ in self._inventory.damaged[Family.PENDING]}
        for key, value in self._store.rows(Family.PENDING):
            if key in bad:
                continue
            place += 1
            url = marks[place]
            if url in repeated and met.setdefault(url, place) != place:
                self._drop(Family.PENDING, key, value)
                host, slot = split_pending_key(key)
                size = self._inventory.queue.sizes[host]
                size[0] -= 1
                size[1] -= is_retry(slot)
                if found.revisits[place] and not found.revisits[met[url]]:
                    self._inventory.queue.revisits.discard(decode_entry(value).href.encode("ascii"))
                dropped.add(place)
        for place in sorted(dropped, reverse=True):
            del marks[place], found.revisits[place]
        self._context.done(Done.DUPLICATES_REMOVED, count=len(dropped))

    # -- the output --------------------------------------------------------------------------------------------

    def _output(self, good: Flags, *, lost: bool) -> None:
        """Keep the valid lines. If any line goes, the events of finished URLs go too, since they no longer say where
        records are; the stored end of the output takes their place."""
        size = self._found.output.size
        events_fit = (self._inventory.journal.end or 0) == size
        damaged = self._drop_all(Family.DONE)
        if asides := self._drop_all(Family.ASIDES):
            self._context.done(Done.EVENTS_REMOVED, family=Family.ASIDES.value, count=asides)
        files = OutputFiles(self._context.directory, self._store, self._context.disk, self._context.quarantine)
        rewritten, broken = files.look(itertools.compress(self._lines(), good)), is_broken(self._path)
        if good.all() and events_fit and not damaged and not lost and not rewritten and not broken:
            return
        if damaged:
            self._context.done(Done.EVENTS_REMOVED, family=Family.DONE.value, count=damaged)
        damaged_bodies = self._damaged_bodies(~good)
        self._write()  # queue the URL before its record goes
        forget_answers(self._store)
        self._store.sync()
        failpoint("repair.queued")
        try:
            if not good.all() or files.names or broken:
                size = self._keep_lines(good, files)
            self._batch.delete_range(Family.DONE, b"", b"\xff" * 9)
            self._put(Family.META, OUTPUT_END, encode_end(size))
            files.settle(self._batch)
            self._write()
        finally:
            files.close()
        self._store.sync()
        for name in files.names:
            self._context.done(Done.OUTPUT_REWRITTEN, output=name, files=files.files(name))
        if files.asides_lost:
            self._context.done(Done.ASIDES_REMOVED, count=files.asides_lost)
        files.move_away()
        for name in damaged_bodies:
            self._context.quarantine.move(self._context.directory / name)
        if damaged_bodies:
            self._context.done(Done.BODIES_MOVED, count=len(damaged_bodies))

    def _damaged_bodies(self, wrong: Flags) -> list[str]:
        """The files of bodies that are there and damaged, of records that go."""
        directory = self._context.directory
        names = {body_in(line) for line in itertools.compress(self._lines(), wrong)} - {None}
        return [
            name
            for name in sorted(filter(None, names))
            if os.path.lexists(directory / name) and not is_whole(directory, name)
        ]

    def _keep_lines(self, good: Flags, files: OutputFiles) -> int:
        kept, path, disk = int(good.sum()), self._path, self._context.disk
        part = path.with_name(PAGES + ".part")
        file = disk.open(part, create=True)
        try:
            file.truncate(0)
            sink = Appender(file)
            size = 0
            with PartReader(self._context.directory) as reader:
                for line in itertools.compress(self._lines(), good):
                    size += sink.write(files.moved(line, reader))
            file.sync()
            files.sync()
        finally:
            file.close()
        # Link it, do not move it: after an interruption, the next repair must still find the records.
        if path.is_file():
            self._context.quarantine.link(path)
        if page_paths(path) or path.is_dir():
            disk.replace(part, path.with_name(WHOLE))
            disk.sync_directory(self._context.directory)
            place_whole(path, disk, self._context.quarantine)
        else:
            disk.replace(part, path)
            disk.sync_directory(self._context.directory)
        failpoint("repair.output")
        if kept < len(good):
            self._context.done(Done.LINES_REMOVED, removed=len(good) - kept, kept=kept)
        return size

    def _lines(self) -> Iterator[bytes]:
        return (line for _, line in lines_of(self._path))

    def _records(self) -> Iterator[Record]:
        for line in self._lines():
            record = record_of(line)
            if record is not None:
                yield record

    def _count_records(self) -> tuple[Counters, OutputTally]:
        """Count what the output now holds: for the job, new counters of finished URLs with all others unchanged, and
        the counts of each host."""
        tally, fresh = OutputTally(), replace(self._kept or Counters())
        fresh.fetched = fresh.redirected = fresh.failed = fresh.excluded = fresh.seeds_fetched = 0
        fresh.soft404 = fresh.blocked = 0
        fresh.status_2xx = fresh.status_3xx = fresh.status_4xx = fresh.status_5xx = 0
        for record in self._records():
            tally.add(record)
            outcome, status = Outcome(str(record["outcome"])), record.get("status")
            count_done(fresh, outcome, status if isinstance(status, int) else None)
            fresh.seeds_fetched += outcome is Outcome.FETCHED and record.get("depth") == 0
        return fresh, tally

    # -- the journal -------------------------------------------------------------------------------------------

    def _drop_events(self, excess: dict[int, int]) -> None:
        damaged = self._drop_all(Family.ADMITTED)
        if damaged:
            self._context.done(Done.EVENTS_REMOVED, family=Family.ADMITTED.value, count=damaged)
        if not excess:
            return
        left = dict(excess)
        # Go backwards: of a URL that was admitted, forgotten and admitted again, the last admission is the one to
        # remove.
        for key, value in reversed(list(self._events_with(left))):
            stay = []
            for digest in reversed(each_digest(decode_seen(value)[1])):
                half = int.from_bytes(digest[:8], "little")
                if left.get(half, 0) > 0:
                    left[half] -= 1
                else:
                    stay.append(digest)
            self._drop(Family.ADMITTED, key, value)
            if stay:
                self._put(Family.ADMITTED, key, encode_admitted(b"".join(reversed(stay))))
        self._context.done(Done.URLS_FORGOTTEN, count=sum(excess.values()))

    def _events_with(self, wanted: dict[int, int]) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._store.rows(Family.ADMITTED):
            try:
                forgotten, digests = decode_seen(value)
            except JournalError:
                continue
            if not forgotten and any(half in wanted for half in halves(digests)):
                yield key, value

    def _name_events(self, lacking: dict[int, int], sequence: int) -> int:
        """Add URLs that the journal lacks to it, and return the next sequence number."""
        if not lacking:
            return sequence
        self._write()
        left, waiting = dict(lacking), bytearray()

        def name() -> None:
            nonlocal sequence
            self._put(Family.ADMITTED, sequence_key(sequence), encode_admitted(bytes(waiting)))
            sequence += 1
            waiting.clear()

        for key in self._keys_there():
            digest = self._digests.digests([key])
            half = int.from_bytes(digest[:8], "little")
            if left.get(half, 0) > 0:
                left[half] -= 1
                waiting += digest
                if len(waiting) == _EVENT * DIGEST_SIZE:
                    name()
        if waiting:
            name()
        self._context.done(Done.JOURNAL_COMPLETED, count=sum(lacking.values()))
        return sequence

    def _keys_there(self) -> Iterator[str]:
        """Yield the key of every pending and every finished URL. Raises OSError."""
        for _, value in self._store.rows(Family.PENDING):
            yield self._digests.key(decode_entry(value).href) or ""
        for record in self._records():
            yield self._digests.key(str(record["url"])) or ""

    # -- hosts -------------------------------------------------------------------------------------------------

    def _small_families(self) -> None:
        """Remove the damaged rows of the families that do not depend on the journal or the queue."""
        for family, done in (
            (Family.ROBOTS, Done.ROBOTS_REMOVED),
            (Family.TRAPS, Done.TRAPS_REMOVED),
            (Family.CONTENT, Done.COPIES_REMOVED),
            (Family.SOFT404, Done.SOFT404_REMOVED),
            (Family.OUTBOX, Done.MESSAGES_REMOVED),
            (Family.INLET, Done.INLET_REMOVED),
            (Family.REFUSED, Done.HELD_BACK_REMOVED),
            (Family.BORDER, Done.BORDER_REMOVED),
        ):
            damaged = self._drop_all(family)
            if damaged:
                self._context.done(done, count=damaged)
        # The output may lack some, and the numbers of records may be given again.
        payloads = sum(1 for _ in self._store.rows(Family.PAYLOADS))
        self._drop_all(Family.PAYLOADS)
        if payloads:
            self._batch.delete_range(Family.PAYLOADS, b"", b"\xff" * (DIGEST + 1))
            self._context.done(Done.PAYLOADS_FORGOTTEN, count=payloads)
        self._drop_all(Family.HOSTS)
        self._write()
        self._close_up()

    def _close_up(self) -> None:
        """Give the messages behind a gap the numbers after those before it."""
        target, number, moved = -1, 0, 0
        for rows in self._store.pages(Family.OUTBOX):
            for key, value in rows:
                row = read_key(key)
                number = row[1] if row[0] != target else number + 1
                target = row[0]
                if row[1] != number:
                    self._batch.delete(Family.OUTBOX, key)
                    self._batch.put(Family.OUTBOX, row_key(target, number), value)
                    moved += 1
            self._write()
        if moved:
            self._context.done(Done.MESSAGES_CLOSED_UP, count=moved)

    def _hosts(self, tally: OutputTally) -> int:
        """Correct the hosts' counts from the queue and the output, and return the number of hosts."""
        left, count, changed = dict(self._inventory.queue.sizes), 0, 0
        for key, value in self._store.rows(Family.HOSTS):
            host = decode_host(host_name(key), value)
            count += 1
            if self._correct(host, left.pop(host.name, [0, 0]), tally):
                self._put(Family.HOSTS, key, encode_host(host))
                changed += 1
        gone = tally.rest()
        for name in left.keys() | gone.keys():
            size, retries = left.get(name, (0, 0))
            fetched, failed = gone.get(name, (0, 0))
            made = Host(
                name, BackQueue(size, retries, complete=False, revisits=RevisitLane(0)), tally=Tally(fetched, failed)
            )
            self._put(Family.HOSTS, name.encode("ascii"), encode_host(made))
        if changed:
            self._context.done(Done.HOSTS_CORRECTED, count=changed)
        if left:
            self._context.done(Done.HOSTS_REBUILT, count=len(left))
        self._write()
        return count + len(left.keys() | gone.keys())

    def _correct(self, host: Host, size: list[int], tally: OutputTally) -> bool:
        """Correct the counts of a host, and return whether they changed."""
        own, politeness, counts = host.queue, host.politeness, host.tally
        robots_known = self._store.get(Family.ROBOTS, host.name.encode("ascii")) is not None
        robots_until = politeness.robots_until if robots_known else 0.0
        first = self._inventory.queue.first.get(host.name)
        beside = first is not None and first < own.cursor
        found = (size[0], size[1], robots_until, *tally.pop(host.name))
        if not beside and (own.size, own.retry_size, politeness.robots_until, counts.fetched, counts.failed) == found:
            return False
        own.size, own.retry_size, politeness.robots_until, counts.fetched, counts.failed = found
        own.cursor, own.complete = first or FRESH_START, False
        own.revisits = RevisitLane(0)  # whether any wait is found when they are read
        return True

    # -- changes -----------------------------------------------------------------------------------------------

    def _put(self, family: Family, key: bytes, value: bytes) -> None:
        self._batch.put(family, key, value)
        if len(self._batch.changes) >= _CHANGES:
            self._write()

    def _drop(self, family: Family, key: bytes, value: bytes) -> None:
        self._context.quarantine.keep_row(family, key, value)
        self._batch.delete(family, key)

    def _drop_all(self, family: Family) -> int:
        """Remove the damaged rows of a family, and return how many there were."""
        damaged = self._inventory.damaged[family]
        for key, value in damaged:
            self._drop(family, key, value)
        return len(damaged)

    def _write(self) -> None:
        self._context.quarantine.flush()
        if self._batch.changes:
            self._store.write(self._batch)
            self._batch = Batch()


def _stored_counters_or_none(value: bytes | None) -> Counters | None:
    """Return the counters, or None if they are missing or damaged."""
    try:
        return None if value is None else decode_counters(value)
    except JournalError:
        return None


def place_whole(pages: Path, disk: Disk, quarantine: Quarantine) -> None:
    """Let one file take the place of several that held the records. An interrupted repair is completed by the next.
    Raises OSError."""
    whole = pages.with_name(WHOLE)
    if not whole.exists():
        return
    for path in page_paths(pages):
        quarantine.move(path)
    if pages.is_dir():
        quarantine.move(pages)
    disk.replace(whole, pages)
    disk.sync_directory(pages.parent)

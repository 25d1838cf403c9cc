"""Making queue, journal, output and counters of a damaged job agree, by what ``recount`` found.

The order matters if this is broken off: first what is to be fetched again is queued, then records go, then the journal
follows, the counters last. At each moment in between ``recount`` finds the same URLs again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from crawler.disk import Appender, Disk, failpoint
from crawler.fetch.robots_cache import RobotsCache
from crawler.frontier import (
    BackQueue,
    Entry,
    Host,
    HostRecordError,
    Tally,
    decode_entry,
    decode_host,
    encode_entry,
    queue_of,
)
from crawler.frontier.entry import FRESH_START, pending_key, split_pending_key
from crawler.frontier.host import encode_host, host_name
from crawler.frontier.order import Order, slot_of
from crawler.integrity.digest_rows import DigestRows
from crawler.integrity.inventory import (
    Ended,
    Flags,
    Journal,
    Keys,
    Output,
    Queue,
    as_halves,
    bad_content,
    compare,
    count_records,
    count_traps,
    finished,
    halves,
    read_journal,
    read_output,
    read_queue,
    stored_counters_or_none,
)
from crawler.integrity.quarantine import Quarantine
from crawler.integrity.revisit_rows import mend_schedule
from crawler.job.directory import PAGES
from crawler.job.recovery import COUNTERS, OUTPUT_END, encode_end, stored_end
from crawler.kv import Batch, Family, Store
from crawler.output import Record, entry_of, lines_of, record_of
from crawler.records import DIGEST_SIZE, Counters, JournalError, decode_seen, encode_admitted, sequence_key
from crawler.robots import RobotsRecordError
from crawler.settings import Settings

_CHANGES = 4_096  # in one batch
_EVENT = 256  # URLs named by one new event


class Reconciliation:
    """One pass over a job whose store is open for writing."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        store: Store,
        disk: Disk,
        aside: Quarantine,
        say: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._path = directory / PAGES
        self._settings = settings
        self._keys = Keys(settings)
        self._order = Order(settings.crawl.order)
        self._store = store
        self._disk = disk
        self._aside = aside
        self._say = say
        self._batch = Batch()

    def run(self, *, whole_store: bool) -> bool:
        """``whole_store`` is False after rows of the store were lost. Returns whether the seen-set must be rebuilt:
        URLs that it knows were forgotten. Raises OSError."""
        self._meta()
        kept = stored_counters_or_none(self._store.get(Family.META, COUNTERS))
        if kept is None:
            self._say("the counters were gone: counted anew; those of links, retries and duplicates begin at 0")
        journal = read_journal(self._store)
        queue = read_queue(self._store, self._keys)
        trusted = (
            whole_store
            and kept is not None
            and len(journal.admitted) == kept.admitted
            and not any(family is Family.ADMITTED for family, _, _ in journal.bad)
        )
        repeats = bool((kept and kept.revisits) or self._store.scan(Family.PAGES, b"", None, 1))
        output = read_output(self._lines(), self._keys, journal)
        end = journal.end if journal.done else stored_end(self._store)
        good = finished(output, queue, journal, trusted=trusted, end=end, repeats=repeats)
        number = max(queue.number, kept.next_number if kept else 0)
        sequence = max(journal.sequence, kept.sequence if kept else 0)

        again = self._unfinished(output, good, queue, journal, trusted)
        number = self._queue(queue, again, number)
        self._output(output, good, journal, lost=bool(again))
        there = np.concatenate((as_halves(queue.urls), as_halves(output.urls)[good]))
        visits, there = len(there), np.unique(there) if repeats else there
        difference = compare(as_halves(journal.admitted), there)
        self._drop_events(journal, difference.excess)
        sequence = self._name_events(difference.lacking, sequence)
        self._robots()
        hosts = self._hosts(queue)
        traps = self._traps()

        counters = count_records(kept or Counters(), self._records())
        self._write()
        counters = replace(
            counters,
            sequence=sequence,
            next_number=number,
            admitted=len(there),
            hosts=hosts,
            trap_counts=traps,
            revisits=visits - len(there),
            revisits_pending=sum(queue.revisits),
            scheduled=mend_schedule(self._store, self._aside, self._say),
        )
        if kept is not None and counters != kept:
            self._say("the counters were set to what queue, journal and output hold")
        self._put(Family.META, COUNTERS, counters.encode())
        self._write()
        failpoint("repair.counted")
        DigestRows(self._settings, self._store, self._aside, self._say).remake(self._keys_there(), journal.out)
        self._store.sync()
        return bool(difference.excess)

    # -- what is pending again ---------------------------------------------------------------------------------

    def _unfinished(
        self, output: Output, good: Flags, queue: Queue, journal: Journal, trusted: bool
    ) -> dict[str, Entry]:
        """By key: URLs that were finished, or pending in a row where they cannot stay, and must be queued again."""
        again: dict[str, Entry] = {}
        for entry in queue.again:
            self._add(again, entry)
        lost = 0
        events = [(done.entry, self._keys.key(href)) for href, each in journal.done.items() for done in each[-1:]]
        known = [(entry, key) for entry, key in events if key is not None]
        if known:
            marks = as_halves(halves(self._keys.digests([key for _, key in known])))
            gone = ~(np.isin(marks, as_halves(output.urls)[good]) | np.isin(marks, as_halves(queue.urls)))
            for place in np.flatnonzero(gone):
                lost += self._add(again, known[place][0])
        lost += self._readable_records(output, good, queue, journal, trusted, again)
        if lost:
            self._say(f"{lost} finished URLs had no whole record any more: they are pending again")
        if queue.again:
            self._say(f"{len(queue.again)} pending URLs stood where they could not be found: they are queued anew")
        return again

    def _readable_records(
        self, output: Output, good: Flags, queue: Queue, journal: Journal, trusted: bool, again: dict[str, Entry]
    ) -> int:
        """Records that do not count, of URLs that nothing else accounts for."""
        urls = as_halves(output.urls)
        other = ~good & (np.frombuffer(bytes(output.whole), np.bool_))
        other &= ~(np.isin(urls, as_halves(queue.urls)) | np.isin(urls, urls[good]))
        if trusted:
            other &= np.isin(urls, as_halves(journal.admitted))
        if not other.any():
            return 0
        lost = 0
        for line in itertools.compress(self._lines(), other):
            record = record_of(line)
            if record is not None:
                lost += self._add(again, entry_of(record, self._order))
        return lost

    def _add(self, again: dict[str, Entry], entry: Entry) -> bool:
        key = self._keys.key(entry.href)
        if key is None or key in again:
            return False
        again[key] = entry
        return True

    def _queue(self, queue: Queue, again: dict[str, Entry], number: int) -> int:
        for key, value in queue.bad:
            self._drop(Family.PENDING, key, value)
        if queue.gone:
            self._say(f"{queue.gone} rows of the queue held no URL any more: removed")
        self._drop_repeated(queue)
        marks = as_halves(queue.urls)
        for url, entry in again.items():
            digest = halves(self._keys.digests([url]))
            if np.isin(as_halves(digest), marks).any():
                continue  # it stands in a good row as well
            name = queue_of(entry.href)
            slot = slot_of(self._order, entry, number)
            queue.first[name] = min(slot, queue.first.get(name, slot))
            self._put(Family.PENDING, pending_key(name, slot), encode_entry(entry))
            number += 1
            queue.size.setdefault(name, [0, 0])[0] += 1
            queue.urls.extend(digest)
            queue.revisits.append(entry.revisit)
        return number

    def _drop_repeated(self, queue: Queue) -> None:
        urls, times = np.unique(as_halves(queue.urls), return_counts=True)
        repeated = set(urls[times > 1].tolist())
        if not repeated:
            return
        met: Counter[int] = Counter()
        dropped: set[int] = set()
        place = -1
        bad = {key for key, _ in queue.bad}
        for key, value in self._store.rows(Family.PENDING):
            if key in bad:
                continue
            place += 1
            url = queue.urls[place]
            if url in repeated:
                met[url] += 1
                if met[url] > 1:
                    host, slot = split_pending_key(key)
                    self._drop(Family.PENDING, key, value)
                    queue.size[host][0] -= 1
                    queue.size[host][1] -= slot[0] == 0
                    dropped.add(place)
        for place in sorted(dropped, reverse=True):
            del queue.urls[place], queue.revisits[place]
        self._say(f"{len(dropped)} URLs were queued twice: once is left")

    # -- the output --------------------------------------------------------------------------------------------

    def _output(self, output: Output, good: Flags, journal: Journal, *, lost: bool) -> None:
        """Keep the good lines. The events then no longer say where records stand: the output's end does."""
        events_fit = (journal.end if journal.events else stored_end(self._store) or 0) == output.size
        bad = [(key, value) for family, key, value in journal.bad if family is Family.DONE]
        if good.all() and events_fit and not bad and not lost:
            return
        for key, value in bad:
            self._drop(Family.DONE, key, value)
        if bad:
            self._say(f"{len(bad)} events of finished URLs in the journal were no events: removed")
        self._write()  # what is queued again must be there before its record goes
        self._store.sync()
        failpoint("repair.queued")
        size = output.size if good.all() else self._keep_lines(output, good)
        batch = self._batch
        batch.delete_range(Family.DONE, b"", b"\xff" * 9)
        self._put(Family.META, OUTPUT_END, encode_end(size))
        self._write()

    def _keep_lines(self, output: Output, good: Flags) -> int:
        kept = int(good.sum())
        path = self._path
        part = path.with_name(PAGES + ".part")
        file = self._disk.open(part, create=True)
        try:
            file.truncate(0)
            sink = Appender(file)
            size = 0
            for line in itertools.compress(self._lines(), good):
                size += sink.write(line)
            file.sync()
        finally:
            file.close()
        self._aside.link(path)  # not moved: a repair that is broken off here would find no record when it is run again
        self._disk.replace(part, path)
        self._disk.sync_directory(self._directory)
        failpoint("repair.output")
        self._say(
            f"{PAGES}: {len(good) - kept} lines were damaged, unfinished or of URLs that are pending: {kept} are kept"
        )
        return size

    def _lines(self) -> Iterator[bytes]:
        return (line for _, line in lines_of(self._path))

    def _records(self) -> Iterator[Record]:
        for line in self._lines():
            record = record_of(line)
            if record is not None:
                yield record

    # -- the journal -------------------------------------------------------------------------------------------

    def _drop_events(self, journal: Journal, excess: dict[int, int]) -> None:
        bad = [(key, value) for family, key, value in journal.bad if family is Family.ADMITTED]
        for key, value in bad:
            self._drop(Family.ADMITTED, key, value)
        if bad:
            self._say(f"{len(bad)} events of admitted URLs in the journal were no events: removed")
        if not excess:
            return
        left = dict(excess)
        # From the end: of a URL that was admitted, forgotten and admitted again the last is the one that is gone.
        for key, value in reversed(list(self._events_with(left))):
            _, digests = decode_seen(value)
            each = [digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)]
            stay = []
            for digest in reversed(each):
                half = int.from_bytes(digest[:8], "little")
                if left.get(half, 0) > 0:
                    left[half] -= 1
                else:
                    stay.append(digest)
            self._drop(Family.ADMITTED, key, value)
            if stay:
                self._put(Family.ADMITTED, key, encode_admitted(b"".join(reversed(stay))))
        self._say(
            f"{sum(excess.values())} admitted URLs are neither pending nor finished and nothing tells their addresses: "
            "forgotten, so that they are fetched when a link to them is found"
        )

    def _events_with(self, wanted: dict[int, int]) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._store.rows(Family.ADMITTED):
            try:
                forgotten, digests = decode_seen(value)
            except JournalError:
                continue
            if not forgotten and any(half in wanted for half in halves(digests)):
                yield key, value

    def _name_events(self, lacking: dict[int, int], sequence: int) -> int:
        """Name URLs that are there in the journal; returns the next sequence number."""
        if not lacking:
            return sequence
        self._write()
        left, waiting = dict(lacking), bytearray()

        def name() -> None:
            nonlocal sequence
            self._put(Family.ADMITTED, sequence_key(sequence), encode_admitted(bytes(waiting)))
            sequence += 1
            waiting.clear()

        for digest in self._digests_there():
            half = int.from_bytes(digest[:8], "little")
            if left.get(half, 0) > 0:
                left[half] -= 1
                waiting += digest
                if len(waiting) == _EVENT * DIGEST_SIZE:
                    name()
        if waiting:
            name()
        self._say(f"{sum(lacking.values())} URLs that are pending or finished were not in the journal: named again")
        return sequence

    def _keys_there(self) -> Iterator[str]:
        """The key of every pending and every finished URL. Raises OSError."""
        for _, value in self._store.rows(Family.PENDING):
            yield self._keys.key(decode_entry(value).href) or ""
        for record in self._records():
            yield self._keys.key(str(record["url"])) or ""

    def _digests_there(self) -> Iterator[bytes]:
        for key in self._keys_there():
            yield self._keys.digests([key])

    # -- hosts -------------------------------------------------------------------------------------------------

    def _hosts(self, queue: Queue) -> int:
        """Make the hosts' counts those of queue and output; returns how many hosts there are."""
        left, count, changed = dict(queue.size), 0, 0
        ended = Ended()
        for record in self._records():
            ended.add(record)
        for key, value in self._store.rows(Family.HOSTS):
            try:
                name = host_name(key)
                host = decode_host(name, value)
            except HostRecordError:
                self._drop(Family.HOSTS, key, value)
                continue
            count += 1
            size, retries = left.pop(name, [0, 0])
            robots = 0.0 if self._store.get(Family.ROBOTS, key) is None else host.politeness.robots_until
            own, politeness, tally = host.queue, host.politeness, host.tally
            beside = queue.first.get(name, own.cursor) < own.cursor
            fetched, failed = ended.pop(name)
            counted = (size, retries, robots, fetched, failed)
            if beside or (own.size, own.retry_size, politeness.robots_until, tally.fetched, tally.failed) != counted:
                own.size, own.retry_size, politeness.robots_until, tally.fetched, tally.failed = counted
                own.cursor, own.complete = queue.first.get(name, FRESH_START), False
                self._put(Family.HOSTS, key, encode_host(host))
                changed += 1
        gone = ended.rest()
        for name in left.keys() | gone.keys():
            size, retries = left.get(name, (0, 0))
            fetched, failed = gone.get(name, (0, 0))
            waiting = BackQueue(size, retries, complete=False)
            made = Host(name, waiting, tally=Tally(fetched, failed))
            self._put(Family.HOSTS, name.encode("ascii"), encode_host(made))
        if changed:
            self._say(f"{changed} hosts counted other than queue and output hold: counted anew")
        if left:
            self._say(f"{len(left)} hosts with pending URLs had no record: made anew, robots.txt will be asked for")
        return count + len(left.keys() | gone.keys())

    def _robots(self) -> None:
        known = RobotsCache(self._store, self._settings.robots, self._settings.fetch.user_agent)
        bad = 0
        for key, value in self._store.rows(Family.ROBOTS):
            try:
                known.decode(value)
            except RobotsRecordError:
                self._drop(Family.ROBOTS, key, value)
                bad += 1
        if bad:
            self._say(f"{bad} records of robots.txt were none: removed, it will be asked for again")
        self._write()

    def _traps(self) -> int:
        """Drop what is no row of a trap or of a copy; returns the sum of what the traps have counted."""
        total, bad = count_traps(self._store)
        for key, value in bad:
            self._drop(Family.TRAPS, key, value)
        if bad:
            self._say(f"{len(bad)} counts of traps were none: removed, what they counted is counted anew")
        marks = bad_content(self._store)
        for key, value in marks:
            self._drop(Family.CONTENT, key, value)
        if marks:
            self._say(f"{len(marks)} marks of pages' contents were none: removed")
        return total

    # -- names -------------------------------------------------------------------------------------------------

    def _meta(self) -> None:
        for name, value in self._store.rows(Family.META):
            try:
                name.decode("utf-8")
                if name == OUTPUT_END:
                    stored_end(self._store)
            except (UnicodeDecodeError, JournalError):
                self._drop(Family.META, name, value)
        self._write()

    # -- changes -----------------------------------------------------------------------------------------------

    def _put(self, family: Family, key: bytes, value: bytes) -> None:
        self._batch.put(family, key, value)
        if len(self._batch.changes) >= _CHANGES:
            self._write()

    def _drop(self, family: Family, key: bytes, value: bytes) -> None:
        self._aside.keep_row(family, key, value)
        self._batch.delete(family, key)

    def _write(self) -> None:
        self._aside.flush()
        if self._batch.changes:
            self._store.write(self._batch)
            self._batch = Batch()

"""Reads a whole job once: every family of its store, and its output, part by part.

``verify`` reports the findings as they come; ``repair`` uses the totals at the end. Both observe each URL as it is read
(``Observer``): ``verify`` looks the URL up in the seen-set, ``repair`` keeps 8 bytes of its digest. Memory use grows
with the number of hosts, not of URLs. ``DigestSum`` compares sets of digests without holding them in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from msgspec import Struct, field

from crawler.base.kv import Family, Reader, Row
from crawler.base.settings.parts import PARTITIONS_MOST, Settings
from crawler.frontier.entry import Entry, EntryError, decode_entry, is_retry, queue_of, split_pending_key
from crawler.frontier.host import Host, HostRecordError, decode_host, host_name
from crawler.frontier.page import PageError, unpack_page
from crawler.frontier.rendering.rendering_odds import KIND as RENDERING
from crawler.frontier.rendering.rendering_odds import check_known
from crawler.frontier.request_outcome import HostResult
from crawler.frontier.revisits import due_key, split_due_key
from crawler.frontier.traps.copies import check_content
from crawler.frontier.traps.soft404 import check_soft404
from crawler.frontier.traps.traps import check_row
from crawler.inspect.export.kept_parts import path_of, positions_of
from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.inspect.integrity.output_files import PartReader
from crawler.job.directory import PAGES, STORE
from crawler.job.division import DESCENT, Descent, read_descent
from crawler.job.left_out import decode_row
from crawler.job.metrics.catalogue import Counters
from crawler.job.output import Record, lines_of, record_of
from crawler.job.output.record_text import has_text, open_text
from crawler.job.partition import inlet, outbox
from crawler.job.receiving import EPOCH, decode_epoch
from crawler.job.records import (
    DIGEST_SIZE,
    Done,
    JournalError,
    Outcome,
    Position,
    decode_aside,
    decode_done,
    decode_ends,
    decode_seen,
    result_of,
    sequence_key,
)
from crawler.job.recovery import OUTPUT_END, PARTITION_KEPT, REPAIRING, OutputCut, kept_partition, stored_end
from crawler.job.transaction import OUTPUT_ENDS
from crawler.seen.exact.ledger import LEDGER_COUNTS, LedgerCounts
from crawler.seen.exact.rows import HOST_BYTES, ROW_BYTES, rows_of
from crawler.seen.exact.seen import ROW_COUNT, KeptRows, kept_rows
from crawler.seen.filters import FilterError, KeyHash
from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.scope.bounds import Limit
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.archive.payloads import decode_payload
from crawler.web.fetch.robots_answers import RobotsCache

_SUMMED = 2_048  # pieces of digests that are summed up at a time


class DigestSum:
    """Counts digests, and sums their halves modulo 2**64: the result does not depend on the order of the digests."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._sums = (0, 0, 0)

    def add(self, digests: bytes) -> None:
        self._waiting.append(digests)
        if len(self._waiting) >= _SUMMED:
            self.sums()

    def sums(self) -> tuple[int, int, int]:
        """Return the number of digests, the sum of their first halves and the sum of their second halves."""
        count, low, high = self._sums
        words = np.frombuffer(b"".join(self._waiting), "<u8").reshape(-1, 2)
        more = words.sum(axis=0, dtype=np.uint64).tolist()
        self._waiting.clear()
        self._sums = count + len(words), (low + more[0]) % 2**64, (high + more[1]) % 2**64
        return self._sums


_TOGETHER = 2_048  # number of keys looked up together
_UNANSWERED = (Outcome.FAILED, Outcome.EXCLUDED)

Findings = Iterator[Finding]
RowCheck = Callable[[bytes, bytes], object]


class Observer:
    """Receives each URL as it is read. The inventory collects the observer's findings after each page of rows."""

    def admitted(self, number: int, digests: bytes) -> None:
        """Handle an event of the journal: the keys with these digests were admitted."""

    def forgotten(self, digests: bytes) -> None:
        """Handle an event: the keys with these digests were removed from the seen-set."""

    def finished(self, done: Done) -> None:
        """Handle an event: a URL was finished."""

    def pending(self, row: bytes, entry: Entry, key: str) -> None:
        """Handle a readable entry of a queue, even if its row is misplaced."""

    def line(self, start: int, line: bytes, record: Record | None, key: str | None, *, held: bool) -> None:
        """Handle a line of the output. ``record`` or ``key`` is None if the line is damaged. ``held`` is True if the
        other outputs have the parts that the record names."""

    def findings(self) -> Iterable[Finding]:
        """Return the findings since the last call."""
        return ()


_ANY_PARTITION = (-1, PARTITIONS_MOST)  # used if a store does not contain the number of its partition


class UrlKeys:
    """Computes the keys of stored URLs, and the digests of keys as the job stores them."""

    def __init__(self, settings: Settings, hash: KeyHash) -> None:
        self._canonicaliser = Canonicaliser(settings.canonical.rules)
        self.digests = hash.digest_keys

    def key(self, href: str) -> str | None:
        """Return the key, or None for a URL that no crawl stores because it is not canonical."""
        href, _, name = href.partition("#")
        url = self._canonicaliser.canonicalise(href)
        # A request from another fetcher is identified by its name.
        return (name or url.key) if isinstance(url, Canonical) and url.href == href else None


class Source(Struct, frozen=True):
    """A job with an open store. ``hash`` is the journal's hash of URLs. ``counters`` is None if they are unreadable;
    nothing is then compared with them."""

    directory: Path
    settings: Settings
    hash: KeyHash
    store: Reader
    counters: Counters | None


class Journal(Struct):
    """The contents of the journal.

    ``end`` is the end of the output according to the last event. ``admitted`` and ``forgotten`` are sums of digests;
    they are only used if the job also keeps these digests in its store. ``whole`` is True once all events have been
    read."""

    urls: int = 0
    events: int = 0  # number of events of finished URLs
    sequence: int = 0  # greater than the number of every event
    end: int | None = None
    admitted: DigestSum = field(default_factory=DigestSum)
    forgotten: DigestSum = field(default_factory=DigestSum)
    whole: bool = False


class Queue(Struct):
    """The queues of all hosts.

    For each host, ``sizes`` has the numbers of its URLs and of its retries, and ``first`` has the first slot of its
    fresh lane. ``number`` is greater than every slot number in use; ``revisits`` holds the pages queued for a
    revisit."""

    sizes: dict[str, list[int]] = field(default_factory=dict)
    first: dict[str, bytes] = field(default_factory=dict)
    number: int = 0
    revisits: set[bytes] = field(default_factory=set)
    whole: bool = False

    def add(self, host: str, slot: bytes, entry: Entry) -> None:
        size = self.sizes.setdefault(host, [0, 0])
        size[0] += 1
        if is_retry(slot):
            size[1] += 1
        else:
            self.first[host] = min(slot, self.first.get(host, slot))
        if entry.revisit:
            self.revisits.add(entry.href.encode("ascii"))


class OutputTally:
    """Reads the records in the output: counts, for each host, the URLs that got a response and those that failed, and
    finds the host's best result."""

    def __init__(self) -> None:
        self._hosts: dict[str, list[int]] = {}

    def add(self, record: Record) -> None:
        """Count the URL of a record for its host."""
        outcome, status = Outcome(str(record["outcome"])), record.get("status")
        counts = self._hosts.setdefault(queue_of(str(record["url"])), [0, 0, HostResult.NOTHING])
        counts[0] += outcome not in _UNANSWERED
        counts[1] += outcome is Outcome.FAILED
        result = result_of(outcome, status if isinstance(status, int) else None, str(record.get("error")))
        counts[2] = max(counts[2], result)

    def pop(self, host: str) -> tuple[int, int, HostResult]:
        """Return (fetched, failed, result) of the host, and remove them here."""
        fetched, failed, result = self._hosts.pop(host, (0, 0, 0))
        return fetched, failed, HostResult(result)

    def rest(self) -> dict[str, tuple[int, int, HostResult]]:
        """Return (fetched, failed, result) of all remaining hosts."""
        return {host: self.pop(host) for host in list(self._hosts)}


class Inventory:
    """A single pass over a job. ``damaged`` holds the invalid rows of each family."""

    def __init__(
        self, source: Source, observer: Observer, *, beyond_end: bool = False, cut: OutputCut | None = None
    ) -> None:
        """With ``beyond_end``, lines of the output that follow the end recorded in the journal are also read. ``cut``
        is the truncation that the next run will make; findings that this truncation removes are marked."""
        self.journal = Journal()
        self.queue = Queue()
        self.trap_counts = 0
        self.left_out = Counters()  # counts of left-out links, according to the stored rows
        self.bodies_lost = set[str]()  # names of the bodies that records refer to and that are missing or damaged
        self.damaged: dict[Family, list[Row]] = {family: [] for family in Family}
        self._source = source
        self._partition = _ANY_PARTITION
        self._descent: Descent | None = None
        self._observer = observer
        self._keys = UrlKeys(source.settings, source.hash)
        self._beyond_end = beyond_end
        self._cut = cut

    @property
    def _store(self) -> Reader:
        return self._source.store

    @property
    def _counters(self) -> Counters | None:
        return self._source.counters

    @property
    def _kept_rows(self) -> KeptRows | None:
        return kept_rows(self._source.settings.seen)

    def parts(self) -> Iterator[Findings]:
        """Yield the parts. The caller must read each to its end before the next. An unreadable part raises StoreError;
        later parts can still be read."""
        yield self._meta()
        yield self._events()
        yield self._queues()
        yield self._hosts()
        yield self._ledger()
        yield self._rows()
        for family, check in self._row_checks().items():
            yield self._check_rows(family, check)
        yield self._counts()
        yield self._schedule()
        yield self._messages()
        yield self._output()

    def _damage(self, family: Family, row: Row, error: object) -> Finding:
        """Record a row that is invalid for its family."""
        self.damaged[family].append(row)
        return Finding(Kind.ROW_DAMAGED, STORE, {"error": str(error)}, family, row[0])

    def _compare(self, counter: str, found: int) -> Findings:
        """Compare a number with the counter of that name, if the counters are readable."""
        if self._counters is not None:
            yield from _differ(counter, getattr(self._counters, counter), found)

    # -- families that are checked on their own ----------------------------------------------------------------

    def _row_checks(self) -> dict[Family, RowCheck]:
        """Return, by family, the function that checks a row; it raises ValueError if the row is invalid."""
        robots = RobotsCache(self._store, self._source.settings.fetch.user_agent)
        return {
            Family.ROBOTS: lambda _, value: robots.decode(value),
            Family.TRAPS: self._trap,
            Family.CONTENT: check_content,
            Family.SOFT404: check_soft404,
            Family.PAYLOADS: decode_payload,
            Family.LEFT_OUT: lambda *row: decode_row(*row).count(self.left_out),
            Family.INLET: lambda key, value: inlet.check_row(key, value, *self._partition),
        }

    def _check_rows(self, family: Family, check: RowCheck) -> Findings:
        for row in self._store.rows(family):
            try:
                check(*row)
            except ValueError as error:
                yield self._damage(family, row, error)

    def _trap(self, key: bytes, value: bytes) -> None:
        if key[:1] == RENDERING:
            check_known(key, value)
        else:
            self.trap_counts += check_row(key, value)

    def _counts(self) -> Findings:
        """Compare the totals of the rows of traps and of left-out links with the stored counters."""
        yield from self._compare("trap_counts", self.trap_counts)
        counted, found = self._counters, self.left_out
        if counted is None:
            return
        for rule in Rule:
            yield from _differ(rule.value, counted.urls_held_back.get(rule, 0), found.urls_held_back.get(rule, 0))
        for limit in Limit:
            yield from _differ(limit.value, counted.links_left_out.get(limit, 0), found.links_left_out.get(limit, 0))
        yield from self._compare("pages_at_border", found.pages_at_border)

    # -- partitions --------------------------------------------------------------------------------------------

    def _messages(self) -> Findings:
        before: tuple[int, int] | None = None
        for row in self._store.rows(Family.OUTBOX):
            try:
                target, number = outbox.read_key(row[0])
                outbox.check_row(*row, *self._partition)
            except ValueError as error:
                yield self._damage(Family.OUTBOX, row, error)
                if len(row[0]) != outbox.KEY_SIZE:
                    continue
            if before is not None and before[0] == target and number != before[1] + 1:
                lost: dict[str, Detail] = {"target": target, "number": number, "missing": number - before[1] - 1}
                yield Finding(Kind.MESSAGES_MISSING, STORE, lost, Family.OUTBOX, row[0])
            before = target, number

    # -- names -------------------------------------------------------------------------------------------------

    def _meta(self) -> Findings:
        for name, value in self._store.rows(Family.META):
            try:
                name.decode("utf-8")
            except UnicodeDecodeError:
                yield self._damage(Family.META, (name, value), "not a name")
        if self._store.get(Family.META, REPAIRING) is not None:
            yield Finding(Kind.REPAIR_UNFINISHED, STORE)
        for name, read in (
            (OUTPUT_END, self._read_end),
            (OUTPUT_ENDS, decode_ends),
            (PARTITION_KEPT, self._read_partition),
            (EPOCH, decode_epoch),
            (DESCENT, self._read_descent),
        ):
            stored = self._store.get(Family.META, name)
            try:
                read(stored)
            except JournalError as error:
                yield self._damage(Family.META, (name, stored or b""), error)

    def _read_end(self, _: bytes | None) -> None:
        self.journal.end = stored_end(self._store)

    def _read_partition(self, _: bytes | None) -> None:
        self._partition = kept_partition(self._store) or _ANY_PARTITION

    def _read_descent(self, _: bytes | None) -> None:
        self._descent = read_descent(self._store)

    # -- the journal -------------------------------------------------------------------------------------------

    def _events(self) -> Findings:
        yield from self._admitted()
        yield from self._done()
        yield from self._asides()
        self.journal.whole = True
        if self._counters is None:
            return
        surplus = 0 if self._descent is None else self._descent.surplus
        yield from self._compare("urls_admitted", self.journal.urls - surplus)
        after = sequence_key(self._counters.sequence)
        for family in (Family.ADMITTED, Family.DONE, Family.ASIDES):
            for key, _ in self._store.scan(family, after, None, 1):
                number = {"next": self._counters.sequence, "number": int.from_bytes(key, "big")}
                yield Finding(Kind.NUMBER_TOO_HIGH, STORE, number, family, key)

    def _admitted(self) -> Findings:
        for rows in self._store.pages(Family.ADMITTED):
            for row in rows:
                try:
                    self._admission(row)
                except JournalError as error:
                    yield self._damage(Family.ADMITTED, row, error)
            yield from self._observer.findings()

    def _admission(self, row: Row) -> None:
        """Count the URLs of an admission event. Raises JournalError."""
        number = self._number(row[0])
        forgotten, digests = decode_seen(row[1])
        if forgotten:
            self._observer.forgotten(digests)
        else:
            self.journal.urls += len(digests) // DIGEST_SIZE
            self._observer.admitted(number, digests)
        if self._kept_rows is not None:
            (self.journal.forgotten if forgotten else self.journal.admitted).add(digests)

    def _done(self) -> Findings:
        path, journal = self._source.directory / PAGES, self.journal
        with open_text(path) if has_text(path) else contextlib.nullcontext() as output:
            for row in self._store.rows(Family.DONE):
                journal.events += 1
                try:
                    self._number(row[0])
                    done = decode_done(row[1])
                except JournalError as error:
                    yield self._damage(Family.DONE, row, error)
                    continue
                self._observer.finished(done)
                position = done.positions[0]
                journal.end = position.end
                if output is not None and not self._is_cut_off(position) and not _holds(output, position):
                    details: dict[str, Detail] = {"offset": position.end - position.length, "url": done.entry.href}
                    yield Finding(Kind.RECORD_CHANGED, PAGES, details)
        if self._cut is not None and (lost := len(self._cut.lost) + len(self._cut.lost_asides)):
            yield Finding(Kind.RECORDS_LOST, PAGES, {"urls": lost}, mends=True)

    def _asides(self) -> Findings:
        lost = set() if self._cut is None else {key for key, _ in self._cut.lost_asides}
        with PartReader(self._source.directory) as parts:
            for row in self._store.rows(Family.ASIDES):
                try:
                    self._number(row[0])
                    aside = decode_aside(row[1])
                except JournalError as error:
                    yield self._damage(Family.ASIDES, row, error)
                    continue
                for position in () if row[0] in lost else aside.positions:
                    parts.holds(position, aside.owner)
            yield from parts.findings()

    def _number(self, key: bytes) -> int:
        if len(key) != 8:
            raise JournalError("a key that is not a sequence number")
        number = int.from_bytes(key, "big")
        self.journal.sequence = max(self.journal.sequence, number + 1)
        return number

    # -- queues and hosts --------------------------------------------------------------------------------------

    def _queues(self) -> Findings:
        for rows in self._store.pages(Family.PENDING):
            for row in rows:
                finding = self._entry(row)
                if finding is not None:
                    yield finding
            yield from self._observer.findings()
        self.queue.whole = True

    def _entry(self, row: Row) -> Finding | None:
        try:
            entry = decode_entry(row[1])
        except EntryError as error:
            return self._damage(Family.PENDING, row, error)
        key = self._keys.key(entry.href)
        if key is None:
            return self._damage(Family.PENDING, row, f"the URL is not canonical: {entry.href}")
        self._observer.pending(row[0], entry, key)
        try:
            host, slot = split_pending_key(row[0])
        except EntryError as error:
            return Finding(Kind.ROW_DAMAGED, STORE, {"error": str(error)}, Family.PENDING, row[0])
        number = int.from_bytes(slot[-8:], "big")
        self.queue.number = max(self.queue.number, number + 1)
        if host != queue_of(entry.href):
            return Finding(Kind.ROW_MISPLACED, STORE, {"host": host, "url": entry.href}, Family.PENDING, row[0])
        self.queue.add(host, slot, entry)
        if self._counters is not None and number >= self._counters.next_number:
            details = {"number": number, "next": self._counters.next_number}
            return Finding(Kind.NUMBER_TOO_HIGH, STORE, details, Family.PENDING, row[0])
        return None

    def _hosts(self) -> Findings:
        left, met = dict(self.queue.sizes), 0
        total = sum(size for size, _ in left.values())
        for key, value in self._store.rows(Family.HOSTS):
            try:
                host = decode_host(host_name(key), value)
            except HostRecordError as error:
                yield self._damage(Family.HOSTS, (key, value), error)
                continue
            met += 1
            if host.politeness.robots_until and self._store.get(Family.ROBOTS, key) is None:
                yield Finding(Kind.ROBOTS_MISSING, STORE, {"host": host.name}, Family.HOSTS, key)
            if self.queue.whole:
                yield from self._host_queue(host, left.pop(host.name, [0, 0]))
        if not self.queue.whole:
            return
        for name, (size, _) in left.items():
            yield Finding(Kind.HOST_MISSING, STORE, {"host": name, "pending": size})
        yield from self._compare("hosts", met)
        yield from self._compare("pending", total)

    def _host_queue(self, host: Host, size: list[int]) -> Findings:
        own = host.queue
        yield from _differ("pending", own.size, size[0], host.name)
        yield from _differ("pending for a retry", own.retry_size, size[1], host.name)
        if self.queue.first.get(host.name, own.cursor) < own.cursor:
            yield Finding(Kind.HOST_CURSOR, STORE, {"host": host.name, "cursor": own.cursor.hex()})

    # -- digests stored besides the seen-set -------------------------------------------------------------------

    def _ledger(self) -> Findings:
        if self._kept_rows is None or self._kept_rows.forgets:
            return
        waiting = 0
        for row in self._store.rows(Family.LEDGER):
            waiting += 1
            if not self._is_doubted(*row):
                yield self._damage(Family.LEDGER, row, "not a URL with that digest")
        try:
            counts = LedgerCounts.decode(stored := self._store.get(Family.META, LEDGER_COUNTS))
        except FilterError as error:
            yield self._damage(Family.META, (LEDGER_COUNTS, stored or b""), error)
        else:
            yield from _differ("doubted", counts.waiting, waiting)

    def _is_doubted(self, row: bytes, value: bytes) -> bool:
        """Return True if the value is the entry of a URL whose digest is in the row."""
        try:
            key = self._keys.key(decode_entry(value).href)
        except EntryError:
            return False
        return key is not None and rows_of([key], self._keys.digests([key])) == [row]

    def _rows(self) -> Findings:
        kept = self._kept_rows
        if kept is None:
            return
        rows, (count, *sums) = DigestSum(), self.journal.admitted.sums()
        for row, _ in self._store.rows(Family.SEEN):
            if len(row) == ROW_BYTES:
                rows.add(row[HOST_BYTES:])
        if kept.forgets:
            gone, *others = self.journal.forgotten.sums()
            count, sums = count - gone, [(one - other) % 2**64 for one, other in zip(sums, others, strict=True)]
        found = rows.sums()
        if self.journal.whole and found != (count, *sums):
            yield Finding(Kind.DIGESTS_DIFFER, STORE, {"rows": found[0], "journal": count}, Family.SEEN)
        if kept.forgets:
            yield from _differ(
                "seen", int.from_bytes(self._store.get(Family.META, ROW_COUNT) or b"", "little"), found[0]
            )

    # -- revisits ----------------------------------------------------------------------------------------------

    def _schedule(self) -> Findings:
        """Check that each page either has a time and a row in the schedule, or is queued."""
        queued = self.queue.revisits
        if self.queue.whole:
            yield from self._compare("revisits_pending", len(queued))
        for row in self._store.rows(Family.PAGES):
            try:
                page = unpack_page(row[1])
                if page.entry.href.encode("ascii") != row[0]:
                    raise PageError(f"the record of {page.entry.href}")
            except PageError as error:
                yield self._damage(Family.PAGES, row, error)
                continue
            if page.due is None:
                known = row[0] in queued or not self.queue.whole
            else:
                known = self._store.get(Family.DUE, due_key(page.due, page.entry.href)) is not None
            if not known:
                yield Finding(Kind.SCHEDULE_DIFFERS, STORE, {"url": page.entry.href}, Family.PAGES, row[0])
        yield from self._due()

    def _due(self) -> Findings:
        count = 0
        for row in self._store.rows(Family.DUE):
            count += 1
            try:
                due, href = split_due_key(row[0])
                stored = self._store.get(Family.PAGES, href.encode("ascii"))
                known = stored is not None and unpack_page(stored).due == due
            except PageError as error:
                yield self._damage(Family.DUE, row, error)
                continue
            if not known:
                yield Finding(Kind.SCHEDULE_DIFFERS, STORE, {"url": href}, Family.DUE, row[0])
        yield from self._compare("pages_scheduled", count)

    # -- the output --------------------------------------------------------------------------------------------

    def _is_cut_off(self, position: Position) -> bool:
        """Return True if the next run fetches the page of that record again."""
        return self._cut is not None and position.end > self._cut.end

    def _output(self) -> Findings:
        """Check each line of the output. Lines after the end recorded in the journal were written, but no event records
        them: when the job resumes, it cuts them off, as well as everything from the first line that never reached the
        disk."""
        last_end = (self.journal.end or 0) if self.journal.whole else None
        tally = OutputTally()
        count, end = 0, 0
        lost = () if self._cut is None else self._cut.lost
        if self._cut is not None and last_end is not None and lost:
            last_end = self._cut.end
        with PartReader(self._source.directory) as parts:
            for start, line in lines_of(self._source.directory / PAGES, None if self._beyond_end else last_end):
                end = start + len(line)
                count += 1
                record = record_of(line)
                key, held = None, True
                if record is None:
                    yield Finding(Kind.LINE_DAMAGED, PAGES, {"offset": start})
                else:
                    tally.add(record)
                    key = self._keys.key(url := str(record["url"]))
                    if "kept" in record:
                        held = not [each for each in positions_of(record) if not parts.holds(each, url)]
                    if "body" in record:
                        held &= parts.holds_body(record)
                self._observer.line(start, line, record, key, held=held)
                if count % _TOGETHER == 0:
                    yield from self._observer.findings()
            yield from parts.findings()
            self.bodies_lost = parts.bodies_lost
        yield from self._observer.findings()
        yield from self._output_ends()
        for _, done in lost:
            count += 1
            tally.add({"outcome": done.outcome.value, "url": done.entry.href})
        if last_end is None or self._counters is None:
            return
        if end != last_end:
            yield Finding(Kind.OUTPUT_END, PAGES, {"found": end, "journal": last_end})
        elif count != self._counters.done:
            yield from self._compare("done", count)
        else:
            yield from self._host_outputs(tally)

    def _output_ends(self) -> Findings:
        """Check that the other outputs have the lengths recorded in the journal."""
        if self.damaged[Family.META]:
            return
        stored = decode_ends(self._store.get(Family.META, OUTPUT_ENDS)) if self._cut is None else self._cut.ends
        for end in stored.values():
            path = path_of(self._source.directory, end.file)
            found = path.stat().st_size if path is not None and path.exists() else 0
            if path is not None and found < end.offset:
                details: dict[str, Detail] = {"found": found, "journal": end.offset}
                yield Finding(Kind.OUTPUT_END, str(path.relative_to(self._source.directory)), details)

    def _host_outputs(self, tally: OutputTally) -> Findings:
        """Check that the counts of each host match its records in the output. After a split, some records of a host are
        in another partition."""
        for key, value in self._store.rows(Family.HOSTS):
            with contextlib.suppress(HostRecordError):
                host = decode_host(host_name(key), value)
                fetched, failed, _ = tally.pop(host.name)
                for name, counted, found in (
                    ("fetched", host.tally.fetched, fetched),
                    ("failed", host.tally.failed, failed),
                ):
                    if self._descent is None or counted < found:
                        yield from _differ(name, counted, found, host.name)


def _differ(counter: str, counted: int, found: int, host: str | None = None) -> Findings:
    """Compare a stored count with the number of rows found."""
    if counted != found:
        details: dict[str, Detail] = {"counter": counter, "counted": counted, "found": found}
        kind = Kind.COUNT_DIFFERS if host is None else Kind.HOST_COUNT_DIFFERS
        yield Finding(kind, STORE, details if host is None else {"host": host, **details})


def _holds(output: BinaryIO, position: Position) -> bool:
    """True if the bytes at that position are still those of the record that was written there."""
    output.seek(position.end - position.length)
    return position.is_of(output.read(position.length))

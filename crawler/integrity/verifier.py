"""Checking a job: every checksum, and that its parts say the same of each other."""

from __future__ import annotations

import contextlib
import json
import tempfile
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from crawler.checkpoint import EnvelopeError
from crawler.disk import RealDisk
from crawler.fetch.robots_cache import RobotsCache
from crawler.filters import FilterError, FormatError, NoMemoryError, SeenSet
from crawler.frontier import EntryError, HostRecordError, decode_entry
from crawler.frontier.entry import is_retry, split_pending_key
from crawler.inspect.job_reader import OpenJob, hosts, open_job
from crawler.integrity.digest_rows import exact_faults, ledger_faults
from crawler.integrity.inventory import Ended
from crawler.integrity.revisit_rows import schedule_faults
from crawler.job.directory import BROKEN_OFF, PAGES, STORE
from crawler.job.history_file import course_fault
from crawler.job.inbox import INBOX, Inbox
from crawler.job.recovery import REPAIRING, stored_end
from crawler.kv import Family, Reader
from crawler.output import lines_of
from crawler.records import DIGEST_SIZE, JournalError, Position, decode_done, decode_seen, sequence_key
from crawler.robots import RobotsRecordError
from crawler.store import RocksStore, StoreError
from crawler.store.salvage import holes
from crawler.store.wal import log_fault
from crawler.traps import CopyRecordError, TrapRecordError, check_content, check_row
from crawler.urls import Canonical, Canonicaliser

_SCAN = 2_048
_DAMAGE = (EntryError, FilterError, HostRecordError, JournalError)


def verify_job(directory: Path) -> Iterator[str]:
    """The faults of the job, one line each; none when it is whole. What cannot be read ends the check that reads it,
    and no other. Raises what ``open_job`` raises, and OSError when the disk fails."""
    yield from _logs(directory)
    with open_job(directory) as job:
        parts = _Parts(job)
        if job.settings_fault is not None:
            yield job.settings_fault
        fault = course_fault(directory)
        if fault is not None:
            yield fault
        yield from parts.check(_opens(job))
        yield from parts.check(_inbox(job))
        yield from parts.check(_generations(job))
        yield from parts.check(_names(job))
        known = yield from parts.known()
        yield from parts.check(_admitted(job, known))
        yield from parts.check(_pending(job, known))
        yield from parts.check(ledger_faults(job))
        yield from parts.check(exact_faults(job))
        yield from parts.check(_robots(job))
        yield from parts.check(_traps(job))
        yield from parts.check(schedule_faults(job.store, job.counters))
        yield from parts.check(_done(job))
        yield from parts.check(_lines(job, known))
        if parts.unreadable:
            yield from (f"{STORE}/: {hole}" for hole in holes(job.store))


class _Parts:
    """The checks of a job, each ending by itself. ``unreadable``: the store refused to be read somewhere."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self.unreadable = False

    def check(self, part: Iterator[str]) -> Iterator[str]:
        try:
            yield from part
        except StoreError as error:
            if error.errno is not None:
                raise
            self.unreadable = True
        except NoMemoryError:
            raise  # no damage
        except _DAMAGE as error:
            yield f"{STORE}/: {error}"

    def known(self) -> Generator[str, None, _Known | None]:
        """What the job has seen, where it can be had."""
        found: list[_Known] = []

        def restore() -> Iterator[str]:
            found.append(_Known(self._job.restore_seen().seen, _forgotten(self._job)))
            yield from ()

        yield from self.check(restore())
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class _Known:
    """``gone`` are the digests of keys that were ever taken out of the seen-set: few, each by hand."""

    seen: SeenSet
    gone: set[bytes]

    def lacks(self, digests: bytes) -> list[int]:
        """The positions of the digests that are not in the seen-set and were never taken out of it."""
        return [
            at
            for at, known in enumerate(self.seen.might_contain_digests(digests))
            if not known and digests[DIGEST_SIZE * at : DIGEST_SIZE * (at + 1)] not in self.gone
        ]


def _logs(directory: Path) -> Iterator[str]:
    """Before the store is opened: RocksDB may refuse a damaged log, and does not say where the damage is."""
    fault = log_fault(directory / STORE)
    if fault is not None:
        yield f"{STORE}/{fault}"


def _opens(job: OpenJob) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="crawler-look-") as scratch:
        try:
            RocksStore(job.directory / STORE, secondary=Path(scratch), as_run=True).close()
        except StoreError as error:
            if error.errno is not None:
                raise
            yield str(error)


def _inbox(job: OpenJob) -> Iterator[str]:
    inbox = Inbox(job.directory, RealDisk())
    for name in inbox.waiting():
        try:
            inbox.read(name)
        except EnvelopeError as error:
            yield f"{INBOX}/: {error}"
        except FileNotFoundError:
            pass  # a running crawl has taken it up meanwhile


def _generations(job: OpenJob) -> Iterator[str]:
    for number in job.numbers:
        try:
            manifest = job.generations.read(number).manifest
        except (EnvelopeError, FormatError, OSError) as error:
            if isinstance(error, FileNotFoundError) and number not in job.generations.numbers():
                continue  # a running crawl has dropped it meanwhile
            yield f"seen/: generation {number}: {error}"
            continue
        if manifest.sequence > job.counters.sequence:
            yield (
                f"seen/: generation {number} stands for journal sequence {manifest.sequence}, the journal ends at "
                f"{job.counters.sequence}"
            )


def _forgotten(job: OpenJob) -> set[bytes]:
    gone: set[bytes] = set()
    for _, value in job.store.rows(Family.ADMITTED):
        with contextlib.suppress(JournalError):
            forgotten, digests = decode_seen(value)
            if forgotten:
                gone.update(digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE))
    return gone


def _admitted(job: OpenJob, known: _Known | None) -> Iterator[str]:
    count = 0
    for key, value in job.store.rows(Family.ADMITTED):
        number = int.from_bytes(key, "big")
        try:
            forgotten, digests = decode_seen(value)
        except JournalError as error:
            yield f"store/: journal {number}: {error}"
            continue
        if forgotten:
            continue
        size = len(digests) // DIGEST_SIZE
        count += size
        missing = 0 if known is None else len(known.lacks(digests))
        if missing:
            yield f"seen/: journal {number}: {missing} of {size} admitted URLs are not in the seen-set"
    if count != job.counters.admitted:
        yield f"store/: {job.counters.admitted} URLs counted as admitted, the journal names {count}"


def _pending(job: OpenJob, known: _Known | None) -> Iterator[str]:
    canonicaliser = Canonicaliser(job.settings.canonical.rules)
    sizes: dict[str, list[int]] = {}
    firsts: dict[str, bytes] = {}  # of each host the first slot of its fresh lane
    for rows in job.store.pages(Family.PENDING):
        keys: list[str] = []
        for key, value in rows:
            try:
                host, slot = split_pending_key(key)
                entry = decode_entry(value)
            except EntryError as error:
                yield f"store/: pending {key!r}: {error}"
                continue
            number = int.from_bytes(slot[-8:], "big")
            if number >= job.counters.next_number:
                yield f"store/: pending {key!r}: number {number}, the next is {job.counters.next_number}"
            size = sizes.setdefault(host, [0, 0])
            size[0] += 1
            size[1] += is_retry(slot)
            if not is_retry(slot):
                firsts.setdefault(host, slot)
            url = canonicaliser.canonicalise(entry.href)
            if not isinstance(url, Canonical) or url.href != entry.href:
                yield f"store/: pending URL is not canonical: {entry.href}"
                continue
            keys.append(url.key)
        unseen = 0 if known is None else known.seen.contains_many(keys).count(False)
        if unseen:
            yield f"seen/: {unseen} pending URLs at or behind {rows[0][0]!r} are not in the seen-set"
    met = 0
    for record in hosts(job.store):
        met += 1
        if record.politeness.robots_until and job.store.get(Family.ROBOTS, record.name.encode("ascii")) is None:
            yield f"store/: host {record.name} has asked for robots.txt, no answer is stored"
        size = sizes.pop(record.name, [0, 0])
        queue = record.queue
        if [queue.size, queue.retry_size] != size:
            yield (
                f"store/: host {record.name} counts {queue.size} pending ({queue.retry_size} for a retry), its queue "
                f"holds {size[0]} ({size[1]})"
            )
        if record.name in firsts and firsts[record.name] < queue.cursor:
            yield f"store/: host {record.name}: entries stand before {queue.cursor.hex()}, where reading begins"
        sizes.setdefault("", [0, 0])[0] += size[0]
    if met != job.counters.hosts:
        yield f"store/: {job.counters.hosts} hosts counted, there are records of {met}"
    total = sizes.pop("", [0, 0])[0]
    for host, size in sizes.items():
        yield f"store/: {size[0]} URLs pending for {host}, which has no host record"
        total += size[0]
    if total != job.counters.pending:
        yield (
            f"store/: {job.counters.admitted} admitted and {job.counters.revisits} queued once more, less "
            f"{job.counters.done} done, are {job.counters.pending}, the queues hold {total}"
        )


def _robots(job: OpenJob) -> Iterator[str]:
    robots = RobotsCache(job.store, job.settings.robots, job.settings.fetch.user_agent)
    for key, stored in job.store.rows(Family.ROBOTS):
        try:
            robots.decode(stored)
        except RobotsRecordError as error:
            yield f"store/: robots.txt of {key!r}: {error}"


def _traps(job: OpenJob) -> Iterator[str]:
    total = 0
    for key, value in job.store.rows(Family.TRAPS):
        try:
            total += check_row(key, value)
        except TrapRecordError as error:
            yield f"store/: trap {key!r}: {error}"
    for key, value in job.store.rows(Family.CONTENT):
        try:
            check_content(key, value)
        except CopyRecordError as error:
            yield f"store/: content {key!r}: {error}"
    if total != job.counters.trap_counts:
        yield f"store/: traps have counted {total} in all, the job's counters say {job.counters.trap_counts}"


def _done(job: OpenJob) -> Iterator[str]:
    path = job.directory / PAGES
    with contextlib.ExitStack() as opened:
        output = opened.enter_context(open(path, "rb")) if path.exists() else None
        for key, value in job.store.rows(Family.DONE):
            try:
                done = decode_done(value)
            except JournalError as error:
                yield f"store/: journal {int.from_bytes(key, 'big')}: {error}"
                continue
            position = done.positions[0]
            if output is not None and not _stands(output, position):
                yield (
                    f"{PAGES}: offset {position.end - position.length}: not the record of {done.entry.href} that "
                    "was written there"
                )


def _lines(job: OpenJob, known: _Known | None) -> Iterator[str]:
    """Each line of the output, up to where the journal says that it ends: what stands behind was written and not
    journalled, and is cut off when the job is resumed."""
    keys = _Keys(job, known)
    ended = Ended()
    last_end = _last_end(job.store)
    count, end = 0, 0
    for start, line in lines_of(job.directory / PAGES, last_end):
        end = start + len(line)
        count += 1
        if not line.endswith(b"\n"):
            yield f"{PAGES}: offset {start}: no whole line"
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield f"{PAGES}: offset {start}: not JSON: {error}"
            continue
        keys.add(start, record)
        ended.add(record)
        if keys.full:
            yield from keys.unseen()
    yield from keys.unseen()
    if last_end is None:
        return
    if end != last_end:
        yield f"{PAGES}: ends at {end}, the journal's last record ends at {last_end}"
    elif count != job.counters.done:
        yield f"{PAGES}: {count} records, {job.counters.done} URLs counted as done"
    else:
        yield from _ended(job, ended)


def _ended(job: OpenJob, ended: Ended) -> Iterator[str]:
    """Whether each host has counted the records that the output holds of it."""
    for host in hosts(job.store):
        fetched, failed = ended.pop(host.name)
        tally = host.tally
        if (tally.fetched, tally.failed) != (fetched, failed):
            yield (
                f"store/: host {host.name} counts {tally.fetched} fetched and {tally.failed} failed, {PAGES} holds "
                f"{fetched} and {failed}"
            )


class _Keys:
    """Finished URLs that are yet to be looked for in the seen-set."""

    def __init__(self, job: OpenJob, known: _Known | None) -> None:
        self._known = known
        self._canonicaliser = Canonicaliser(job.settings.canonical.rules)
        self._waiting: list[tuple[int, str]] = []  # where the record begins, and the key

    def add(self, start: int, record: object) -> None:
        href = record.get("url") if isinstance(record, dict) else None
        url = self._canonicaliser.canonicalise(href) if isinstance(href, str) else None
        if isinstance(url, Canonical):
            self._waiting.append((start, url.key))

    @property
    def full(self) -> bool:
        return len(self._waiting) >= _SCAN

    def unseen(self) -> Iterator[str]:
        waiting, self._waiting = self._waiting, []
        if self._known is None or not waiting:
            return
        keys = [key for _, key in waiting]
        for at in self._known.lacks(self._known.seen.digests(keys)):
            start, key = waiting[at]
            yield f"{PAGES}: offset {start}: finished, and not in the seen-set: {key}"


def _last_end(store: Reader) -> int | None:
    """Where the output ends by the journal; None where that cannot be read, which was said of the journal."""
    try:
        end = _kept_end(store)
        for _, value in store.rows(Family.DONE):
            with contextlib.suppress(JournalError):
                end = decode_done(value).positions[0].end
    except StoreError:
        return None
    return end


def _kept_end(store: Reader) -> int:
    try:
        return stored_end(store) or 0
    except JournalError:
        return 0  # named among the names


def _names(job: OpenJob) -> Iterator[str]:
    for name, _ in job.store.scan(Family.META, b""):
        try:
            name.decode("utf-8")
        except UnicodeDecodeError:
            yield f"store/: meta {name!r}: no name"
    if job.store.get(Family.META, REPAIRING) is not None:
        yield f"{STORE}/: {BROKEN_OFF}"
    try:
        stored_end(job.store)
    except JournalError as error:
        yield f"store/: meta output-end: {error}"
    after = sequence_key(job.counters.sequence)
    for family in (Family.ADMITTED, Family.DONE):
        for key, _ in job.store.scan(family, after, None, 1):
            yield f"store/: journal {int.from_bytes(key, 'big')}: at or beyond the next number, {job.counters.sequence}"


def _stands(output: BinaryIO, position: Position) -> bool:
    output.seek(position.end - position.length)
    data = output.read(position.length)
    return len(data) == position.length and zlib.crc32(data) == position.crc

"""Verifies a job: checks all checksums, and checks whether the parts of the job agree.

In a crawl, each partition is verified as a job, and each is checked for URLs that belong to other partitions. Since a
URL belongs to exactly one partition, this also shows that no URL is in two partitions.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from crawler.base.disk import ReadingDisk, RealDisk
from crawler.base.kv import Family, Reader
from crawler.base.settings.load import SettingsError
from crawler.frontier.entry import Entry, EntryError, decode_entry
from crawler.frontier.host import host_name, stored_host
from crawler.inspect.crawl_partitions import Partition, crawl_partitions
from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.inspect.integrity.inventory import Inventory, Observer, Source
from crawler.inspect.integrity.output_files import MOVED, file_findings
from crawler.inspect.job_reader import OpenJob, open_job
from crawler.job.checkpoint.envelope import EnvelopeError, fault_of
from crawler.job.crawl_file import partitions_gone
from crawler.job.directory import IDENTITY, PAGES, SEEN, STORE, JobError
from crawler.job.history_file import HISTORY, course_fault
from crawler.job.identity import read_identity
from crawler.job.inbox import INBOX, Inbox
from crawler.job.last_command import COMMAND, read_command
from crawler.job.markdown_files import DIRECTORY, markdown_fault
from crawler.job.output import Outputs, Record
from crawler.job.partition.placement import Placement
from crawler.job.records import DIGEST_SIZE, JournalError, decode_seen
from crawler.job.recovery import HASH_KEPT, OutputCut, check_output, kept_hash
from crawler.job.run_settings import RUN, read_run
from crawler.job.store.readable_copy import holes
from crawler.job.store.rocks import StoreError
from crawler.job.store.wal import log_fault
from crawler.job.stored_errors import DAMAGE
from crawler.seen.filters import FilterError, FormatError, NoMemoryError, SeenSet
from crawler.url.urls.request_name import name_in

_OF_OUTPUTS = frozenset({Kind.PARTS_LOST, Kind.BODIES_LOST, Kind.OUTPUT_END})


def verify_job(directory: Path) -> Iterator[Finding]:
    """Yield the findings about the job; there are none if it is intact.

    A read error ends only the part being read. If the job cannot be opened, nothing else is checked. Raises JobError if
    there is no job, OSError if the disk fails, and NoMemoryError."""
    try:
        read_identity(directory)  # done first, because files of another version cannot be checked
        yield from _verify(directory)
    except NoMemoryError:
        raise  # not damage
    except StoreError as error:
        if error.errno is not None:
            raise
        yield unreadable(error)
    except (SettingsError, *DAMAGE) as error:
        yield unreadable(error)


def unreadable(error: Exception) -> Finding:
    return Finding(Kind.UNREADABLE, ".", {"error": " ".join(str(error).split())})


def _verify(directory: Path) -> Iterator[Finding]:
    yield from _logs(directory)
    with open_job(directory, as_run=True) as job:
        yield from (Finding(Kind.FILE_DAMAGED, name, {"error": fault}) for name, fault in file_faults(directory))
        parts = _Parts()
        if job.store_fault is not None:
            yield Finding(Kind.STORE_NOT_OPENED, STORE, {"error": job.store_fault})
        yield from parts.check(_hash(job))
        yield from parts.check(_generations(job))
        observer = SeenCheck()
        yield from parts.check(observer.load(job))
        source = Source(job.directory, job.settings, job.identity.hash, job.store, job.counters)
        if job.identity.fetcher is not None:
            yield from parts.check(_requests(job.store))
        files = list(file_findings(job.directory / PAGES))
        yield from files
        # If a file is lost, the offsets of all later records are wrong: do not report each of these records.
        is_moved = not MOVED.isdisjoint(finding.kind for finding in files)
        gone = dict[str, None]()  # places of the missing files of outputs
        inventory = Inventory(source, observer, cut=_cut(job, observer.sequence))
        for part in inventory.parts():
            for finding in parts.check(part):
                if finding.kind in _OF_OUTPUTS and not (directory / finding.place).exists():
                    gone[finding.place] = None
                elif not is_moved or finding.kind is not Kind.RECORD_CHANGED:
                    yield finding
        yield from (Finding(Kind.OUTPUT_LOST, place) for place in gone)
        if parts.unreadable:
            yield from (Finding(Kind.STORE_HOLE, STORE, {"error": hole}) for hole in holes(job.store))


class _Parts:
    """Runs the parts of a check; an error ends only the part in which it occurs. ``unreadable`` is True after an error
    of the store."""

    def __init__(self) -> None:
        self.unreadable = False

    def check(self, part: Iterator[Finding]) -> Iterator[Finding]:
        try:
            yield from part
        except StoreError as error:
            if error.errno is not None:
                raise
            self.unreadable = True
        except NoMemoryError:
            raise  # not damage
        except DAMAGE as error:
            yield Finding(Kind.SEEN_DAMAGED, SEEN, {"error": str(error)})


class SeenCheck(Observer):
    """Looks up every URL in the seen-set, in groups. If no seen-set is loaded, it checks nothing."""

    def __init__(self) -> None:
        self._seen: SeenSet | None = None
        self._gone: set[bytes] = set()  # digests of all keys ever removed; these are few, as only operators remove keys
        self._admitted: list[tuple[int, bytes]] = []
        self._pending: list[str] = []
        self._first_row = b""  # row of the first URL in ``_pending``
        self._lines: list[tuple[int, str]] = []  # start of each record, and the key of its URL
        self.sequence: int | None = None  # journal position of the generation that a run would load

    def load(self, job: OpenJob) -> Iterator[Finding]:
        """Load the seen-set. Raises FilterError or JournalError if it cannot be loaded."""
        # Read the removals first: a removed key must be known when its admission is read.
        self._gone = _forgotten(job.store)
        try:
            restored = job.restore_seen()
            self._seen, self.sequence = restored.seen, restored.sequence
        except JobError as error:  # the store was emptied; check the rest
            yield Finding(Kind.SEEN_DAMAGED, SEEN, {"error": str(error)})

    def admitted(self, number: int, digests: bytes) -> None:
        self._admitted.append((number, digests))

    def pending(self, row: bytes, entry: Entry, key: str) -> None:
        if not self._pending:
            self._first_row = row
        self._pending.append(key)

    def line(self, start: int, line: bytes, record: Record | None, key: str | None, *, held: bool) -> None:
        if key is not None:
            self._lines.append((start, key))

    def findings(self) -> Iterable[Finding]:
        admitted, pending, lines = self._admitted, self._pending, self._lines
        self._admitted, self._pending, self._lines = [], [], []
        if self._seen is None:
            return
        for number, digests in admitted:
            missing = len(self._lacks(digests))
            if missing:
                of = {"number": number, "missing": missing, "of": len(digests) // DIGEST_SIZE}
                yield Finding(Kind.ADMITTED_NOT_SEEN, SEEN, of, Family.ADMITTED)
        missing = len(self._lacks(self._seen.digests(pending))) if pending else 0
        if missing:
            yield Finding(Kind.PENDING_NOT_SEEN, SEEN, {"missing": missing}, Family.PENDING, self._first_row)
        for at in self._lacks(self._seen.digests([key for _, key in lines])) if lines else ():
            start, key = lines[at]
            yield Finding(Kind.FINISHED_NOT_SEEN, PAGES, {"offset": start, "key_text": key})

    def _lacks(self, digests: bytes) -> list[int]:
        """Return the positions of the digests that are missing from the seen-set although they were never removed."""
        seen = self._seen
        assert seen is not None
        known = seen.might_contain_digests(digests)
        return [
            at
            for at, is_known in enumerate(known)
            if not is_known and digests[DIGEST_SIZE * at : DIGEST_SIZE * (at + 1)] not in self._gone
        ]


def _forgotten(store: Reader) -> set[bytes]:
    gone: set[bytes] = set()
    for _, value in store.rows(Family.ADMITTED):
        with contextlib.suppress(JournalError):
            forgotten, digests = decode_seen(value)
            if forgotten:
                gone.update(digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE))
    return gone


def _logs(directory: Path) -> Iterator[Finding]:
    """Check the logs before the store is opened: RocksDB may refuse a damaged log without reporting where the damage
    is."""
    fault = log_fault(directory / STORE)
    if fault is not None:
        details: dict[str, Detail] = {"log": fault.log, "offset": fault.offset, "error": str(fault)}
        # A power loss may tear changes that were never synced: a run then reads the log up to the damage.
        yield Finding(Kind.LOG_DAMAGED, STORE, details, mends=not fault.durable)


def _cut(job: OpenJob, sequence: int | None) -> OutputCut | None:
    """Return how a run would cut the output; None if the run would refuse the job, or if this is not known."""
    path = job.directory / PAGES
    if sequence is None:
        return None
    try:
        # A run creates an empty file if there is none.
        outputs = Outputs(path if path.is_file() else Path(os.devnull), ReadingDisk(), 1, job.directory)
        try:
            return check_output(job.store, outputs, sequence)
        finally:
            outputs.close()
    except (JobError, JournalError, StoreError):
        return None  # the checks of the parts report this error


def file_faults(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the damaged small files: the path in the job and the fault of each. Raises JobError, SettingsError,
    OSError."""
    faults = {
        RUN: read_run(directory).fault,
        COMMAND: fault_of(read_command, directory),
        HISTORY: course_fault(directory),
        DIRECTORY: markdown_fault(directory),
    }
    inbox, names = Inbox(directory, RealDisk()), list[str]()
    try:
        names = inbox.waiting()
    except NotADirectoryError as error:
        faults[INBOX] = error.strerror
    yield from ((name, fault) for name, fault in faults.items() if fault is not None)
    for name in names:
        try:
            inbox.read(name)
        except EnvelopeError as error:
            yield f"{INBOX}/{name}.urls", str(error).removeprefix(f"{name}.urls: ")
        except FileNotFoundError:
            pass  # a running crawl has admitted it in the meantime


def _hash(job: OpenJob) -> Iterator[Finding]:
    """Compare the two copies of the hash of URLs, including its secret."""
    try:
        kept = kept_hash(job.store)
    except FilterError as error:
        yield Finding(Kind.ROW_DAMAGED, STORE, {"error": str(error)}, Family.META, HASH_KEPT)
        return
    if kept is not None and kept != job.identity.hash:
        yield Finding(Kind.HASH_DIFFERS, IDENTITY)


def _requests(store: Reader) -> Iterator[Finding]:
    """Check that the job of another fetcher stores a request for each pending URL."""
    for rows in store.pages(Family.PENDING):
        names = []
        for key, value in rows:
            with contextlib.suppress(EntryError):  # the check of the queue reports it
                names.append((name_in(decode_entry(value).href).encode("ascii"), key))
        names.sort()
        stored = store.get_many(Family.REQUESTS, [name for name, _ in names])
        for (name, key), request in zip(names, stored, strict=True):
            if request is None:
                yield Finding(Kind.REQUEST_MISSING, STORE, {"name": name.decode("ascii")}, Family.PENDING, key)


def _generations(job: OpenJob) -> Iterator[Finding]:
    for number in job.numbers:
        try:
            manifest = job.generations.read(number).manifest
        except (EnvelopeError, FormatError, OSError) as error:
            if isinstance(error, FileNotFoundError) and number not in job.generations.numbers():
                continue  # a running crawl has removed it in the meantime
            yield Finding(Kind.GENERATION_DAMAGED, SEEN, {"generation": number, "error": str(error)})
            continue
        if manifest.sequence > job.counters.sequence:
            ends = {"generation": number, "sequence": manifest.sequence, "journal": job.counters.sequence}
            yield Finding(Kind.GENERATION_AHEAD, SEEN, ends)


def verify_crawl(directory: Path) -> Iterator[tuple[Partition, Finding]]:
    """Yield the findings about each partition; there are none if all are intact. Raises the exceptions of
    ``verify_job``."""
    crawl = crawl_partitions(directory)
    for partition in crawl.found:
        yield from ((partition, finding) for finding in verify_job(partition.directory))
    if not crawl.is_job:
        yield from verify_places(directory, crawl.placement, crawl.found)


def verify_places(
    directory: Path, placement: Placement, partitions: Sequence[Partition]
) -> Iterator[tuple[Partition, Finding]]:
    """Yield the missing partitions of the crawl, and the hosts that belong to another partition."""
    for gone in partitions_gone(directory):
        yield Partition(int(gone.name), gone), Finding(Kind.PARTITION_GONE, gone.name)
    for partition in partitions:
        # Unreadable data is reported by the verification of the partition itself.
        with contextlib.suppress(JobError, StoreError, SettingsError, *DAMAGE):
            yield from ((partition, finding) for finding in _hosts_elsewhere(partition, placement))


def _hosts_elsewhere(partition: Partition, placement: Placement) -> Iterator[Finding]:
    with open_job(partition.directory) as job:
        for page in job.store.pages(Family.HOSTS):
            for key, value in page:
                name, host = host_name(key), stored_host(value)
                owner = placement.of_host(name)
                if owner != partition.number and (host.size or host.tally.fetched or host.tally.failed):
                    yield Finding(Kind.HOST_ELSEWHERE, STORE, {"host": name, "owner": owner}, Family.HOSTS, key)

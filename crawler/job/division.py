"""Divides the state of a job, or of a partition of a crawl, among the partitions that replace it.

One of them, the *heir*, keeps the state that a job has only once; the others get only the URLs that belong to them:

    by host     PENDING HOSTS ROBOTS CONTENT SOFT404
    by URL      PAGES DUE LEFT_OUT LEDGER; messages in OUTBOX are divided by the URLs in them
    to all      ADMITTED SEEN TRAPS PAYLOADS and the seen-set: a digest does not show to which partition it belongs
    to heir     DONE ASIDES INLET, the counters, the outputs and the history
    META        a row that names a URL or host goes with it; rows of an output, the inbox or one partition stay with
                the heir; scopes, limits and all others go to all

No count is duplicated: the counters of a partition's present state (its queue, hosts, schedule, left-out URLs) go with
that state, all others stay with the heir, and ``urls_admitted`` and ``revisits`` are divided so that they match each
queue. So the sum of a counter does not change. Each partition records in its ``Descent`` how its counts came about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.disk import RealDisk, make_private_directory
from crawler.base.kv import PAGE, Batch, Family, Reader, Store
from crawler.frontier.entry import decode_entry
from crawler.frontier.revisits import split_due_key
from crawler.job.crawl_file import CrawlFile
from crawler.job.directory import STORE
from crawler.job.history_file import HISTORY
from crawler.job.identity import Shaping, read_identity, write_identity
from crawler.job.left_out import decode_row
from crawler.job.metrics.catalogue import Counters
from crawler.job.output.body_files import BODY_SIZES
from crawler.job.partition import outbox
from crawler.job.partition.messages import Links, Widened, decode_message, encode_message, found_of, links_of
from crawler.job.receiving import CRAWL, EPOCH, mark_of
from crawler.job.records import JournalError, StoredValue, encode_counters
from crawler.job.recovery import COUNTERS, OUTPUT_END, PARTITION_KEPT, encode_partition, stored_counters
from crawler.job.snapshot import link_state
from crawler.job.store.rocks import OF_PARTITIONS, PartitionStore, RocksStore
from crawler.job.store.store_budget import StoreBudget
from crawler.job.store.wal import MARK as SYNCED
from crawler.job.transaction import OUTPUT_ENDS
from crawler.seen.exact.ledger import LEDGER_COUNTS, LedgerCounts

DESCENT = b"descent"  # the META key
_END = b"\xff" * 64  # after all keys
_HEIRS = (OUTPUT_END, OUTPUT_ENDS, BODY_SIZES, EPOCH)  # full names of META rows that only the heir gets
_HEIRS_FROM = (b"put-back/", b"class/")  # prefixes of the names of other such rows
_URL_FROM, _HOST_FROM = (b"bounced/", b"place/"), (b"signals/",)
_ONLY_HEIRS = (Family.DONE, Family.ASIDES, Family.INLET)
_HOSTS_FIRST = (Family.PENDING, Family.HOSTS, Family.ROBOTS, Family.CONTENT, Family.SOFT404)
_URL_OF: dict[Family, Callable[[bytes, bytes], str]] = {
    Family.PAGES: lambda key, _: key.decode("ascii"),
    Family.DUE: lambda key, _: split_due_key(key)[1],
    Family.LEFT_OUT: lambda key, _: key.partition(b"\0")[2].decode("ascii"),
    Family.LEDGER: lambda _, value: decode_entry(value).href,
}


class Descent(Struct, frozen=True):
    """The splits that produced a partition.

    The partition's journal has ``surplus`` more admitted keys than the partition counts. The first ``records`` bytes of
    its records are about URLs of several partitions. Earlier records of its own URLs are in the partitions
    ``ancestors``, the latest first."""

    surplus: int = 0
    records: int = 0
    ancestors: tuple[int, ...] = ()


_DESCENT = StoredValue(Descent, "the descent of a partition")


def read_descent(store: Reader) -> Descent | None:
    """Return the descent of a partition that resulted from a split; None for any other job. Raises JournalError."""
    return _DESCENT.read(store, DESCENT)


class Part(Struct):
    """A new partition with its state in ``directory``. ``counters`` count the rows that it has received and, in the
    end, its whole state."""

    number: int
    directory: Path
    store: Store
    counters: Counters = field(default_factory=Counters)
    doubted: int = 0  # number of URLs in its ledger
    messages: dict[int, int] = field(default_factory=lambda: defaultdict[int, int](int))  # in its outbox, by target
    batch: Batch = field(default_factory=Batch)

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Add a row to the batch, and write the batch when it is large. Raises OSError."""
        self.batch.put(family, key, value)
        if len(self.batch.changes) >= PAGE:
            self.write()

    def write(self) -> None:
        self.store.write(self.batch)
        self.batch = Batch()


def divide(state: Path, old: tuple[int, int], crawl: CrawlFile, shaping: Shaping, records: int) -> list[Part]:
    """Divide the state of the partition ``old`` (number, number of partitions), which must not change meanwhile.

    The new partitions are created next to it, named by their numbers, and closed. ``crawl`` describes the crawl after
    the division, ``shaping`` each of its partitions; ``records`` is the length in bytes of the records that belong to
    the state. Raises OSError, and the codecs' errors for damage."""
    source, parts = RocksStore(state / STORE), list[Part]()
    numbers = range(old[0], crawl.partitions, old[1])
    budget = StoreBudget(len(numbers) + 1)
    try:
        for number in numbers:
            place = state.parent / f"{number:02}-store"
            source.snapshot(str(place))
            store = PartitionStore(place, budget, optional=OF_PARTITIONS)
            parts.append(Part(number, state.parent / f"{number:02}", store))
        try:
            _Division(source, parts, old, crawl).run(records)
        except ValueError as error:
            raise JournalError(f"a row of the store cannot be read: {error}") from error
        for part in parts:
            part.write()
            make_private_directory(part.directory)
            link_state(state, part.directory, part.store.snapshot)
            identity = replace(read_identity(state), shaping=shaping, partition=(part.number, crawl.partitions))
            write_identity(RealDisk(), part.directory, identity)
            if part is not parts[0]:
                (part.directory / HISTORY).unlink(missing_ok=True)
    finally:
        for each in (source, *(part.store for part in parts)):
            each.close()
    return parts


class _Division:
    """Distributes the rows of one store to the new partitions."""

    def __init__(self, source: Reader, parts: Sequence[Part], old: tuple[int, int], crawl: CrawlFile) -> None:
        self._source = source
        self._parts = parts
        self._heir = parts[0]
        self._part = {part.number: part for part in parts}
        self._old = old
        self._crawl = crawl
        self._placement = crawl.placement

    def run(self, records: int) -> None:
        for part in self._parts:
            for family in (*_HOSTS_FIRST, *_URL_OF, Family.OUTBOX, Family.META):
                part.batch.delete_range(family, b"", _END)
            for family in () if part is self._heir else _ONLY_HEIRS:
                part.batch.delete_range(family, b"", _END)
        of, of_host = self._placement.of, self._placement.of_host
        for family in _HOSTS_FIRST:
            for key, value in self._source.rows(family):
                self._give(family, key, value, of_host(key.partition(b"\0")[0].decode("ascii")))
        for family, url in _URL_OF.items():
            for key, value in self._source.rows(family):
                self._give(family, key, value, of(url(key, value)))
        for key, value in self._source.rows(Family.OUTBOX):
            self._address(key, value)
        for key, value in self._source.rows(Family.META):
            for part in self._with_name(key):
                part.put(Family.META, key, value)
        self._count(records)

    def _give(self, family: Family, key: bytes, value: bytes, number: int) -> None:
        part = self._part[number]
        part.put(family, key, value)
        counters = part.counters
        match family:
            case Family.PENDING:
                is_revisit = decode_entry(value).revisit
                counters.urls_admitted += not is_revisit
                counters.revisits += is_revisit
                counters.revisits_pending += is_revisit
            case Family.HOSTS:
                counters.hosts += 1
            case Family.DUE:
                counters.pages_scheduled += 1
            case Family.LEFT_OUT:
                decode_row(key, value).count(counters)
            case Family.LEDGER:
                part.doubted += 1

    def _address(self, key: bytes, value: bytes) -> None:
        """Address a message to the partitions to which its URLs now belong. Raises ValueError."""
        old, (target, _) = self._old, outbox.check_row(key, value, *self._old)
        message, by_target = decode_message(value), dict[int, Links | Widened]()
        if isinstance(message, Links):
            positions: dict[int, list[int]] = {}
            for at, href in enumerate(message.hrefs):
                positions.setdefault(self._placement.of(href), []).append(at)
            found = found_of(message, 0.0)
            by_target.update((number, links_of(found, some)) for number, some in positions.items())
        elif isinstance(message, Widened):
            by_target.update(dict.fromkeys(range(target, self._crawl.partitions, old[1]), message))
        heir = self._heir
        for number, each in by_target.items():
            heir.messages[number] += 1
            heir.put(Family.OUTBOX, outbox.row_key(number, heir.messages[number]), encode_message(each))

    def _with_name(self, name: bytes) -> Sequence[Part]:
        """Return the partitions that get a row of META."""
        if name == SYNCED:
            return ()  # the row refers to the log of the old store
        if name in _HEIRS or name.startswith(_HEIRS_FROM):
            return [self._heir]
        if name.startswith(_URL_FROM):
            return [self._part[self._placement.of(name.partition(b"/")[2].decode("ascii"))]]
        if name.startswith(_HOST_FROM):
            return [self._part[self._placement.of_host(name.partition(b"/")[2].decode("ascii"))]]
        return self._parts

    def _count(self, records: int) -> None:
        was, before = stored_counters(self._source), read_descent(self._source) or Descent()
        ledger = self._source.get(Family.META, LEDGER_COUNTS)
        doubted = LedgerCounts.decode(ledger)
        others = [part.counters for part in self._parts[1:]]
        common = {name: getattr(was, name) for name in ("sequence", "next_number", "trap_counts")}
        own = self._heir.counters
        self._heir.counters = replace(
            was,
            urls_admitted=was.urls_admitted - sum(each.urls_admitted for each in others),
            revisits=was.revisits - sum(each.revisits for each in others),
            **{name: getattr(own, name) for name in _OF_ROWS},
        )
        for part in self._parts:
            is_heir = part is self._heir
            if not is_heir:
                part.counters = replace(part.counters, **common)
            surplus = was.urls_admitted + before.surplus - part.counters.urls_admitted
            ancestors = before.ancestors if is_heir else (self._heir.number, *before.ancestors)
            descent = Descent(surplus, records if is_heir else 0, ancestors)
            of_ledger = replace(doubted, waiting=part.doubted) if is_heir else LedgerCounts(part.doubted)
            for name, value in self._new_names(part, descent):
                part.put(Family.META, name, value)
            if ledger is not None:
                part.put(Family.META, LEDGER_COUNTS, of_ledger.encode())

    def _new_names(self, part: Part, descent: Descent) -> Iterator[tuple[bytes, bytes]]:
        yield COUNTERS, encode_counters(part.counters)
        yield DESCENT, _DESCENT.encode(descent)
        yield PARTITION_KEPT, encode_partition((part.number, self._crawl.partitions))
        yield CRAWL, mark_of(self._crawl.secret)


_OF_ROWS = ("revisits_pending", "hosts", "pages_scheduled", "urls_held_back", "links_left_out", "pages_at_border")

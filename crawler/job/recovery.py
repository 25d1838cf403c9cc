"""Resumes a job from the state of its store.

The store is authoritative and is never rolled back. Recovery makes two other parts consistent with it. It restores the
seen-set from the newest intact generation and the journal after it. It cuts the output after the last finished URL, and
requeues URLs whose records did not reach the disk. If the parts cannot be made consistent, it raises JobError before it
changes anything.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from msgspec import Struct, field

from crawler.base.disk import FULL
from crawler.base.kv import Batch, Family, Reader, Store
from crawler.base.settings.parts import RecrawlSettings, SeenSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.revisits import Revisits
from crawler.job.checkpoint.generations import Generations
from crawler.job.directory import BROKEN_OFF, IDENTITY, SEEN, STORE, JobError
from crawler.job.identity import FORMAT, Identity
from crawler.job.left_out import drop
from crawler.job.metrics.catalogue import Counters
from crawler.job.output import Outputs
from crawler.job.output.body_files import BODY_SIZES
from crawler.job.output.outputs import empty
from crawler.job.output.page_files import PageFiles
from crawler.job.output.rotated_files import RotatedFiles
from crawler.job.records import (
    COUNTERS_STORED,
    DIGEST_SIZE,
    AsideDone,
    Done,
    End,
    Outcome,
    Position,
    StoredValue,
    count_done,
    count_url,
    decode_aside,
    decode_done,
    decode_ends,
    decode_seen,
    encode_counters,
    encode_ends,
    file_in_output,
    kind_of,
    sequence_key,
)
from crawler.job.transaction import OUTPUT_ENDS, TransactionWriter
from crawler.seen.exact.seen import load_seen, make_seen
from crawler.seen.filters import FilterError, KeyHash, SeenSet
from crawler.url.refusal.forbidden_targets import Rule

COUNTERS = b"counters"
OUTPUT_END = b"output-end"
SHAPING_KEPT = b"shaping"
FORMAT_KEPT = b"format"
HASH_KEPT = b"hash"
PARTITION_KEPT = b"partition"
REPAIRING = b"repairing"  # present during a repair, and after an interrupted one
_OUTPUT_END = StoredValue(int, "the end of an output")
encode_end = _OUTPUT_END.encode
_PARTITION = StoredValue(tuple[int, int], "the number of a partition")
encode_partition = _PARTITION.encode


class SeenSpec(Struct, frozen=True):
    """The parameters of a job's seen-set. ``hash`` is the hash used in the journal."""

    settings: SeenSettings
    hash: KeyHash


class RestoredSeen(Struct, frozen=True):
    """The restored seen-set.

    ``sequence``: the journal sequence of its generation; URLs that were finished later are not part of that generation.
    ``replayed``: the number of keys replayed from the journal, including forgotten ones. ``faults``: why generations
    were skipped."""

    seen: SeenSet
    sequence: int
    replayed: int
    faults: list[str]


def stored_counters(store: Reader) -> Counters:
    """Return the stored counters; all 0 if there are none. Raises JournalError if they cannot be read."""
    return COUNTERS_STORED.read(store, COUNTERS) or Counters()


def restore_seen(
    generations: Generations,
    store: Store,
    spec: SeenSpec,
    numbers: Sequence[int] | None = None,
) -> RestoredSeen:
    """Return the seen-set as of the last written transaction. ``numbers`` are the generations to choose from, newest
    first (default: all). Raises UnknownVersionError, and JobError if the generations do not belong to the store."""
    loaded, faults = generations.load_newest(numbers)
    journal_end = stored_counters(store).sequence
    if loaded is not None and loaded.manifest.sequence > journal_end:
        fault = (
            f"generation {loaded.manifest.generation} covers the journal up to sequence {loaded.manifest.sequence}, "
            f"but the journal ends at {journal_end}"
        )
        if journal_end == 0:
            raise JobError(
                f"{generations.directory.parent}: {SEEN}/ {fault}: {STORE}/ was emptied or replaced: restore {STORE}/",
                new_job=True,
            )
        # The end of the journal is lost. Any generation may hold bits of URLs from that end, and a URL that is seen but
        # not queued would be lost forever. So use only the journal.
        faults.append(fault)
        loaded = generations.newest = None
    if loaded is not None:
        manifest = loaded.manifest
        seen = load_seen(manifest.state, loaded.payloads, store)
        if seen.hash == spec.hash:
            replayed = _replay(seen, store, manifest.seen_sequence)
            return RestoredSeen(seen, manifest.sequence, replayed, faults)
        faults.append(f"generation {manifest.generation} uses a different hash from the journal")
        generations.newest = None
    seen = make_seen(spec.settings, store, spec.hash)
    return RestoredSeen(seen, 0, _replay(seen, store, 0), faults)


def _replay(seen: SeenSet, store: Reader, first: int) -> int:
    """Apply the journal from sequence ``first`` on to the seen-set. Returns the number of keys added or removed."""
    replayed = 0
    for rows in store.pages(Family.ADMITTED, sequence_key(first), None):
        # Group the events: they are small, and a batch costs the same for one key as for a hundred.
        for forgotten, events in itertools.groupby((decode_seen(value) for _, value in rows), key=itemgetter(0)):
            digests = b"".join([event for _, event in events])
            if forgotten:
                seen.restore_forgotten(digests)
            else:
                seen.restore(digests)
            replayed += len(digests) // DIGEST_SIZE
    return replayed


def note_faults(restored: RestoredSeen, generations: Generations) -> list[str]:
    """Set aside the generations that were skipped. Returns messages about their faults. Raises OSError."""
    used = 0 if generations.newest is None else generations.newest.generation
    for number in generations.numbers():
        if number > used:
            generations.set_aside(number)
    return [f"{fault}; restored from an older generation or the journal, nothing is lost" for fault in restored.faults]


class OutputCut(Struct, frozen=True):
    """``end``: the offset at which ``pages.jsonl`` must end. ``durable``: the offset up to which the newest generation
    made it durable. ``ends`` and ``durable_ends`` are the same for the other outputs, by kind. ``lost``: finished URLs
    whose records are missing from an output, with their sequence keys; ``lost_asides``: the same for asides."""

    end: int
    durable: int
    lost: list[tuple[bytes, Done]]
    ends: dict[int, End] = field(default_factory=dict)
    durable_ends: dict[int, End] = field(default_factory=dict)
    lost_asides: list[tuple[bytes, AsideDone]] = field(default_factory=list)

    def apply(self, outputs: Outputs) -> None:
        """Cut the outputs, and rewrite data that a failed sync may have left in memory. Raises OSError, OutputError."""
        for _, done in self.lost:
            outputs.bodies.uncount(outputs.pages.read(done.positions[0]) or b"")
        outputs.pages.cut(self.end)
        outputs.pages.write_again(self.durable)
        for kind, end in self.ends.items():
            outputs.of(kind).cut(end)
            outputs.of(kind).write_again(self.durable_ends[kind])
        outputs.settle()
        outputs.bodies.write_again()


def check_counts(store: Reader, frontier: Frontier, counters: Counters) -> None:
    """Compare the counters with the store as far as that is cheap; ``verify`` counts everything.

    Raises JobError if they differ: a queue without its host record would never be read, and without correct counters
    numbers would be reused."""
    if store.get(Family.META, REPAIRING) is not None:
        raise JobError(f"{STORE}/: {BROKEN_OFF}")
    after = sequence_key(counters.sequence)
    if any(store.scan(family, after, None, 1) for family in (Family.ADMITTED, Family.DONE, Family.ASIDES)):
        raise JobError(f"{STORE}/ is damaged: the journal continues after sequence {counters.sequence}; {_HOW}")
    if frontier.queued != counters.pending:
        raise JobError(
            f"{STORE}/ is damaged: the counters of the job show {counters.pending} pending URLs, those of its hosts "
            f"{frontier.queued}; {_HOW}"
        )


_HOW = "nothing was changed; `crawler verify` lists the damage"


def stored_end(store: Reader) -> int | None:
    """Return the stored offset at which the output ends if the journal has no finished URL; None if none is stored.
    Raises JournalError."""
    return _OUTPUT_END.read(store, OUTPUT_END)


def journalled_end(store: Reader) -> int:
    """Return the end of the last record in the journal. Raises JournalError."""
    last = None
    for _, value in store.rows(Family.DONE):  # the journal has only the events since the oldest generation
        last = value
    return (stored_end(store) or 0) if last is None else decode_done(last).positions[0].end


def keep_identity(store: Reader, identity: Identity, batch: Batch) -> None:
    """Copy the content of ``job.json`` into the store, so that each can be rebuilt from the other."""
    shaping = json.dumps(identity.shaping, sort_keys=True).encode("ascii")
    kept = {SHAPING_KEPT: shaping, FORMAT_KEPT: FORMAT, HASH_KEPT: encode_hash(identity.hash)}
    if identity.partition is not None:
        kept[PARTITION_KEPT] = encode_partition(identity.partition)
    for name, value in kept.items():
        if store.get(Family.META, name) != value:
            batch.put(Family.META, name, value)


def kept_partition(store: Reader) -> tuple[int, int] | None:
    """Return the job's partition number and the number of partitions, according to its store; None if it is not
    partitioned. Raises JournalError."""
    return _PARTITION.read(store, PARTITION_KEPT)


def encode_hash(hash: KeyHash) -> bytes:
    """Return the hash encoded for the store."""
    return json.dumps(hash.as_json(), sort_keys=True).encode("ascii")


def kept_hash(store: Reader) -> KeyHash | None:
    """Return the hash in the store, which the journal uses; None if there is none. Raises FilterError if it is
    damaged."""
    value = store.get(Family.META, HASH_KEPT)
    if value is None:
        return None
    try:
        return KeyHash.from_json(json.loads(value))
    except (ValueError, RecursionError) as error:  # includes FilterError
        raise FilterError(f"{STORE}/: the hash of the job is damaged: {error}") from error


def check_hash(store: Reader, hash: KeyHash) -> None:
    """Raise JobError if the hash in ``job.json`` differs from the one in the journal, and FilterError if the one in the
    journal is damaged."""
    kept = kept_hash(store)
    if kept is not None and kept != hash:
        raise JobError(f"{IDENTITY} and {STORE}/ have different secrets; {_HOW}")


def kept_shaping(store: Reader) -> dict[str, dict[str, object]] | None:
    """Return the shaping settings in the store, as nested tables; None if they are missing or invalid."""
    value = store.get(Family.META, SHAPING_KEPT)
    try:
        tables = json.loads(value or b"")
        return {str(table): dict(keys) for table, keys in tables.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def check_output(store: Reader, outputs: Outputs, sequence: int) -> OutputCut:
    """Compare the outputs with the finished URLs since ``sequence``. Older records were made durable with the
    generation.

    The first URL that has a part missing in any output is lost, and so are all later ones. Raises JobError if a file
    lacks durable records and this can be detected without reading the whole file."""
    walk = _Walk(outputs)
    border = sequence_key(sequence)
    for key, event in _finished(store, border):
        walk.add(key, event, durable=key < border)
    kept = decode_ends(store.get(Family.META, OUTPUT_ENDS))
    for output in outputs.further:
        kept.setdefault(output.form.kind, empty(output.form.kind))
    pages = walk.outputs.pop(0, _OutputWalk())
    stored = stored_end(store) or 0
    known = {kind: walk.outputs.get(kind, _OutputWalk()) for kind in kept.keys() | walk.outputs.keys()}
    cut = OutputCut(
        stored if pages.end is None else pages.end.offset,
        # Records before the first one in the journal are durable too.
        stored if pages.durable is None else pages.durable.offset,
        walk.lost,
        {kind: found.cut or kept.get(kind, found.end) or empty(kind) for kind, found in known.items()},
        {kind: found.durable or kept.get(kind) or empty(kind) for kind, found in known.items()},
        walk.lost_asides,
    )
    _check_durable(outputs.pages, outputs.pages.path, End(0, cut.durable), pages.last_durable)
    for kind, found in known.items():
        output, durable = outputs.of(kind), cut.durable_ends[kind]
        _check_durable(output, output.form.path(output.job, file_in_output(durable.file)), durable, found.last_durable)
    return cut


def _finished(store: Reader, border: bytes) -> Iterator[tuple[bytes, Done | AsideDone]]:
    """Yield the finished URLs and asides in the order in which they were written. Asides are kept forever, so only
    those from ``border`` on are included."""
    finished = ((key, decode_done(value)) for key, value in store.rows(Family.DONE))
    asides = ((key, decode_aside(value)) for key, value in store.rows(Family.ASIDES, border))
    return heapq.merge(finished, asides, key=itemgetter(0))


class _OutputWalk(Struct):
    """The state of one output according to the journal. ``durable``: the end of the data known to be durable;
    ``last_durable``: the last record before it. ``end``: the end of the last intact record; ``cut``: the start of the
    first lost one."""

    durable: End | None = None
    last_durable: Position | None = None
    end: End | None = None
    cut: End | None = None


class _Walk:
    """Collects the finished URLs and asides in order, and splits them into intact and lost ones."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs: dict[int, _OutputWalk] = {}
        self.lost: list[tuple[bytes, Done]] = []
        self.lost_asides: list[tuple[bytes, AsideDone]] = []
        self._holds = outputs.holds
        self._is_cut = False

    def add(self, key: bytes, event: Done | AsideDone, *, durable: bool) -> None:
        positions = event.positions
        if not durable and (self._is_cut or not all(map(self._holds, positions))):
            self._is_cut = True
            if isinstance(event, Done):
                self.lost.append((key, event))
            else:
                self.lost_asides.append((key, event))
        for position in positions:
            found = self.outputs.setdefault(kind_of(position.file), _OutputWalk())
            start, end = End(position.file, position.end - position.length), End(position.file, position.end)
            if durable:
                found.last_durable, found.durable, found.end = position, end, end
                continue
            if found.durable is None:
                found.durable = start  # everything before the first record in the journal is durable
            if not self._is_cut:
                found.end = end
            elif found.cut is None:
                found.cut = found.end = start


def _check_durable(output: PageFiles | RotatedFiles, path: Path, durable: End, last: Position | None) -> None:
    """Raise JobError if an output lacks durable records. In a full file only records that are still in the journal
    count: the file may have been moved away to free space."""
    fault = output.fault(durable)
    if fault is None and last is not None and last.file == durable.file and not output.holds(last):
        fault = f"is damaged at offset {last.end - last.length}: durable records are missing there"
    if fault is not None:
        raise JobError(
            f"{path} {fault}: restore the file as the crawl left it or keep the remaining records with `crawler repair "
            f"{output.job}`",
            new_job=True,
        )


def trim_finished(store: Reader, writer: TransactionWriter, sequence: int) -> None:
    """Remove the finished URLs before ``sequence`` from the journal, because generations cover them.

    At least one is kept, because it records where the output ends. On a full disk they stay in the journal until the
    next generation; any other OSError is raised."""
    border = sequence_key(sequence)
    if not store.scan(Family.DONE, border, None, 1):
        return
    try:
        writer.apply(lambda batch: batch.delete_range(Family.DONE, b"", border))
    except OSError as error:
        # The next transaction will find the disk full too, and wait. The next generation trims again.
        if error.errno not in FULL:
            raise


class Requeue(Struct, frozen=True):
    """The state that is updated when finished URLs whose records were lost are requeued. ``body_sizes`` counts the
    bodies that remain."""

    store: Store
    frontier: Frontier
    counters: Counters
    recrawl: RecrawlSettings
    body_sizes: bytes


def requeue(into: Requeue, cut: OutputCut, batch: Batch) -> None:
    """Requeue finished URLs with lost records, in one batch, and schedule a new fetch of each robots.txt whose part of
    an output is lost. Raises PageError, LeftOutError."""
    counters, frontier = into.counters, into.frontier
    # The journal may have no finished URL left that records where the output ends.
    batch.put(Family.META, OUTPUT_END, encode_end(cut.end))
    if into.store.get(Family.META, BODY_SIZES) is not None:
        batch.put(Family.META, BODY_SIZES, into.body_sizes)
    if cut.ends:
        batch.put(Family.META, OUTPUT_ENDS, encode_ends(list(cut.ends.values())))
    first = min(key for key, _ in (*cut.lost, *cut.lost_asides))
    for digest, row in into.store.rows(Family.PAYLOADS):
        if row[: len(first)] >= first:
            batch.delete(Family.PAYLOADS, digest)  # the payload's capture is lost
    for key, _ in cut.lost_asides:
        batch.delete(Family.ASIDES, key)
    # ``crawler text`` detects that a page's row is missing. A host may have lost its robots.txt and its terms.
    for host in {aside.owner for _, aside in cut.lost_asides if not aside.is_of_page}:
        batch.delete(Family.ROBOTS, host.encode("ascii"))
        frontier.overrides.ask_robots(host, batch)
        counters.robots_fetched -= 1
    revisits = Revisits(into.store, into.recrawl, lambda _: 0.0)
    again: dict[str, Entry] = {}
    for key, done in cut.lost:
        entry = done.entry
        batch.delete(Family.DONE, key)
        count_done(counters, done.outcome, done.status, by=-1)
        if entry.seed and not entry.revisit and done.outcome is Outcome.FETCHED:
            counters.seeds_fetched -= 1
        if not entry.revisit:
            for rule in (None, *Rule):
                drop(into.store, counters, entry.href, batch, rule)
        waits = entry.href not in again
        if waits:
            waits, unscheduled = revisits.take_back(entry, batch)
            counters.pages_scheduled -= unscheduled
        if waits:
            again[entry.href] = entry
            counters.revisits_pending += entry.revisit
        else:
            # The URL is already queued, or an earlier visit to it is lost too: one visit replaces both.
            counters.revisits -= 1
        if entry.href in again:
            count_url(counters, entry, done.outcome, done.status, by=-1)
    frontier.admit(again.values(), batch)
    counted = [done for _, done in cut.lost if done.outcome is not Outcome.EXCLUDED]
    frontier.uncount([(done.entry, done.outcome is Outcome.FAILED) for done in counted], batch)
    counters.next_number = frontier.next_number
    counters.hosts = frontier.hosts
    batch.put(Family.META, COUNTERS, encode_counters(counters))

"""Resuming a job as its store left it.

The store is authoritative and is never rolled back. Recovery brings two other parts in line with it. It restores the
seen-set from the newest intact generation and the journal after it. It cuts the output after the last finished URL, and
makes URLs pending again whose records did not reach the disk. If the parts cannot be brought in line, it raises
JobError before it changes anything.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from crawler.checkpoint import Generations
from crawler.disk import FULL
from crawler.exact import load_seen, make_seen
from crawler.filters import FilterError, KeyHash, SeenSet
from crawler.frontier import Entry, Frontier, Revisits
from crawler.job.border import border_counts, drop_page
from crawler.job.directory import BROKEN_OFF, IDENTITY, SEEN, STORE, JobError
from crawler.job.formats import FIRST
from crawler.job.held_back import drop_row
from crawler.job.identity import Identity
from crawler.job.transaction import TransactionWriter
from crawler.kv import Batch, Family, Reader, Store
from crawler.output import JsonlOutput
from crawler.records import (
    DIGEST_SIZE,
    Counters,
    Done,
    JournalError,
    Outcome,
    Position,
    count_done,
    decode_counters,
    decode_done,
    decode_seen,
    encode_counters,
    sequence_key,
)
from crawler.settings import RecrawlSettings, SeenSettings

COUNTERS = b"counters"
OUTPUT_END = b"output-end"
SHAPING_KEPT = b"shaping"
FORMAT_KEPT = b"format"
HASH_KEPT = b"hash"
REPAIRING = b"repairing"  # present while a repair is running, and after one was interrupted
_END = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class SeenSpec:
    """What the seen-set of a job is made of. ``hash`` is that of the journal."""

    settings: SeenSettings
    hash: KeyHash


@dataclass(frozen=True, slots=True)
class RestoredSeen:
    """The restored seen-set. ``sequence``: the journal sequence of its generation; later finished URLs are not part of
    it. ``replayed``: how many keys were replayed from the journal, including forgotten ones. ``faults``: what was wrong
    with the generations that were skipped."""

    seen: SeenSet
    sequence: int
    replayed: int
    faults: list[str]


def stored_counters(store: Reader) -> Counters:
    """The stored counters; all 0 if there are none. Raises JournalError when they are of an unknown version."""
    value = store.get(Family.META, COUNTERS)
    return Counters() if value is None else decode_counters(value)


def restore_seen(
    generations: Generations,
    store: Store,
    spec: SeenSpec,
    numbers: Sequence[int] | None = None,
) -> RestoredSeen:
    """The seen-set as of the last written transaction. ``numbers`` are the generations to choose from, newest first
    (default: all).

    Raises UnknownVersionError, and JobError when the generations do not belong to the store."""
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
        # The end of the journal is lost. Any generation may hold bits of URLs from that end, and a URL that is seen
        # but not queued would be lost for ever. So use only the journal.
        faults.append(fault)
        loaded = generations.newest = None
    if loaded is not None:
        manifest = loaded.manifest
        seen = load_seen(manifest.state, loaded.payloads, store)
        if seen.hash == spec.hash:
            replayed = _replay(seen, store, manifest.seen_sequence)
            return RestoredSeen(seen, manifest.sequence, replayed, faults)
        faults.append(f"generation {manifest.generation} has another hash than the journal")
        generations.newest = None
    seen = make_seen(spec.settings, store, spec.hash)
    return RestoredSeen(seen, 0, _replay(seen, store, 0), faults)


def _replay(seen: SeenSet, store: Reader, sequence: int) -> int:
    """Apply the journal from ``sequence`` on to the seen-set. Returns how many keys it added or removed."""
    replayed = 0
    for rows in store.pages(Family.ADMITTED, sequence_key(sequence)):
        # Events are small, and a batch costs the same for one key as for a hundred.
        for forgotten, events in itertools.groupby((decode_seen(value) for _, value in rows), key=itemgetter(0)):
            digests = b"".join([event for _, event in events])
            if forgotten:
                seen.restore_forgotten(digests)
            else:
                seen.restore(digests)
            replayed += len(digests) // DIGEST_SIZE
    return replayed


def note_faults(restored: RestoredSeen, generations: Generations) -> list[str]:
    """Set aside the generations that were skipped. Returns what was wrong with them, for people. Raises OSError."""
    used = 0 if generations.newest is None else generations.newest.generation
    for number in generations.numbers():
        if number > used:
            generations.set_aside(number)
    return [f"{fault}; restored from an older generation or the journal, nothing is lost" for fault in restored.faults]


@dataclass(frozen=True, slots=True)
class OutputCut:
    """``end``: the offset at which the output must end. ``durable``: the offset up to which the newest generation made
    it durable. ``lost``: finished URLs whose records are missing, with their sequence keys."""

    end: int
    durable: int
    lost: list[tuple[bytes, Done]]


def check_counts(store: Reader, frontier: Frontier, counters: Counters) -> None:
    """Compare the counters with the store, as far as that is cheap; ``verify`` counts everything.

    Raises JobError if they differ: without its host record a queue would never be read, and without the counters
    numbers would be reused."""
    if store.get(Family.META, REPAIRING) is not None:
        raise JobError(f"{STORE}/: {BROKEN_OFF}")
    after = sequence_key(counters.sequence)
    if store.scan(Family.ADMITTED, after, None, 1) or store.scan(Family.DONE, after, None, 1):
        raise JobError(f"{STORE}/ is damaged: the journal continues after sequence {counters.sequence}; {_HOW}")
    if frontier.queued != counters.pending:
        raise JobError(
            f"{STORE}/ is damaged: {counters.pending} URLs are pending by the counts of the job, {frontier.queued} by "
            f"those of its hosts; {_HOW}"
        )


_HOW = "nothing was changed; `crawler verify` lists the damage"


def stored_end(store: Reader) -> int | None:
    """The offset at which the output ends, if the journal has no finished URL that says so; else None. Raises
    JournalError."""
    value = store.get(Family.META, OUTPUT_END)
    if value is None:
        return None
    if len(value) != _END.size:
        raise JournalError(f"not the end of an output: {len(value)} bytes")
    return int(_END.unpack(value)[0])


def encode_end(end: int) -> bytes:
    """The inverse of ``stored_end``."""
    return _END.pack(end)


def keep_identity(store: Reader, identity: Identity, batch: Batch) -> None:
    """Copy what ``job.json`` says into the store, so that each can be rebuilt from the other."""
    shaping = json.dumps(identity.shaping, sort_keys=True).encode("ascii")
    kept = {SHAPING_KEPT: shaping, FORMAT_KEPT: str(identity.format).encode("ascii")}
    if identity.hash is not None:
        kept[HASH_KEPT] = encode_hash(identity.hash)
    for name, value in kept.items():
        if store.get(Family.META, name) != value:
            batch.put(Family.META, name, value)


def encode_hash(hash: KeyHash) -> bytes:
    """The hash as the store keeps it."""
    return json.dumps(hash.as_json(), sort_keys=True).encode("ascii")


def kept_hash(store: Reader) -> KeyHash | None:
    """The hash in the store, which is that of the journal; None if there is none. Raises FilterError if it is
    damaged."""
    value = store.get(Family.META, HASH_KEPT)
    if value is None:
        return None
    try:
        return KeyHash.from_json(json.loads(value))
    except (ValueError, RecursionError) as error:  # FilterError among them
        raise FilterError(f"{STORE}/: the hash of the job is damaged: {error}") from error


def check_hash(store: Reader, hash: KeyHash) -> None:
    """Raise JobError if the journal has another hash than ``job.json`` says, and FilterError if that is unknown."""
    kept = kept_hash(store)
    if kept is not None and kept != hash:
        raise JobError(f"{IDENTITY} and {STORE}/ have different secrets; {_HOW}")


def kept_format(store: Reader) -> int:
    """The format of the job according to its store. Jobs of the first format may lack it."""
    value = store.get(Family.META, FORMAT_KEPT) or b""
    return int(value) if value.isdigit() else FIRST


def kept_shaping(store: Reader) -> dict[str, dict[str, object]] | None:
    """The shaping settings in the store, as nested tables; None if they are missing or cannot be read."""
    value = store.get(Family.META, SHAPING_KEPT)
    try:
        tables = json.loads(value or b"")
        return {str(table): dict(keys) for table, keys in tables.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def check_output(store: Reader, output: JsonlOutput, sequence: int) -> OutputCut:
    """Compare the output with the finished URLs since ``sequence``. Older records were made durable with the
    generation. Raises JobError when the file lacks some of those, as far as that shows without reading the whole
    file."""
    durable_end = end = stored_end(store) or 0
    last_durable: Position | None = None
    lost: list[tuple[bytes, Done]] = []
    border = sequence_key(sequence)
    for number, (key, value) in enumerate(store.rows(Family.DONE)):
        done = decode_done(value)
        (position,) = done.positions
        if number == 0:
            durable_end = position.end - position.length  # the end of the records before the first one in the journal
        if key < border:
            durable_end = end = position.end
            last_durable = position
        elif lost or not output.holds(position):
            if not lost:
                end = position.end - position.length
            lost.append((key, done))
        else:
            end = position.end
    if output.end < durable_end:
        raise JobError(
            f"{output.path} has {output.end} bytes, but {durable_end} were durable: {_restore(output)}", new_job=True
        )
    hole = output.damage(durable_end)
    if hole is None and last_durable is not None and not output.holds(last_durable):
        hole = last_durable.end - last_durable.length
    if hole is not None:
        raise JobError(
            f"{output.path} is damaged at offset {hole}: durable records are missing there: {_restore(output)}",
            new_job=True,
        )
    return OutputCut(end, durable_end, lost)


def _restore(output: JsonlOutput) -> str:
    return (
        "restore the file as the crawl left it, fetch the missing pages again with "
        f"`crawler repair {output.path.parent}`"
    )


def trim_finished(store: Reader, writer: TransactionWriter, sequence: int) -> None:
    """Remove the finished URLs before ``sequence`` from the journal: generations cover them. Keep at least one, which
    says where the output ends. Raises OSError, but not for a full disk."""
    border = sequence_key(sequence)
    if not store.scan(Family.DONE, border, None, 1):
        return
    try:
        writer.apply(lambda batch: batch.delete_range(Family.DONE, b"", border))
    except OSError as error:
        # The next transaction will find the disk full too, and wait. The next generation trims again.
        if error.errno not in FULL:
            raise


@dataclass(frozen=True, slots=True)
class Requeue:
    """Where finished URLs with lost records go back to."""

    store: Store
    frontier: Frontier
    counters: Counters
    recrawl: RecrawlSettings


def requeue(into: Requeue, cut: OutputCut, batch: Batch) -> None:
    """Make finished URLs with lost records pending again, in one batch. Raises PageError, BorderError."""
    counters, frontier = into.counters, into.frontier
    # The journal may have no finished URL left that says where the output ends.
    batch.put(Family.META, OUTPUT_END, encode_end(cut.end))
    revisits = Revisits(into.store, into.recrawl, lambda _: 0.0)
    border = border_counts(into.store)
    again: dict[str, Entry] = {}
    for key, done in cut.lost:
        entry = done.entry
        batch.delete(Family.DONE, key)
        count_done(counters, done.outcome, done.status, by=-1)
        if entry.seed and not entry.revisit and done.outcome is Outcome.FETCHED:
            counters.seeds_fetched -= 1
        if done.outcome is Outcome.EXCLUDED:
            drop_row(into.store, counters, entry, batch)
        if not entry.revisit:
            drop_page(into.store, border, entry.href, batch)
        waits = entry.href not in again
        if waits:
            waits, unscheduled = revisits.take_back(entry, batch)
            counters.scheduled -= unscheduled
        if waits:
            again[entry.href] = entry
            counters.revisits_pending += entry.revisit
        else:
            # It is queued already, or an earlier visit is lost too: one visit replaces both.
            counters.revisits -= 1
    frontier.admit(again.values(), batch)
    counted = [done for _, done in cut.lost if done.outcome is not Outcome.EXCLUDED]
    frontier.uncount([(done.entry, done.outcome is Outcome.FAILED) for done in counted], batch)
    counters.next_number = frontier.next_number
    counters.hosts = frontier.hosts
    batch.put(Family.META, COUNTERS, encode_counters(counters))

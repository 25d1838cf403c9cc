"""Resuming a job as its store left it.

The store is the truth and is never rolled back. Two things follow from it and are made to agree with it here: the
seen-set (the newest whole generation, and the journal after it) and the outputs (cut where the last finished URL ends;
a URL whose record did not reach the disk becomes pending again). What cannot be made to agree is refused, before
anything is changed.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from crawler.checkpoint import Generations
from crawler.disk import FULL
from crawler.exact import load_seen
from crawler.filters import SeenSet
from crawler.frontier import Entry, Frontier, Revisits
from crawler.job.directory import BROKEN_OFF, SEEN, STORE, JobError, Shaping
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
from crawler.settings import RecrawlSettings

COUNTERS = b"counters"
OUTPUT_END = b"output-end"
SHAPING_KEPT = b"shaping"
REPAIRING = b"repairing"  # stands while a repair is under way, and when one was broken off
_END = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class RestoredSeen:
    """The seen-set, what was wrong with generations that were passed over, and how many keys of the journal were
    replayed, those that were forgotten among them.

    ``sequence`` is where the generation ends: finished URLs behind it are newer."""

    seen: SeenSet
    sequence: int
    replayed: int
    faults: list[str]


def stored_counters(store: Reader) -> Counters:
    """Raises JournalError when they are of an unknown version."""
    value = store.get(Family.META, COUNTERS)
    return Counters() if value is None else decode_counters(value)


def restore_seen(
    generations: Generations, store: Store, fresh: Callable[[], SeenSet], numbers: Sequence[int] | None = None
) -> RestoredSeen:
    """The seen-set as it was when the last step was written. ``fresh`` makes an empty one of the job's kind,
    ``numbers`` are the generations to choose from, newest first (all).

    Raises UnknownVersionError, and JobError when the store is not the one that the generations were written beside."""
    loaded, faults = generations.load_newest(numbers)
    journal_end = stored_counters(store).sequence
    if loaded is not None and loaded.manifest.sequence > journal_end:
        fault = (
            f"generation {loaded.manifest.generation} stands for journal sequence {loaded.manifest.sequence}, "
            f"the journal ends at {journal_end}"
        )
        if journal_end == 0:
            raise JobError(
                f"{generations.directory.parent}: {SEEN}/ {fault}: {STORE}/ was emptied or replaced: put it back, or "
                "begin a new job with --job"
            )
        # The end of the journal is lost. Bits of URLs that it named may be in any generation, and a URL that is
        # seen but not queued would be lost for ever: the journal alone is to be believed.
        faults.append(fault)
        loaded = generations.newest = None
    if loaded is None:
        seen, sequence, start = fresh(), 0, 0
    else:
        manifest = loaded.manifest
        seen, sequence = load_seen(manifest.state, loaded.payloads, store), manifest.sequence
        start = manifest.seen_sequence
    return RestoredSeen(seen, sequence, _replay(seen, store, start), faults)


def _replay(seen: SeenSet, store: Reader, sequence: int) -> int:
    """Bring the keys that came and went from ``sequence`` on into the seen-set; how many there were."""
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
    """What was wrong with generations, for people; those that were passed over are set aside. Raises OSError."""
    used = 0 if generations.newest is None else generations.newest.generation
    for number in generations.numbers():
        if number > used:
            generations.set_aside(number)
    return [
        f"{fault}; an older one or the journal alone stands in for it, nothing is lost" for fault in restored.faults
    ]


@dataclass(frozen=True, slots=True)
class OutputCut:
    """``end``: where the output must end. ``durable``: up to where a generation stands for it. ``lost``: finished URLs
    whose records are gone, with their sequence keys."""

    end: int
    durable: int
    lost: list[tuple[bytes, Done]]


def check_counts(store: Reader, frontier: Frontier, counters: Counters) -> None:
    """Compare what the counters say with what is there, as far as it costs nothing: ``verify`` counts all of it.

    Raises JobError: with a host record lost its queue would never be looked at, with the counters lost numbers would
    be used twice."""
    if store.get(Family.META, REPAIRING) is not None:
        raise JobError(f"{STORE}/: {BROKEN_OFF}")
    after = sequence_key(counters.sequence)
    if store.scan(Family.ADMITTED, after, None, 1) or store.scan(Family.DONE, after, None, 1):
        raise JobError(f"{STORE}/ is damaged: the journal goes beyond sequence {counters.sequence}; {_HOW}")
    if frontier.queued != counters.pending:
        raise JobError(
            f"{STORE}/ is damaged: {counters.pending} URLs are pending by the job's counts, {frontier.queued} by its "
            f"hosts'; {_HOW}"
        )


_HOW = "`crawler verify` says where, nothing was changed"


def stored_end(store: Reader) -> int | None:
    """Where the output ended when no finished URL was left in the journal to say so. Raises JournalError."""
    value = store.get(Family.META, OUTPUT_END)
    if value is None:
        return None
    if len(value) != _END.size:
        raise JournalError(f"not the end of an output: {len(value)} bytes")
    return int(_END.unpack(value)[0])


def encode_end(end: int) -> bytes:
    """The inverse of ``stored_end``."""
    return _END.pack(end)


def keep_shaping(store: Reader, shaping: Shaping, batch: Batch) -> None:
    """Keep what ``job.json`` says in the store as well, so that either can be made from the other."""
    value = json.dumps(shaping, sort_keys=True).encode("ascii")
    if store.get(Family.META, SHAPING_KEPT) != value:
        batch.put(Family.META, SHAPING_KEPT, value)


def kept_shaping(store: Reader) -> dict[str, dict[str, object]] | None:
    """The shaping settings as nested tables; None where the store has none that can be read."""
    value = store.get(Family.META, SHAPING_KEPT)
    try:
        tables = json.loads(value or b"")
        return {str(table): dict(keys) for table, keys in tables.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def check_output(store: Reader, output: JsonlOutput, sequence: int) -> OutputCut:
    """Compare the output with the finished URLs since ``sequence``; what is older was made durable with the
    generation. Raises JobError when the file lacks even that, as far as can be told without reading all of it."""
    durable_end = end = stored_end(store) or 0
    last_durable: Position | None = None
    lost: list[tuple[bytes, Done]] = []
    border = sequence_key(sequence)
    for number, (key, value) in enumerate(store.rows(Family.DONE)):
        done = decode_done(value)
        (position,) = done.positions
        if number == 0:
            durable_end = position.end - position.length  # records before the first one kept
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
            f"{output.path} has {output.end} bytes where {durable_end} were written for good: {_put_back(output)}"
        )
    hole = output.damage(durable_end)
    if hole is None and last_durable is not None and not output.holds(last_durable):
        hole = last_durable.end - last_durable.length
    if hole is not None:
        raise JobError(
            f"{output.path} is damaged at offset {hole}: the records that were written there for good are gone: "
            f"{_put_back(output)}"
        )
    return OutputCut(end, durable_end, lost)


def _put_back(output: JsonlOutput) -> str:
    return (
        "put the file back as the crawl left it, or have what is gone fetched again with "
        f"`crawler repair {output.path.parent}`, or begin a new job with --job"
    )


def trim_finished(store: Reader, writer: TransactionWriter, sequence: int) -> None:
    """Forget the finished URLs before ``sequence``, for which generations stand; one is left to say where the output
    ends. Raises OSError, but not for a full disk."""
    border = sequence_key(sequence)
    if not store.scan(Family.DONE, border, None, 1):
        return
    try:
        writer.apply(lambda batch: batch.delete_range(Family.DONE, b"", border))
    except OSError as error:
        # The next transaction finds the disk full as well, and waits; the next generation trims.
        if error.errno not in FULL:
            raise


@dataclass(frozen=True, slots=True)
class Requeue:
    """What finished URLs whose records are gone are put back into."""

    store: Store
    frontier: Frontier
    counters: Counters
    recrawl: RecrawlSettings


def requeue(into: Requeue, cut: OutputCut, batch: Batch) -> None:
    """Finished URLs whose records are gone are pending again: one batch. Raises PageError."""
    counters, frontier = into.counters, into.frontier
    # Perhaps none is left to say where the output ends.
    batch.put(Family.META, OUTPUT_END, encode_end(cut.end))
    revisits = Revisits(into.store, into.recrawl, lambda _: 0.0)
    again: dict[str, Entry] = {}
    for key, done in cut.lost:
        entry = done.entry
        batch.delete(Family.DONE, key)
        count_done(counters, done.outcome, done.status, by=-1)
        if entry.seed and not entry.revisit and done.outcome is Outcome.FETCHED:
            counters.seeds_fetched -= 1
        waits = entry.href not in again
        if waits:
            waits, unscheduled = revisits.take_back(entry, batch)
            counters.scheduled -= unscheduled
        if waits:
            again[entry.href] = entry
            counters.revisits_pending += entry.revisit
        else:
            # It is queued already, or its visit before this one is lost too: one visit replaces both.
            counters.revisits -= 1
    frontier.admit(again.values(), batch)
    counted = [done for _, done in cut.lost if done.outcome is not Outcome.EXCLUDED]
    frontier.uncount([(done.entry, done.outcome is Outcome.FAILED) for done in counted], batch)
    counters.next_number = frontier.next_number
    counters.hosts = frontier.hosts
    batch.put(Family.META, COUNTERS, encode_counters(counters))

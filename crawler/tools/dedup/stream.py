"""Reads lines and writes the new ones, in order.

It works block by block: hash the lines, look them up and add them, write the new ones, and only then read on. So new
lines are written as soon as the input pauses, and between two blocks the seen-set holds exactly the written lines. The
seen-set is stored only at intervals, when a signal asks to stop, and at the end.

    after                          the file holds
    the end, SIGINT, SIGTERM       all written lines: the next run prints none of them again
    SIGKILL, a failed write        the lines written before the last store: later lines are printed again

If the digests of the keys are stored next to the file, a chain is rebuilt as one slice between the blocks and after the
last one (``chain_rebuild``).

So every new line is printed at least once. An output file is synced before the seen-set is stored:
otherwise a power loss could keep the seen-set and lose the lines.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from crawler.base.memory import available_memory
from crawler.job.metrics.outlook import next_look, seen_warning
from crawler.seen.filters import DIGEST_BYTES, Filter, FilterError
from crawler.seen.slices.digests import digest_words
from crawler.tools.dedup.chain_rebuild import ChainRebuild
from crawler.tools.dedup.filter_setup import room_of
from crawler.tools.dedup.key_spec import KeySpec, LineKeys
from crawler.tools.dedup.lines import LineSource, LineTooLongError, Pause, write_all
from crawler.tools.dedup.store import FilterFile, StoredFilter

if TYPE_CHECKING:
    from crawler.seen.shared.redis_bloom import ModuleSet
    from crawler.seen.shared.shared_set import SharedSet

_SHARE = 10  # storing takes at most a tenth of the time


class Tally(Struct):
    """The numbers of lines, by what became of them."""

    lines: int = 0  # lines with a key
    new: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # lines without a key, by reason
    interrupted: bool = False
    stopped: str | None = None  # the reason why the rest of the input was not read


class Lookout:
    """Adds keys to a seen-set. As the set fills up, it warns once for each cause, early enough to act.

    A forecast reads a part of the filter, so it is not made for each batch, but only at two key counts that are known
    in advance: when a tenth of the newest slice is left, and when the slice is full. A large batch is split at these
    counts, so that it cannot skip a forecast."""

    def __init__(
        self, seen: Filter, say: Callable[[str], object], memory: Callable[[], int | None], compact_slices: int = 0
    ) -> None:
        """``memory`` returns the free bytes, or None if unknown; ``compact_slices`` is as for ``seen_warning``."""
        self._seen = seen
        self._compact_slices = compact_slices
        self._say = say
        self._memory = memory
        self._said: set[str] = set()
        self._next = self._look()

    def add_digests(self, digests: bytes) -> list[int]:
        """Add keys to the seen-set. See its ``add_digests``."""
        count, start, new = len(digests) // DIGEST_BYTES, 0, list[int]()
        while start < count:
            end = min(count, start + self._next - len(self._seen))
            found = self._seen.add_digests(digests[start * DIGEST_BYTES : end * DIGEST_BYTES])
            new += [start + position for position in found] if start else found
            start = end
            if len(self._seen) >= self._next:
                self._next = self._look()
        return new

    def look_again(self) -> None:
        """Check again now, and compute when to check next. To be called after the slices of the seen-set have been
        replaced."""
        self._next = self._look()

    def _look(self) -> int:
        """Warn if necessary, and return the number of keys at which to check again."""
        now = self._seen.statistics()
        warning = seen_warning(now, self._seen.parameters(), self._memory(), self._compact_slices)
        if warning is not None and warning.cause not in self._said:
            self._said.add(warning.cause)
            self._say(warning.text)
        return sys.maxsize if warning is not None and warning.cause == "full" else next_look(now)


class Keeper:
    """Stores the seen-set of a stream in a file, at intervals."""

    def __init__(
        self,
        file: FilterFile,
        keys: KeySpec,
        out: int,
        rebuild: ChainRebuild | None,
        *,
        interval: float,
        clock: Callable[[], float],
    ) -> None:
        """``out`` is the descriptor for new lines; ``interval`` is in seconds of ``clock``. ``rebuild`` stores the
        digests of the keys; None if they are not stored."""
        self._file = file
        self._rebuild = rebuild
        self._keys = keys
        self._out = out
        self._interval = interval
        self._clock = clock
        self._changed = not file.path.exists()
        self._due = clock() + interval

    def seconds_left(self) -> float | None:
        """Return the seconds until the next task is due, or None if there is no task."""
        if self._rebuild is not None and self._rebuild.pending:
            return 0.0
        return self._due - self._clock() if self._changed else None

    @property
    def compact_slices(self) -> int:
        """The length at which a chain is rebuilt; 0 for never."""
        return 0 if self._rebuild is None else self._rebuild.slices

    @property
    def rebuilt(self) -> int:
        """The number of times that the slices of the seen-set have been replaced."""
        return 0 if self._rebuild is None else self._rebuild.done

    def written(self, new: bytes) -> None:
        """Record that new lines have been written, and store the digests of their keys, which are already in the
        seen-set. Raises OSError."""
        self._changed |= bool(new)
        if self._rebuild is not None:
            self._rebuild.added(new)

    def work(self, seen: Filter) -> None:
        """Do the tasks that are due between two blocks. Raises OSError."""
        if self._rebuild is not None and self._rebuild.pending:
            before = self._rebuild.done
            self._rebuild.advance()
            self._changed |= self._rebuild.done > before
        if self._changed and self._clock() >= self._due:
            self.store(seen)

    def settle(self, seen: Filter, interrupted: Callable[[], bool]) -> None:
        """Store ``seen``. Then finish any pending rebuild, until a signal arrives, and store ``seen`` again if it has
        changed. Raises OSError."""
        self.store(seen)
        while self._rebuild is not None and self._rebuild.pending and not interrupted():
            before = self._rebuild.done
            self._rebuild.piece()
            self._changed |= self._rebuild.done > before
        self.store(seen)

    def store(self, seen: Filter) -> None:
        """Store ``seen`` in the file. Raises OSError."""
        if not self._changed:
            return
        began = self._clock()
        if stat.S_ISREG(os.fstat(self._out).st_mode):
            os.fsync(self._out)
        if self._rebuild is not None:
            self._rebuild.sync()
        self._file.write(StoredFilter(seen, self._keys, None if self._rebuild is None else self._rebuild.mark))
        ended = self._clock()
        self._changed = False
        self._due = ended + max(self._interval, (ended - began) * _SHARE)


def deduplicate(
    source: LineSource,
    keys: LineKeys,
    seen: Filter,
    out: int,
    keeper: Keeper | None = None,
    warn: Callable[[str], object] = bool,
) -> Tally:
    """Write the lines of ``source`` whose keys are new to ``out``, until ``source`` ends or a signal arrives.

    ``warn`` is called with each warning about ``seen``, before the problem occurs. Raises OSError, after which the file
    remains as it was last stored.
    """
    tally = Tally(skipped=keys.skipped)
    room, rebuilt = room_of(seen), 0
    lookout = Lookout(seen, warn, available_memory, keeper.compact_slices if keeper else 0)
    for lines, digests in _blocks(source, keys, tally, keeper, seen):
        try:
            if keeper and keeper.rebuilt > rebuilt:
                room, rebuilt = room_of(seen), keeper.rebuilt
                lookout.look_again()
            room.need(len(seen) + len(lines))
        except FilterError as problem:
            tally.stopped = str(problem)
            break
        new = lookout.add_digests(digests)
        _write_new(out, new, lines, tally)
        if keeper:
            keeper.written(_digests_at(new, digests))
            keeper.work(seen)
    if keeper:
        keeper.settle(seen, lambda: tally.interrupted or source.interrupted())
    return tally


def contained(source: LineSource, keys: LineKeys, seen: Filter | SharedSet | ModuleSet, out: int) -> Tally:
    """Write the lines of ``source`` whose keys are in ``seen``; the others are only counted, as ``new``. Raises
    OSError."""
    tally = Tally(skipped=keys.skipped)
    for lines, digests in _blocks(source, keys, tally):
        held = [line for line, found in zip(lines, seen.contains_digests(digests), strict=True) if found]
        tally.lines += len(lines)
        tally.new += len(lines) - len(held)
        if held:
            write_all(out, b"\n".join((*held, b"")))
    return tally


def deduplicate_shared(
    source: LineSource, keys: LineKeys, seen: SharedSet | ModuleSet, out: int, warn: Callable[[str], object]
) -> Tally:
    """Write the lines of ``source`` whose keys are new to all producers of a shared set to ``out``, until ``source``
    ends or a signal arrives. Raises OSError, after which the next session of the same producer gets the unwritten
    lines.

    The new lines of a block are written before the next block is requested. Until that request, the shards reserve the
    keys of the block for this producer, as it may die before it has written their lines."""
    tally = Tally(skipped=keys.skipped)
    warned = False
    for lines, digests in _blocks(source, keys, tally):
        _write_new(out, seen.add_digests(digests), lines, tally)
        if seen.lost and not warned:
            warned = True
            warn("a server returned to an earlier state: keys that it had acknowledged may be reported as new again")
    seen.end()
    return tally


def _blocks(
    source: LineSource, keys: LineKeys, tally: Tally, keeper: Keeper | None = None, seen: Filter | None = None
) -> Iterator[tuple[list[bytes], bytes]]:
    """Yield the lines of each block, and the digests of their keys, until the input ends or a signal arrives, which
    ``tally`` records. The keeper of ``seen`` works while no input arrives. Raises OSError."""
    while True:
        try:
            got = source.next(keeper.seconds_left() if keeper else None)
        except LineTooLongError as problem:
            tally.stopped = str(problem)
            return
        if got is Pause.IDLE and keeper and seen is not None:
            keeper.work(seen)
        elif isinstance(got, Pause):
            tally.interrupted = got is Pause.INTERRUPTED
            return
        else:
            yield keys.read(got)


def _write_new(out: int, new: list[int], lines: list[bytes], tally: Tally) -> None:
    """Count the lines of a block, and write those at the positions ``new``. Raises OSError."""
    tally.lines += len(lines)
    tally.new += len(new)
    if new:
        write_all(out, b"\n".join((*(lines if len(new) == len(lines) else [lines[at] for at in new]), b"")))


def _digests_at(positions: list[int], digests: bytes) -> bytes:
    if len(positions) * DIGEST_BYTES == len(digests):
        return digests
    return digest_words(digests).take(positions, axis=0).tobytes() if positions else b""

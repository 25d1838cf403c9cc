"""Rebuilds the chain of a stream as one slice, as a crawl does, from the file of digests next to its filter.

A chain of ``slices`` slices is copied into one larger slice in pieces, between the blocks of lines. This takes at most
a third of the time, so that lines are never delayed for long. When a piece reaches the end of the digests, the slice
replaces the chain. Between two blocks the file has the digests of exactly the keys in the seen-set, so no key can be
missed. A crash or the end of the run discards only the unfinished slice. At most one piece of digests is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from crc32c import crc32c

from crawler.seen.filters import DIGEST_BYTES, FilterError, ScalableBloomFilter, SuccessorSlice
from crawler.seen.filters.planning import check_memory, successor_plan
from crawler.tools.dedup.digest_file import DigestFile, DigestsLostError, Mark
from crawler.tools.dedup.store import FilterFile, StoredFilter

_PIECE = 4_096  # digests per piece, which takes a fraction of a millisecond
_LONGEST = 0.05  # maximum seconds that a block of lines is delayed


class ChainRebuild(AbstractContextManager["ChainRebuild"]):
    """The digests of a seen-set, and the slice built from them."""

    def __init__(
        self,
        seen: ScalableBloomFilter,
        digests: DigestFile,
        slices: int,
        say: Callable[[str], object],
        clock: Callable[[], float],
    ) -> None:
        """``slices`` is the length at which a chain is rebuilt; 0 for never. ``say`` is called with error messages."""
        self._seen = seen
        self._digests: DigestFile | None = digests
        self.slices = slices
        self._say = say
        self._clock = clock
        self._rested = clock()
        self._successor: SuccessorSlice | None = None
        self._checksum = 0  # checksum of the digests added to the successor
        self._put = 0
        self.done = 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._digests is not None:
            self._digests.close()

    @property
    def mark(self) -> Mark | None:
        """The mark of the stored digests, or None if they are no longer stored."""
        return None if self._digests is None else self._digests.mark

    def added(self, digests: bytes) -> None:
        """Store the digests of new keys. Raises OSError."""
        if self._digests is not None and digests:
            self._digests.append(digests)

    def sync(self) -> None:
        """Make the digests covered by ``mark`` durable. Raises OSError."""
        if self._digests is not None:
            self._digests.sync()

    @property
    def pending(self) -> bool:
        """True if a rebuild is due or in progress."""
        if self._digests is None:
            return False
        return self._successor is not None or 0 < self.slices <= self._seen.slices

    def advance(self) -> None:
        """Process pieces for half as long as the time since the last call, but for at most 50 ms. Raises OSError."""
        began = self._clock()
        until = began + min(_LONGEST, (began - self._rested) / 2)
        while self.pending:
            self.piece()
            if self._clock() >= until:
                break
        self._rested = self._clock()

    def piece(self) -> None:
        """Process one piece of digests. Raises OSError."""
        try:
            self._piece()
        except (DigestsLostError, FilterError) as problem:
            self._say(f"the seen-set remains a chain of {self._seen.slices} slices: {problem}")
            self._successor = None
            if isinstance(problem, FilterError):
                self.slices = 0  # do not retry in this run; a later run may have more memory
            elif self._digests is not None:
                self._digests.close()
                self._digests = None

    def _piece(self) -> None:
        digests = self._digests
        if digests is None:
            return
        if self._successor is None:
            check_memory(successor_plan(len(self._seen), self._seen.parameters()).size, "the slice for all keys")
            self._successor, self._put, self._checksum = self._seen.successor(), 0, 0
        if not self._successor.touch():
            return
        piece = digests.read(self._put, _PIECE)
        if len(piece) // DIGEST_BYTES > self._successor.room:
            self._successor = None  # the chain has outgrown this slice: start over with a larger one
            return
        self._successor.put(piece)
        self._checksum = crc32c(piece, self._checksum)
        self._put += len(piece) // DIGEST_BYTES
        if self._put < digests.mark.count:
            if not piece:
                raise DigestsLostError(f"{digests.path} was truncated")
            return
        if self._checksum != digests.mark.checksum or self._put != len(self._seen):
            raise DigestsLostError(f"{digests.path} does not hold the digests of its keys")
        self._seen.succeed(self._successor)
        self._successor = None
        self.done += 1


def keep_digests(
    file: FilterFile, stored: StoredFilter, slices: int, say: Callable[[str], object], clock: Callable[[], float]
) -> AbstractContextManager[ChainRebuild | None]:
    """Store the digests of a scalable seen-set next to its file, if the seen-set is new or if its digests have been
    stored from the start.

    ``slices`` is as for ``ChainRebuild``; with 0, no digests are stored for a new seen-set. ``say`` is called if the
    digests of an existing seen-set are lost. Raises OSError, and DigestsLostError if a file of another type has the
    name of the file of digests."""
    seen = stored.seen
    if not isinstance(seen, ScalableBloomFilter):
        return nullcontext()
    try:
        if stored.digests is not None:
            if stored.digests.count != len(seen):
                raise DigestsLostError(f"{file.digests} belongs to another version of {file.path}")
            return ChainRebuild(seen, DigestFile.resume(file.digests, stored.digests), slices, say, clock)
    except DigestsLostError as problem:
        say(f"the seen-set remains a chain: {problem}")
        return nullcontext()
    if slices == 0 or file.path.exists():
        return nullcontext()
    return ChainRebuild(seen, DigestFile.create(file.digests), slices, say, clock)

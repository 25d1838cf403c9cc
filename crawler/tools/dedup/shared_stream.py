"""Lines in, those out that no producer of a shared set had before.

Each block is asked for, and its new lines are written before the next one is asked for. So what the shards keep for
this producer, until its next request, is what it has perhaps not written when it dies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from crawler.tools.dedup.key_spec import LineKeys
from crawler.tools.dedup.lines import LineSource, LineTooLongError, Pause, write_all
from crawler.tools.dedup.stream import Tally, chosen_lines


class Shared(Protocol):
    """A session of a shared set."""

    @property
    def lost(self) -> bool:
        """Whether a server lost keys that it had acknowledged."""
        ...

    def add_digests(self, digests: bytes) -> list[int]:
        """Add keys, and return the positions of the new ones."""
        ...

    def contains_digests(self, digests: bytes) -> list[bool]:
        """Whether keys are in."""
        ...

    def end(self) -> None:
        """Everything was written."""
        ...


def deduplicate_shared(
    source: LineSource, keys: LineKeys, seen: Shared, out: int, warn: Callable[[str], object]
) -> Tally:
    """Write the lines of ``source`` whose keys are new to ``out``, to the end of ``source`` or until a signal comes.
    Raises OSError; then the next session of the same producer gets what was not written."""
    tally = Tally(skipped=keys.skipped)
    warned = False
    while True:
        try:
            block = source.next()
        except LineTooLongError as problem:
            tally.stopped = str(problem)
            break
        if isinstance(block, Pause):
            tally.interrupted = block is Pause.INTERRUPTED
            break
        lines, digests = keys.read(block)
        new = seen.add_digests(digests)
        tally.lines += len(lines)
        tally.new += len(new)
        if new:
            write_all(out, b"\n".join((*chosen_lines(new, lines), b"")))
        if seen.lost and not warned:
            warned = True
            warn("a server went back to an earlier state: keys that it had acknowledged may be called new again")
    seen.end()
    return tally

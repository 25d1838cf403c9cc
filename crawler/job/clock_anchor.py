"""The clock of the run before this one, as far as it can be told: was it set since?

Within one boot of the machine the seconds since that boot tell how much time has passed, whatever was done to the time
of day. Of a boot that is over nobody knows: a clock that was set forward then looks like a job that lay still.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from crawler.clock import Anchor, SteadyClock
from crawler.frontier.clock_step import move_times
from crawler.kv import Batch, Family, Reader

CLOCK = b"clock"
LEAST = 1.0  # seconds: less is nothing, every host waits its gap anyway when a job resumes
_OFFSET = struct.Struct("<d")


def stored_anchor(store: Reader) -> Anchor | None:
    """What the last run left; None where it left nothing that can be read."""
    value = store.get(Family.META, CLOCK)
    if value is None or len(value) <= _OFFSET.size:
        return None
    (offset,) = _OFFSET.unpack_from(value)
    if not math.isfinite(offset):
        return None
    return Anchor(value[_OFFSET.size :].decode("ascii", "replace"), offset)


def job_time(store: Reader) -> float:
    """Now, by the clock that wrote the times of the job, as far as it can be told: the wall clock may have been set
    since its last run began, which may still be at work."""
    clock = SteadyClock()
    mine, its = clock.anchor, stored_anchor(store)
    if mine is None or its is None or mine.boot != its.boot:
        return clock()
    return clock() + its.offset - mine.offset


def encode_anchor(anchor: Anchor) -> bytes:
    """The inverse of ``stored_anchor``."""
    return _OFFSET.pack(anchor.offset) + anchor.boot.encode("ascii")


def follow_clock(store: Reader, anchor: Anchor | None, now: float, tell: Callable[[str], None], batch: Batch) -> None:
    """Keep what the next run may compare its clock with, and move stored times along with a clock that was set since
    the last one. ``tell`` hears of it. Raises OSError and what ``move_times`` raises."""
    if anchor is None:
        return
    before = stored_anchor(store)
    same_boot = before is not None and before.boot == anchor.boot
    by = anchor.offset - before.offset if before is not None and same_boot else 0.0
    if same_boot and abs(by) < LEAST:
        return
    batch.put(Family.META, CLOCK, encode_anchor(anchor))
    moved = move_times(store, by, now, batch) if by else 0
    if moved:
        way = "forward" if by > 0 else "back"
        tell(
            f"the clock was set {way} by {abs(by):.0f} s since the last run: what holds {moved} hosts was moved with it"
        )

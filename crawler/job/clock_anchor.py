"""Detects whether the wall clock was set between two runs.

Within one boot of the machine, the seconds since the boot show how much time has passed, even if the wall clock was
set. After a reboot a clock step cannot be detected: a clock that was set forward looks like a pause of the job.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.base.clock import Anchor, SteadyClock
from crawler.base.kv import Batch, Family, Reader
from crawler.job.clock_step import move_times
from crawler.job.records import StoredValue

CLOCK = b"clock"
LEAST = 1.0  # seconds; smaller steps do not matter, because every host waits its gap when a job resumes
_ANCHOR = StoredValue(Anchor, "the clock of the last run")
encode_anchor = _ANCHOR.encode


def stored_anchor(store: Reader) -> Anchor | None:
    """Return the anchor of the last run; None if there is none. Raises JournalError."""
    return _ANCHOR.read(store, CLOCK)


def job_time(store: Reader) -> float:
    """Return the current time in seconds since 1970, by the clock that wrote the times of the job.

    It differs from the wall clock if that was set after the last run started; the run may still be active."""
    clock = SteadyClock()
    mine, its = clock.anchor, stored_anchor(store)
    if mine is None or its is None or mine.boot != its.boot:
        return clock()
    return clock() + its.offset - mine.offset


def follow_clock(store: Reader, anchor: Anchor | None, now: float, tell: Callable[[str], None], batch: Batch) -> None:
    """Store the anchor for the next run. If the clock was set since the last run, move the stored times accordingly,
    and report that to ``tell``. Raises OSError and the errors of ``move_times``."""
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
            f"the clock was set {way} by {abs(by):.0f} s since the last run: adjusted the waiting times "
            f"({'1 host' if moved == 1 else f'{moved} hosts'})"
        )

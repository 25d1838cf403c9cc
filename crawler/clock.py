"""The one clock of a job."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_ID_SIZE = 36


@dataclass(frozen=True, slots=True)
class Anchor:
    """What tells, within one boot of a machine, a clock that was set from time that has passed: the name of the boot,
    and the clock's reading less the seconds since then. Two clocks of one boot with the same offset agree."""

    boot: str
    offset: float


class SteadyClock:
    """Seconds since 1970 that never jump.

    Read off the wall once, at the start, and carried on by a clock that nobody sets: a wall clock that is set an hour
    forward or back while the crawl runs makes neither a burst nor a stall, and what is stored is still a time of day.
    Where the system has a clock that counts while the machine sleeps, that one carries on: sleep is time that has
    passed.
    """

    def __init__(self) -> None:
        self._offset = time.time() - _steady()

    def __call__(self) -> float:
        """The time now, in seconds since 1970."""
        return self._offset + _steady()

    @property
    def anchor(self) -> Anchor | None:
        """What the next run may compare its clock with; None where the system does not tell."""
        if not hasattr(time, "CLOCK_BOOTTIME"):
            return None
        try:
            boot = _BOOT_ID.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return Anchor(boot, self._offset) if len(boot) == _BOOT_ID_SIZE else None


def _steady() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

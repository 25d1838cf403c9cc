"""The single clock of a job."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_ID_SIZE = 36
_READINGS = 5
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # on macOS, CLOCK_MONOTONIC counts sleep too


class Anchor(Struct, frozen=True):
    """Tells a clock step from elapsed time within one boot of a machine. It consists of the boot's id, and the clock's
    reading minus the seconds since boot. Two clocks within one boot agree if this offset is the same."""

    boot: str
    offset: float


class SteadyClock:
    """A clock whose seconds since 1970 never jump.

    The wall clock is read once, at the start. From then on the seconds are counted by a clock that is never set.
    Setting the wall clock forward or back by an hour therefore causes neither a burst nor a stall, and stored times are
    still times of day. The time during which the machine sleeps is counted too.
    """

    def __init__(self, boot_id: Path = BOOT_ID) -> None:
        """``boot_id`` is the file that contains the id of the machine's current boot."""
        self._boot_id = boot_id
        self._offset = _wall_offset()

    def __call__(self) -> float:
        """Return the current time, in seconds since 1970."""
        return self._offset + boot_time()

    @property
    def anchor(self) -> Anchor | None:
        """The anchor against which the next run can check its clock; None if the system does not provide a boot id."""
        try:
            boot = self._boot_id.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return Anchor(boot, self._offset) if len(boot) == _BOOT_ID_SIZE else None


def _wall_offset() -> float:
    """Return the wall clock's reading minus the steady clock's. The process may be interrupted between the two
    readings, so they are taken several times, and the pair with the shortest time in between is used."""
    readings = []
    for _ in range(_READINGS):
        before, wall, after = boot_time(), time.time(), boot_time()
        readings.append((after - before, wall - (before + after) / 2))
    return min(readings)[1]


def boot_time() -> float:
    """Return the seconds since the machine started, including sleep and the time while this process was stopped."""
    return time.clock_gettime(_BOOT_CLOCK)

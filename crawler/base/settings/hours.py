"""Windows of time in which hosts may be requested, as in ``22:00-06:00`` or ``Sat-Sun 00:00-24:00``.

A window follows the wall clock of a time zone or of this machine. A window whose end is before its start continues
after midnight, and belongs to the day on which it starts. When clocks are set forward or back, a window may be an hour
shorter or longer, because it follows the displayed time.

Pure: the time is an argument, in seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import lru_cache, partial

from msgspec import Struct

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_DAY = f"({'|'.join(DAYS)})"
_WINDOW = rf"(?:{_DAY}(?:-{_DAY})? )?([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])"
_TIME = rf"(?:{_DAY}(?:-{_DAY})? )?([01][0-9]|2[0-3]):([0-5][0-9])"
_MINUTE = 60.0
_DAY_MINUTES = 24 * 60
_LOOKED_AT = 8 * _DAY_MINUTES  # number of minutes to check: every window opens and closes within a week


class HoursError(ValueError):
    """Raised for an invalid window or time zone; the text is the reason."""


class _Window(Struct, frozen=True):
    days: frozenset[int]  # weekdays on which the window starts
    start: int  # minutes after midnight
    end: int

    def holds(self, day: int, minute: int) -> bool:
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        return (day in self.days and minute >= self.start) or ((day - 1) % 7 in self.days and minute < self.end)


def _window(text: str) -> _Window:
    found = re.fullmatch(_WINDOW, text)
    if found is None:
        raise HoursError(f'{text!r} must be like "22:00-06:00" or "Sat-Sun 00:00-24:00"')
    first, last, *times = found.groups()
    start, end = (int(times[at]) * 60 + int(times[at + 1]) for at in (0, 2))
    if start == end or end > _DAY_MINUTES:
        raise HoursError(f"{text!r} must not end at its start or after 24:00")
    return _Window(_days(first, last), start, end)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    """Return the weekdays from the first to the last; all weekdays if none is given."""
    begins = 0 if first is None else DAYS.index(first)
    length = 7 if first is None else (DAYS.index(last or first) - begins) % 7 + 1
    return frozenset((begins + day) % 7 for day in range(length))


def zone_of(name: str | None) -> tzinfo | None:
    """Return the time zone; None stands for this machine's time zone. Raises HoursError."""
    if name is None:
        return None
    # The import loads the configuration of Python's build, so it is done only if a zone is named.
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise HoursError(f"{name!r} is not a time zone known to this machine, such as Europe/Berlin") from error


class Hours:
    """Windows in which hosts may be requested. Raises HoursError."""

    def __init__(self, windows: tuple[str, ...], zone: str | None) -> None:
        self._windows = tuple(map(_window, windows))
        self._zone = zone_of(zone)
        self._known = (0.0, 0.0, False)  # the last result: valid from, valid until, whether a window is open

    def opens(self, now: float) -> float:
        """Return when hosts may be requested: ``now`` in a window, else the start of the next one."""
        if not self._windows:
            return now
        since, until, is_open = self._known  # shared by threads
        if not since <= now < until:
            self._known = since, until, is_open = self._look(now)
        return now if is_open else until

    def is_open(self, now: float) -> bool:
        """Return True if ``now`` is in a window."""
        shown = datetime.fromtimestamp(now, self._zone)
        day, minute = shown.weekday(), shown.hour * 60 + shown.minute
        return any(window.holds(day, minute) for window in self._windows)

    def _look(self, now: float) -> tuple[float, float, bool]:
        """Check each minute from ``now`` on until one differs in whether a window is open. Offsets from UTC are whole
        minutes."""
        is_open = self.is_open(now)
        minute = now // _MINUTE * _MINUTE
        for _ in range(_LOOKED_AT):
            minute += _MINUTE
            if self.is_open(minute) is not is_open:
                break
        return now, minute, is_open


@lru_cache(maxsize=1_024)
def hours_of(windows: tuple[str, ...], zone: str | None) -> Hours:
    """Return the ``Hours`` of these windows, cached. Raises HoursError."""
    return Hours(windows, zone)


class TimeOfDay(Struct, frozen=True):
    days: frozenset[int]
    hour: int
    minute: int


def parse_time(text: str) -> TimeOfDay:
    """Return a time of day, as in ``03:00`` or ``Mon-Fri 18:30``. Raises HoursError."""
    found = re.fullmatch(_TIME, text)
    if found is None:
        raise HoursError(f'{text!r} must be like "03:00" or "Mon-Fri 18:30"')
    first, last, hour, minute = found.groups()
    return TimeOfDay(_days(first, last), int(hour), int(minute))


def _fault(read: Callable[[str], object], text: str) -> str | None:
    try:
        read(text)
    except HoursError as error:
        return str(error)
    return None


# Each function returns what is wrong with a text in the settings, or None.
fault_of_window = partial(_fault, _window)
fault_of_zone = partial(_fault, zone_of)
fault_of_time = partial(_fault, parse_time)

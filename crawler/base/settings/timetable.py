"""The times of a crawl: the windows in which it hands out URLs, and the times at which rounds start.

A round visits every page once more. The timetable needs no state: after a visit, the next one is scheduled for the next
start of a round. A restart, a power cut or a day with the machine off therefore changes nothing: pages that became due
in the meantime are visited once.

Times of day are given in the configured time zone, or else in that of this machine. A time that is skipped when the
clock is set forward is interpreted with the earlier offset: 02:30 becomes 03:30. A time that occurs twice when the
clock is set back counts once, at its first occurrence. Intervals of hours are counted from the start of the job,
regardless of the wall clock.

Pure: the time is an argument, in seconds since 1970.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, tzinfo

from crawler.base.settings.hours import Hours, TimeOfDay, hours_of, parse_time, zone_of
from crawler.base.settings.parts import ScheduleSettings

_LOOKED_AT = 9  # number of days to check: each time of day occurs within a week, and clocks may have been set
_HOUR = 3_600.0


class Timetable:
    """The timetable of a job that started at ``began``. Raises HoursError."""

    def __init__(self, settings: ScheduleSettings, began: float) -> None:
        self._hours: Hours = hours_of(settings.hours, settings.time_zone)
        self._zone = zone_of(settings.time_zone)
        self._times = tuple(map(parse_time, settings.times))
        self._every = None if settings.every_hours is None else settings.every_hours * _HOUR
        self._began = began
        self.has_rounds = settings.has_rounds

    def opens(self, now: float) -> float:
        """Return when the crawl may run: ``now`` in a window, else the start of the next one."""
        return self._hours.opens(now)

    def next_round(self, time: float) -> float:
        """Return when the first round starts at or after ``time``; ``time`` itself if there are no rounds."""
        if self._every is not None:
            return self._began + math.ceil((time - self._began) / self._every) * self._every
        if not self._times:
            return time
        day = datetime.fromtimestamp(time, self._zone) - timedelta(days=1)
        moments = (
            _moment(day + timedelta(days=ahead), each, self._zone)
            for ahead in range(_LOOKED_AT)
            for each in self._times
            if (day + timedelta(days=ahead)).weekday() in each.days
        )
        return min(moment for moment in moments if moment >= time)

    def shown(self, time: float) -> str:
        """Format a time to the minute, in the time zone of the timetable."""
        then = datetime.fromtimestamp(time, self._zone)
        then = then.astimezone() if self._zone is None else then
        return then.strftime("%Y-%m-%d %H:%M %z")


def _moment(day: datetime, time: TimeOfDay, zone: tzinfo | None) -> float:
    return datetime(day.year, day.month, day.day, time.hour, time.minute, tzinfo=zone).timestamp()

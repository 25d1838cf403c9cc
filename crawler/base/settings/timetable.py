"""When a crawl runs: the windows in which it hands out URLs, and the times at which a round begins.

A round is every page once more. It needs no state of its own: after a visit, the next one is set for the first time of
the timetable. So a restart, a power cut or a day on which the machine was off changes nothing: what was due meanwhile
is due once.

Times of day are those of a time zone, or of this machine. A time that the clock skips, when it is set forward, is taken
by the clock as it was before: 02:30 is then 03:30. One that it shows twice, when it is set back, is taken once, the
first time. Every so many hours is counted from the start of the job, whatever the clock on the wall shows.

Pure: the time is an argument, in seconds since 1970.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, tzinfo

from crawler.base.settings.hours import Hours, TimeOfDay, hours_of, parse_time, zone_of
from crawler.base.settings.parts import ScheduleSettings

_LOOKED_AT = 9  # days: each time comes within a week, and clocks may have been set
_HOUR = 3_600.0


class Timetable:
    """The timetable of a job that began at ``began``. Raises HoursError."""

    def __init__(self, settings: ScheduleSettings, began: float) -> None:
        self._hours: Hours = hours_of(settings.hours, settings.time_zone)
        self._zone = zone_of(settings.time_zone)
        self._times = tuple(map(parse_time, settings.times))
        self._every = None if settings.every_hours is None else settings.every_hours * _HOUR
        self._began = began

    @property
    def has_rounds(self) -> bool:
        """Whether pages are visited again, at times."""
        return bool(self._times) or self._every is not None

    def opens(self, now: float) -> float:
        """When the crawl may run: ``now`` in a window, else the start of the next one."""
        return self._hours.opens(now)

    def next_round(self, time: float) -> float:
        """The first time, ``time`` or later, at which a round begins; ``time`` itself if there are no rounds."""
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
        """A time as the clock of the timetable shows it, to the minute."""
        then = datetime.fromtimestamp(time, self._zone)
        then = then.astimezone() if self._zone is None else then
        return then.strftime("%Y-%m-%d %H:%M %z")


def _moment(day: datetime, time: TimeOfDay, zone: tzinfo | None) -> float:
    return datetime(day.year, day.month, day.day, time.hour, time.minute, tzinfo=zone).timestamp()

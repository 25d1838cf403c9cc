"""Schedules the runs of a worker: which ones to check, and whose turn it is. Pure: times are arguments.

A run is checked when something in it has changed, or at a time that it named. Then it stays in line until it has no URL
to hand out. So an idle run costs nothing, however many hosts it has.
"""

from __future__ import annotations

from math import inf
from typing import Generic, TypeVar

Who = TypeVar("Who")


class Times(Generic[Who]):
    """The next time of each run, in seconds since 1970; infinity if it has none."""

    def __init__(self) -> None:
        self._at: dict[Who, float] = {}
        self._first: float | None = inf  # None if it must be recomputed

    @property
    def first(self) -> float:
        """The earliest of all times."""
        if self._first is None:
            self._first = min(self._at.values(), default=inf)
        return self._first

    def put(self, who: Who, at: float) -> None:
        """Replace the next time of ``who``."""
        was = self._at.get(who, inf)
        if at == was:
            return
        if at == inf:
            del self._at[who]
        else:
            self._at[who] = at
        if self._first is not None:
            self._first = at if at <= self._first else None if was <= self._first else self._first

    def come(self, now: float) -> list[Who]:
        """Return the runs that are due, and remove their times."""
        if now < self.first:
            return []
        come = [who for who, at in self._at.items() if at <= now]
        for who in come:
            del self._at[who]
        self._first = None
        return come


class RunSchedule(Generic[Who]):
    """The runs of one worker."""

    def __init__(self) -> None:
        self._here: dict[Who, None] = {}
        self._touched: dict[Who, None] = {}
        self._line: dict[Who, None] = {}  # runs that may have a URL to hand out, in the order of their turns
        self._leases = Times[Who]()  # times at which runs that are not in line will have a URL
        self._limits = Times[Who]()  # times at which something else changes by itself

    def join(self, who: Who) -> None:
        """Add a run, and check it at the next opportunity."""
        self._here[who] = None
        self._touched[who] = None

    def touch(self, who: Who) -> None:
        """Schedule a check of the run after a change in it."""
        if who in self._here:
            self._touched[who] = None

    def touch_all(self) -> None:
        """Schedule a check of all runs after a change that may concern any of them."""
        self._touched = dict.fromkeys(self._here)

    def due(self, now: float) -> list[Who]:
        """Return the runs to check now. Call ``looked`` or ``leave`` for each."""
        due = self._touched
        for each in (*self._leases.come(now), *self._limits.come(now)):
            due[each] = None
        if due:
            self._touched = {}
        return list(due)

    def looked(self, who: Who, limit: float) -> None:
        """Put a checked run in line. ``limit``: the next time at which something in the run changes by itself."""
        self._limits.put(who, limit)
        self._leases.put(who, inf)
        self._line.setdefault(who)

    def leave(self, who: Who) -> None:
        """Remove a run that is over."""
        self._here.pop(who, None)
        self._touched.pop(who, None)
        self._line.pop(who, None)
        self._limits.put(who, inf)
        self._leases.put(who, inf)

    # -- the line ----------------------------------------------------------------------------------------------

    def first(self) -> Who | None:
        """Return the run whose turn it is; None if no run has anything to hand out."""
        return next(iter(self._line), None)

    def served(self, who: Who) -> None:
        """Move the first run in line to the end: it has handed out a URL."""
        if len(self._line) > 1:
            del self._line[who]
            self._line[who] = None

    def waits(self, who: Who, lease: float, limit: float) -> None:
        """Take the first run out of line. It has nothing to hand out before ``lease``, unless something changes in it;
        at ``limit`` something changes by itself."""
        del self._line[who]
        self._leases.put(who, lease)
        self._limits.put(who, limit)

    # -- times -------------------------------------------------------------------------------------------------

    @property
    def next_limit(self) -> float:
        """The next time at which something changes by itself, other than a URL becoming due; infinity: never."""
        return self._limits.first

    @property
    def next_time(self) -> float:
        """The next time at which a run must be checked if nothing changes before; infinity: never."""
        return min(self._limits.first, self._leases.first)

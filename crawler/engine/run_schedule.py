"""Which runs of a worker are looked at, and whose turn it is. Pure: times are arguments.

A run is looked at when something in it has changed, or when a time has come that it named. Then it stands in line until
it has no URL to hand out. So a run that has nothing to do costs nothing, however many hosts it has.
"""

from __future__ import annotations

from math import inf
from typing import Generic, TypeVar

Who = TypeVar("Who")


class Times(Generic[Who]):
    """The next time of each, in seconds since 1970. Infinity: it has none."""

    def __init__(self) -> None:
        self._at: dict[Who, float] = {}
        self._first: float | None = inf  # None: to be found

    @property
    def first(self) -> float:
        """The first of all times."""
        if self._first is None:
            self._first = min(self._at.values(), default=inf)
        return self._first

    def put(self, who: Who, at: float) -> None:
        """Its next time is this one, and no other."""
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
        """Those whose times have come. They have none any more."""
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
        self._line: dict[Who, None] = {}  # those that may have a URL to hand out, in the order of their turns
        self._leases = Times[Who]()  # when one that is not in line will have a URL
        self._limits = Times[Who]()  # when anything else will change of itself

    def join(self, who: Who) -> None:
        """It is to be looked at from now on."""
        self._here[who] = None
        self._touched[who] = None

    def touch(self, who: Who) -> None:
        """Something has changed in it."""
        if who in self._here:
            self._touched[who] = None

    def touch_all(self) -> None:
        """Something may have changed in any of them."""
        self._touched = dict.fromkeys(self._here)

    def due(self, now: float) -> list[Who]:
        """Those that are to be looked at now. Each is then ``looked`` at or made to ``leave``."""
        due = self._touched
        for each in (*self._leases.come(now), *self._limits.come(now)):
            due[each] = None
        if due:
            self._touched = {}
        return list(due)

    def looked(self, who: Who, limit: float) -> None:
        """It goes on, and stands in line. Something changes of itself at ``limit``."""
        self._limits.put(who, limit)
        self._leases.put(who, inf)
        self._line.setdefault(who)

    def leave(self, who: Who) -> None:
        """It is over, and never looked at again."""
        self._here.pop(who, None)
        self._touched.pop(who, None)
        self._line.pop(who, None)
        self._limits.put(who, inf)
        self._leases.put(who, inf)

    # -- the line ----------------------------------------------------------------------------------------------

    def first(self) -> Who | None:
        """The one whose turn it is; None: nobody has anything to hand out."""
        return next(iter(self._line), None)

    def served(self, who: Who) -> None:
        """The first in line has handed out a URL: the others have their turns before."""
        if len(self._line) > 1:
            del self._line[who]
            self._line[who] = None

    def waits(self, who: Who, lease: float, limit: float) -> None:
        """It has nothing to hand out before ``lease``, unless something changes, as it will at ``limit``."""
        del self._line[who]
        self._leases.put(who, lease)
        self._limits.put(who, limit)

    # -- times -------------------------------------------------------------------------------------------------

    @property
    def next_limit(self) -> float:
        """When something changes of itself besides that a URL may be handed out; infinity: never."""
        return self._limits.first

    @property
    def next_time(self) -> float:
        """When somebody is to be looked at, if nothing changes before; infinity: never."""
        return min(self._limits.first, self._leases.first)

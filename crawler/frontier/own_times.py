"""When the settings alone permit requests to hosts: the permitted hours, and the turns among the hosts of a site."""

from __future__ import annotations

from crawler.base.settings.hours import hours_of
from crawler.base.settings.parts import PolitenessSettings
from crawler.base.settings.sites import Sites

LATE = 60.0  # seconds after which a host loses an unused turn


class SiteRate:
    """Schedules the requests of hosts that match one ``[[site]]`` with a rate. Times are in seconds since 1970.

    Each host that asks gets a time of its own, after those of the hosts that asked before, and returns at that time.
    Hosts thus take turns in the order in which they asked, and none has to ask repeatedly. A host that does not return
    loses its turn, which then goes unused.
    """

    def __init__(self, seconds: float) -> None:
        """``seconds`` is the time between two requests."""
        self._seconds = seconds
        self._next = 0.0  # the first time that is not assigned
        self._turns: dict[str, float] = {}

    def turn(self, host: str, now: float) -> float:
        """Ask at ``now`` to make a request.

        Returns ``now`` if the host may make one, which is then counted; else the time at which it may.
        """
        turn = self._turns.get(host)
        if turn is not None and now < turn:
            return turn
        if turn is not None:
            del self._turns[host]
            if now < turn + LATE:
                return now
        at = max(now, self._next)
        self._next = at + self._seconds
        if at > now:
            self._turns[host] = at
        return at

    def give_back(self, host: str) -> None:
        """Give back the host's turn."""
        self._turns.pop(host, None)


class OwnTimes:
    """The times of a crawl with these settings, in seconds since 1970."""

    def __init__(self, settings: PolitenessSettings, sites: Sites | None) -> None:
        self.has_hours = bool(settings.hours) or (sites is not None and sites.timed)
        self._sites = sites
        self._rates: dict[int, SiteRate] = {}  # by the number of the settings table
        self._openings: set[float] = set()  # times until which hosts are held, because they are outside their hours

    def opens(self, politeness: PolitenessSettings, now: float) -> float:
        """Return the earliest time for a request to a host with these settings: ``now`` within its hours. The host is
        held until then."""
        at = hours_of(politeness.hours, politeness.time_zone).opens(now)
        if at > now:
            self._openings.add(at)
        return at

    def is_opening(self, time: float) -> bool:
        """Return True if a host is held until that time, because it is outside its allowed hours."""
        return time in self._openings

    def turn(self, name: str, now: float) -> float:
        """Return when the host may make a request under its site's rate; if ``now``, one request is counted."""
        rate = None if self._sites is None else self._sites.of_host(name).rate
        if rate is None:
            return now
        turns = self._rates.get(rate.table)
        if turns is None:
            turns = self._rates[rate.table] = SiteRate(rate.seconds)
        return turns.turn(name, now)

    def give_back(self, name: str) -> None:
        """Give back the host's turn."""
        for turns in self._rates.values():
            turns.give_back(name)

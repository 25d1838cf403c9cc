"""When the settings alone permit requests to hosts: the permitted hours, and the turns among the hosts of a site."""

from __future__ import annotations

from crawler.base.settings.hours import hours_of
from crawler.base.settings.parts import PolitenessSettings
from crawler.base.settings.sites import Sites
from crawler.frontier.site_rate import SiteRate


class OwnTimes:
    """The times of a crawl with these settings, in seconds since 1970."""

    def __init__(self, settings: PolitenessSettings, sites: Sites | None) -> None:
        self.has_hours = bool(settings.hours) or (sites is not None and sites.timed)
        self._sites = sites
        self._rates: dict[int, SiteRate] = {}  # by the number of the settings table
        self._openings: set[float] = set()  # times until which hosts are held by their hours

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

"""When hosts may be asked by the settings alone: in which hours, and in which turn among the hosts of a site."""

from __future__ import annotations

from crawler.base.settings.hours import hours_of
from crawler.base.settings.parts import PolitenessSettings
from crawler.base.settings.sites import Sites
from crawler.frontier.site_rate import SiteRate


class OwnTimes:
    """The times of a crawl with these settings. All are in seconds since 1970."""

    def __init__(self, settings: PolitenessSettings, sites: Sites | None) -> None:
        self.has_hours = bool(settings.hours) or (sites is not None and sites.timed)
        self._sites = sites
        self._rates: dict[int, SiteRate] = {}  # by the number of the table that sets it
        self._openings: set[float] = set()  # until when hosts are held by their hours

    def opens(self, politeness: PolitenessSettings, now: float) -> float:
        """When a host with these settings may be asked; ``now`` in its hours. It is held until then."""
        at = hours_of(politeness.hours, politeness.time_zone).opens(now)
        if at > now:
            self._openings.add(at)
        return at

    def is_opening(self, time: float) -> bool:
        """Whether hosts are held by their hours until that time."""
        return time in self._openings

    def turn(self, name: str, now: float) -> float:
        """When the host may make a request, as far as its site's rate goes; ``now`` counts one."""
        rate = None if self._sites is None else self._sites.of_host(name).rate
        if rate is None:
            return now
        turns = self._rates.get(rate.table)
        if turns is None:
            turns = self._rates[rate.table] = SiteRate(rate.seconds)
        return turns.turn(name, now)

    def give_back(self, name: str) -> None:
        """The host does not need its turn."""
        for turns in self._rates.values():
            turns.give_back(name)

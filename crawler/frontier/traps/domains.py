"""Traps of domains: the hosts of one registrable domain may have a multiple of what one host may have.

With a wildcard record a domain has as many hosts as it likes, and each of them what the limits of a host allow. So URLs
like one pattern, and sets of parameters of one path, are counted for the domain too, a hundred at a time: a host with
fewer of a kind does not count, and costs nothing. When the domain has ``traps.domain_factor`` times the limit of a
host, each of its hosts has a hundred of the kind and no more. So a thousand honest hosts are left alone until they have
five thousand URLs like one pattern each, and ten thousand hosts of a spammer end.
"""

from __future__ import annotations

from collections import OrderedDict

from crawler.base.settings.parts import TrapSettings
from crawler.frontier.traps.counts import Counts, digest_of
from crawler.url.urls.domain import registrable_domain

STEP = 100  # of one kind on one host are counted at once
FULL_MOST = 50_000  # kinds of hosts in memory whose domain has enough; a forgotten one is found again at the next step


class DomainTraps:
    """What the domains of a job have of each kind."""

    def __init__(self, settings: TrapSettings, counts: Counts) -> None:
        self._factor = settings.domain_factor
        self._counts = counts
        self._full: OrderedDict[bytes, int] = OrderedDict()  # by the key of a host's count: how many it may have

    def count(self, key: bytes, number: int, subject: tuple[str, str], most: int, changed: dict[bytes, int]) -> int:
        """How many a host may have, of which ``number`` were counted under ``key`` so far, if ``most`` are allowed by
        itself; 0 for no limit. ``subject``: the host with its port, and what is counted. The count of the domain goes
        into ``changed``."""
        if not (most and self._factor):
            return most
        if number and number % STEP == 0 and key not in self._full:
            total_key = _key(*subject)
            total = changed.get(total_key, self._counts.number(total_key))
            if total < most * self._factor:
                changed[total_key] = total + STEP
            else:
                self._full[key] = number
                if len(self._full) > FULL_MOST:
                    self._full.popitem(last=False)
        return min(most, self._full.get(key, most))

    def is_full(self, key: bytes) -> bool:
        """Whether the domain has enough, as far as the host of that count knows."""
        return key in self._full

    def total(self, host: str, what: str) -> int:
        """How many the hosts of the domain have together, counted by ``STEP``."""
        return self._counts.number(_key(host, what))


def domain_of(host: str) -> str:
    """The registrable domain of a host with its port."""
    return registrable_domain(host.rpartition(":")[0])


def _key(host: str, what: str) -> bytes:
    return digest_of(f"{domain_of(host)} {what} of a domain")

"""Trap limits for domains: all hosts of a registrable domain together may have a multiple of one host's limit.

With a wildcard DNS record a domain has endless hosts, each with the limits of a host. URLs of one pattern, and
parameter sets of one path, are therefore also counted for the domain, in steps of 100; a host with fewer than 100 of a
kind does not count and costs nothing. Once the domain has fifty times the limit of a host, each of its hosts may have
100 of that kind at most. A thousand honest hosts are not affected until they have five thousand URLs of one pattern
each, while ten thousand hosts of a spammer are cut off.
"""

from __future__ import annotations

from crawler.frontier.traps.counts import Counts, digest_of
from crawler.url.urls.domain import registrable_domain

DOMAIN_FACTOR = 50  # multiple of one host's limit: a domain with a wildcard record has endless hosts
STEP = 100  # number of URLs of one kind on a host that are counted at once


class DomainTraps:
    """The counters of all domains of a job."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def allows(self, number: int, subject: tuple[str, str], most: int, changed: dict[bytes, int]) -> bool:
        """Return True if a host that has ``number`` of its own limit of ``most`` may have one more.

        ``subject`` is the host with its port, and the kind that is counted. The domain's new count is put into
        ``changed``.
        """
        if not (most and number) or number % STEP:
            return True
        total_key = _key(*subject)
        total = changed.get(total_key, self._counts.number(total_key))
        if total < most * DOMAIN_FACTOR:
            changed[total_key] = total + STEP
            return True
        return False

    def total(self, host: str, what: str) -> int:
        """Return the total of the domain's hosts, counted in steps of ``STEP``."""
        return self._counts.number(_key(host, what))


def domain_of(host: str) -> str:
    """Return the registrable domain of a ``host:port``."""
    return registrable_domain(host.rpartition(":")[0])


def _key(host: str, what: str) -> bytes:
    return digest_of(f"{domain_of(host)} {what} of a domain")

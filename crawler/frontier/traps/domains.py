"""Traps of domains: the hosts of one registrable domain may have a multiple of what one host may have.

With a wildcard record a domain has as many hosts as it likes, and each of them what the limits of a host allow. So URLs
like one pattern, and sets of parameters of one path, are counted for the domain too, a hundred at a time: a host with
fewer of a kind does not count, and costs nothing. When the domain has fifty times the limit of a
host, each of its hosts has a hundred of the kind and no more. So a thousand honest hosts are left alone until they have
five thousand URLs like one pattern each, and ten thousand hosts of a spammer end.
"""

from __future__ import annotations

from crawler.frontier.traps.counts import Counts, digest_of
from crawler.url.urls.domain import registrable_domain

DOMAIN_FACTOR = 50  # times what one host may have: a domain with a wildcard record has endless hosts
STEP = 100  # of one kind on one host are counted at once


class DomainTraps:
    """What the domains of a job have of each kind."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def allows(self, number: int, subject: tuple[str, str], most: int, changed: dict[bytes, int]) -> bool:
        """Whether a host that has ``number``, of ``most`` that it may have by itself, may have one more. ``subject``:
        the host with its port, and what is counted. The count of the domain goes into ``changed``."""
        if not (most and number) or number % STEP:
            return True
        total_key = _key(*subject)
        total = changed.get(total_key, self._counts.number(total_key))
        if total < most * DOMAIN_FACTOR:
            changed[total_key] = total + STEP
            return True
        return False

    def total(self, host: str, what: str) -> int:
        """How many the hosts of the domain have together, counted by ``STEP``."""
        return self._counts.number(_key(host, what))


def domain_of(host: str) -> str:
    """The registrable domain of a host with its port."""
    return registrable_domain(host.rpartition(":")[0])


def _key(host: str, what: str) -> bytes:
    return digest_of(f"{domain_of(host)} {what} of a domain")

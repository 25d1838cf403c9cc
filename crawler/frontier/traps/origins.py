"""Limits the servers that links may lead to: our rules must permit them, and their number is bounded.

Pages invent names and ports: a name has 65,535 ports, and a domain with a wildcard record has endless hosts, each with
its own queue, robots.txt and gap.

Links found on pages are counted against two limits:

    ports of one host name             more than ``MAX_PORTS`` are refused
    hosts of one registrable domain    more than ``traps.max_hosts`` are refused

A host and port that the job already knows stays open regardless of the counts, and so do the user's seeds. A refused
URL is admitted and finished at once, with an ``excluded`` record. After ``MAX_RECORDS`` such records the name or domain
is *closed*: links to further hosts of it are dropped without a lookup. A run with a higher limit reopens it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import FetchSettings, TrapSettings
from crawler.frontier.traps.counts import MAX_RECORDS, Counts, L, digest_of, open_links
from crawler.url.refusal.forbidden_targets import Refusal, Rule, refusal_of_href
from crawler.url.urls.domain import registrable_domain
from crawler.url.urls.host_key import host_key

MAX_PORTS = 16  # limit for one host name
KNOWN_MAX = 50_000  # origins in memory, which need no lookup


class _Limit(Struct, frozen=True):
    """One count: ``subject`` is the name or domain, ``most`` the limit (0 for none)."""

    rule: Rule
    setting: str
    subject: str
    most: int
    what: str

    @property
    def taken(self) -> bytes:
        """Key of the count of admitted ports or hosts."""
        return digest_of(f"{self.subject} {self.setting}")

    @property
    def refused(self) -> bytes:
        """Key of the count of `excluded` records."""
        return digest_of(f"{self.subject} {self.setting} refused")

    @property
    def refusal(self) -> Refusal:
        why = f"{self.subject} has more than {self.most} {self.what}"
        return Refusal(self.rule, self.subject, why, "a higher traps.max_hosts" if self.setting == "max_hosts" else "")


def _ports(name: str) -> _Limit:
    return _Limit(Rule.TOO_MANY_PORTS, "max_ports", name, MAX_PORTS, "ports")


def _hosts(domain: str, settings: TrapSettings) -> _Limit:
    return _Limit(Rule.TOO_MANY_HOSTS, "max_hosts", domain, settings.max_hosts, "hosts")


def refusal_of_limit(rule: Rule, subject: str, settings: TrapSettings) -> Refusal:
    """Return the refusal, under this rule, of a link to a further port of a name or a further host of a domain."""
    limit = _ports(subject) if rule is Rule.TOO_MANY_PORTS else _hosts(subject, settings)
    return limit.refusal


class Origins:
    """The hosts and ports of a job."""

    def __init__(self, settings: TrapSettings, permitted: FetchSettings, store: Reader) -> None:
        self._settings = settings
        self._permitted = permitted
        self._store = store
        self._counts = Counts(store)
        self._known: dict[str, None] = {}  # permitted origins: hrefs without their path
        self._closed: set[str] = set()  # names and domains found closed in this run

    def open_links(self, links: Sequence[L], dropped: Counter[str]) -> list[L]:
        """Return the links that do not lead to further hosts of a closed name or domain.

        The others are counted in ``dropped`` under the setting of the limit.
        """
        return open_links(links, self._closed_by, dropped) if self._closed else list(links)

    def refusals(self, hrefs: Sequence[str], batch: Batch) -> tuple[list[Refusal | None], int]:
        """Count the origins of new URLs that are to be queued, and put the counts into ``batch``.

        Returns the refusal of each URL, or None, and the total increase of all counts.
        """
        known = self._known
        found: list[Refusal | None] = [None] * len(hrefs)
        grown = 0
        for place, href in enumerate(hrefs):
            origin = href[: href.find("/", 8)]
            if origin not in known:
                found[place], more = self._meet(origin, href, batch)
                grown += more
        return found, grown

    def take_back(self, href: str, rule: Rule, batch: Batch) -> tuple[Refusal | None, int]:
        """Reconsider a URL that a limit refused.

        Returns the refusal if it still applies, or None, and the total increase of all counts (one record less counts
        as -1).
        """
        limits = self._limits(host_key(href))
        refused = next((each for each in limits if each.rule is rule), None)
        less = 0
        if refused is not None and (records := self._counts.number(refused.refused)):
            less = self._counts.set(refused.refused, records - 1, batch)
        refusal, grown = self._meet(href[: href.find("/", 8)], href, batch)
        return refusal, less + grown

    def refusal(self, href: str) -> Refusal | None:
        """Return the refusal that a link to the URL would get now, or None."""
        refused = refusal_of_href(href, self._permitted)
        name = host_key(href)
        if refused is not None or self._store.get(Family.HOSTS, name.encode("ascii")) is not None:
            return refused
        full = (each for each in self._limits(name) if each.most and self._counts.number(each.taken) >= each.most)
        return next((limit.refusal for limit in full), None)

    def _meet(self, origin: str, href: str, batch: Batch) -> tuple[Refusal | None, int]:
        """Decide on a URL whose origin is not in memory."""
        refused = refusal_of_href(href, self._permitted)
        if refused is not None:
            return refused, 0
        name = host_key(href)
        grown = 0
        if self._store.get(Family.HOSTS, name.encode("ascii")) is None:
            limits = self._limits(name)
            for limit in limits:
                if limit.most and self._counts.number(limit.taken) >= limit.most:
                    records = self._counts.number(limit.refused) + 1
                    if records >= MAX_RECORDS:
                        self._closed.add(limit.subject)
                    return limit.refusal, self._counts.set(limit.refused, records, batch)
            for limit in limits:
                grown += self._counts.set(limit.taken, self._counts.number(limit.taken) + 1, batch)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[origin] = None
        return None, grown

    def _limits(self, name: str) -> list[_Limit]:
        """Return the limits that a new ``host:port`` counts against."""
        host, settings = name.rpartition(":")[0], self._settings
        limits = [_ports(host)]
        domain = registrable_domain(host)
        if domain != host and not self._met(host):
            limits.append(_hosts(domain, settings))
        return limits

    def _met(self, host: str) -> bool:
        """Return True if the host is already counted, with another port, or was known before counting started."""
        ports = host.encode("ascii") + b":"
        if self._counts.number(digest_of(f"{host} max_ports")):
            return True
        return bool(self._store.scan(Family.HOSTS, ports, ports[:-1] + b";", 1))

    def _closed_by(self, href: str) -> str | None:
        """Return the setting of the limit that drops a link, or None."""
        if href[: href.find("/", 8)] in self._known:
            return None
        name = host_key(href)
        host = name.rpartition(":")[0]
        is_port = host in self._closed
        if not (is_port or registrable_domain(host) in self._closed):
            return None
        known = self._store.get(Family.HOSTS, name.encode("ascii")) is not None
        return None if known else "traps.max_ports" if is_port else "traps.max_hosts"

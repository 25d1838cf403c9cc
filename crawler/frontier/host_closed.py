"""Hosts that get no more requests.

They are retired, blocked by the user, refused by one of our rules or over their budget, or their robots.txt could not
be fetched.

The URLs of a closed host are still handed out, so that each ends as a record with the reason, without a request. URLs
of the host that are admitted later end in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from crawler.base.settings.parts import BudgetSettings
from crawler.frontier.host import DomainTally, Host
from crawler.frontier.request_outcome import FailureClass
from crawler.url.refusal.forbidden_targets import Refusal, Rule
from crawler.url.urls.domain import registrable_domain


class HostClosed(Struct, frozen=True):
    """The reason why requests to a host have stopped.

    ``failed`` is True if its URLs end as failed; otherwise they end as excluded. ``refusal`` is set if one of our rules
    is the reason.
    """

    rule: str
    words: str
    failed: bool = False
    refusal: Refusal | None = None

    @property
    def budget(self) -> bool:
        """True if the host has used up its budget. Its robots.txt may still be fetched."""
        return self.rule == "budget"

    @property
    def may_ask_robots(self) -> bool:
        """True if its robots.txt may still be fetched for another host whose robots.txt redirects to it."""
        return self.budget or (self.refusal is None and self.rule.startswith("robots.txt"))

    @property
    def error(self) -> str:
        """Text for the ``error`` field of the records."""
        return f"{self.rule}: {self.words}"


_BLOCKED = HostClosed("blocked", "its host was blocked by hand")


def closure(host: Host, budget: BudgetSettings) -> HostClosed | None:
    """Return the reason why requests to the host have stopped, or None for an open host."""
    if host.politeness.blocked:
        return _BLOCKED
    if host.failures.retired:
        return HostClosed("retired", retired_words(host), failed=True)
    tally = host.tally
    if budget.host_pages is not None and tally.fetched >= budget.host_pages:
        return _used_up(Rule.HOST_PAGES, f"{tally.fetched} of {budget.host_pages} responses have been used")
    if budget.host_bytes is not None and tally.size_read >= budget.host_bytes:
        return _used_up(Rule.HOST_BYTES, f"{tally.size_read} of {budget.host_bytes} bytes have been used")
    return None if host.domain is None else _closure_of_domain(host.domain, budget)


def _used_up(rule: Rule, words: str) -> HostClosed:
    """Return the reason to close a host that has used up a budget. The rule names its setting, such as
    ``budget.host_pages``."""
    table, _, setting = rule.value.partition(".")
    return HostClosed(table, f"{setting}: {words}", refusal=Refusal.of_setting(rule, words))


def _closure_of_domain(domain: DomainTally, budget: BudgetSettings) -> HostClosed | None:
    if budget.domain_pages is None or domain.fetched < budget.domain_pages:
        return None
    words = f"{domain.fetched} of {budget.domain_pages} responses have been used by hosts of {domain.name}"
    return _used_up(Rule.DOMAIN_PAGES, words)


def retired_words(host: Host) -> str:
    """Return the words that explain why the host was retired."""
    times, snoozes, backoff, last, *_ = host.failures
    if last is FailureClass.THROTTLED:
        return f"its host answered 429 or 503 {backoff} times in a row"
    word = "no answer" if last is None else last.word
    return f"its host did not respond {times} times in a row and was snoozed {snoozes} times; last failure: {word}"


def pages_left(host: Host, budget: BudgetSettings) -> int | None:
    """Return how many more requests may start if each request in flight fetches a page; None if there is no limit."""
    return None if budget.host_pages is None else max(0, budget.host_pages - host.tally.fetched - host.leased)


def in_flight_may_use_up_domain(host: Host, budget: BudgetSettings) -> bool:
    """Return True if the requests in flight to the host's domain may use up its page budget."""
    domain, most = host.domain, budget.domain_pages
    return domain is not None and most is not None and domain.fetched + domain.leased >= most


class DomainTallies:
    """Counts of responses for each registrable domain that the job knows, for domain budgets.

    The counts are stored with the hosts, and are summed when a run starts, because the run reads each host anyway. The
    sums take about 250 bytes per domain; they exist only if a domain budget is set.
    """

    def __init__(self) -> None:
        self._tallies: dict[str, DomainTally] = {}

    def attach(self, host: Host) -> None:
        """Attach the tally of its domain to a host."""
        name = registrable_domain(host.name.rpartition(":")[0])
        tally = self._tallies.get(name)
        if tally is None:
            tally = self._tallies[name] = DomainTally(name)
        host.domain = tally

    def restore(self, host: Host) -> None:
        """Add the counts of a host's record. Call once for each host."""
        self.attach(host)
        assert host.domain is not None
        host.domain.fetched += host.tally.fetched


KEPT_MAX = 100_000  # maximum number of hosts; beyond it, the oldest is evicted, and judged again when needed
_FOR_EVER = float("inf")


class RefusedHosts:
    """The hosts that a run refuses, because a rule of ours forbids them or their robots.txt could not be fetched.

    A host whose name or port is forbidden by a rule stays refused for the whole run. A name that resolves to a private
    address is refused for a limited time, because the next lookup may return another address. Nothing is stored: the
    next run may permit these hosts. ``rule`` judges a ``host:port`` by its text; it must be fast.
    """

    def __init__(self) -> None:
        self.rule: Callable[[str], Refusal | None] = _none
        self.hosts: dict[str, tuple[HostClosed, float]] = {}  # reason and end of the refusal; most crawls refuse none

    def judge(self, name: str) -> None:
        """Remember the host if the rule refuses it."""
        refusal = self.rule(name)
        if refusal is not None and name not in self.hosts:
            self.remember(name, refusal)

    def remember(self, name: str, refusal: Refusal, until: float = _FOR_EVER) -> None:
        """Send no requests to the host until a time, in seconds since 1970."""
        self.close(name, HostClosed(refusal.rule.value, refusal.words, refusal=refusal), until)

    def close(self, name: str, why: HostClosed, until: float) -> None:
        """Refuse the host for any reason until a time, in seconds since 1970."""
        if len(self.hosts) >= KEPT_MAX:
            del self.hosts[next(iter(self.hosts))]
        self.hosts[name] = why, until

    def closure(self, name: str, now: float) -> HostClosed | None:
        """Return the reason why the host gets no requests, or None if it may get them."""
        found = self.hosts.get(name)
        if found is None:
            return None
        if found[1] <= now:
            del self.hosts[name]
            return None
        return found[0]


def _none(name: str) -> Refusal | None:
    return None

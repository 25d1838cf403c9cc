"""Hosts that get no more requests.

They are retired, blocked by the user, refused by one of our rules, over their budget, or their robots.txt could not be
fetched.

The URLs of a closed host are still handed out, so that each ends as a record with the reason, without a request. The
same applies to URLs admitted later.
"""

from __future__ import annotations

from msgspec import Struct

from crawler.base.settings.parts import BudgetSettings
from crawler.frontier.host import DomainTally, Host
from crawler.frontier.request_outcome import FailureClass
from crawler.url.refusal.own_rules import Refusal, Rule


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
        return _used_up(Rule.HOST_PAGES, f"{tally.fetched} of {budget.host_pages} responses are taken")
    if budget.host_bytes is not None and tally.size_read >= budget.host_bytes:
        return _used_up(Rule.HOST_BYTES, f"{tally.size_read} of {budget.host_bytes} bytes are taken")
    return None if host.domain is None else _closure_of_domain(host.domain, budget)


def _used_up(rule: Rule, words: str) -> HostClosed:
    """Return the closure for a used-up budget. The rule names its setting, such as ``budget.host_pages``."""
    table, _, setting = rule.value.partition(".")
    return HostClosed(table, f"{setting}: {words}", refusal=Refusal.of_setting(rule, words))


def _closure_of_domain(domain: DomainTally, budget: BudgetSettings) -> HostClosed | None:
    if budget.domain_pages is None or domain.fetched < budget.domain_pages:
        return None
    words = f"{domain.fetched} of {budget.domain_pages} responses are taken from {domain.name}"
    return _used_up(Rule.DOMAIN_PAGES, words)


def retired_words(host: Host) -> str:
    """Return a text that explains why the host was retired."""
    times, snoozes, backoff, last, *_ = host.failures
    if last is FailureClass.THROTTLED:
        return f"its host answered 429 or 503 {backoff} times in a row"
    word = "no answer" if last is None else last.word
    return f"its host gave no answer {times} times in a row, {snoozes} snoozes among them; the last: {word}"


def pages_left(host: Host, budget: BudgetSettings) -> int | None:
    """Return how many more requests may start, as each request in flight may become a page; None if unlimited."""
    return None if budget.host_pages is None else max(0, budget.host_pages - host.tally.fetched - host.leased)


def in_flight_may_use_up_domain(host: Host, budget: BudgetSettings) -> bool:
    """Return True if the requests in flight to the host's domain may use up its page budget."""
    domain, most = host.domain, budget.domain_pages
    return domain is not None and most is not None and domain.fetched + domain.leased >= most

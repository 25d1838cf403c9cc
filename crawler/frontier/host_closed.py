"""Hosts that get no more requests: retired, blocked by the user, refused by a rule of ours, over their budget, or
without a robots.txt that could be had.

A closed host's URLs are still handed out, so that each ends as a record with the reason, without a request. The same
holds for URLs that are admitted later.
"""

from __future__ import annotations

from msgspec import Struct

from crawler.base.settings.parts import BudgetSettings
from crawler.frontier.host import DomainTally, Host
from crawler.frontier.request_outcome import FailureClass
from crawler.url.refusal.own_rules import Refusal, Rule


class HostClosed(Struct, frozen=True):
    """Why requests to a host have stopped. ``failed``: its URLs end as failed; otherwise they end as excluded.
    ``refusal``: the rule of ours that is the reason, if one is."""

    rule: str
    words: str
    failed: bool = False
    refusal: Refusal | None = None

    @property
    def budget(self) -> bool:
        """Whether the host has used up its budget. Its robots.txt may still be fetched."""
        return self.rule == "budget"

    @property
    def may_ask_robots(self) -> bool:
        """Whether its robots.txt may still be fetched for another host, whose own redirects to it."""
        return self.budget or (self.refusal is None and self.rule.startswith("robots.txt"))

    @property
    def error(self) -> str:
        """The ``error`` field of the records."""
        return f"{self.rule}: {self.words}"


_BLOCKED = HostClosed("blocked", "its host was blocked by hand")


def closure(host: Host, budget: BudgetSettings) -> HostClosed | None:
    """Why requests to the host have stopped; None for an open host."""
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
    """The rule is that of a budget, such as ``budget.host_pages``."""
    table, _, setting = rule.value.partition(".")
    return HostClosed(table, f"{setting}: {words}", refusal=Refusal.of_setting(rule, words))


def is_used_up(fetched: int, size_read: int, budget: BudgetSettings) -> bool:
    """Whether what was taken from a host is all that its own budget allows."""
    return (budget.host_pages is not None and fetched >= budget.host_pages) or (
        budget.host_bytes is not None and size_read >= budget.host_bytes
    )


def _closure_of_domain(domain: DomainTally, budget: BudgetSettings) -> HostClosed | None:
    if budget.domain_pages is None or domain.fetched < budget.domain_pages:
        return None
    words = f"{domain.fetched} of {budget.domain_pages} responses are taken from {domain.name}"
    return _used_up(Rule.DOMAIN_PAGES, words)


def retired_words(host: Host) -> str:
    """Why the host was retired."""
    times, snoozes, backoff, last, *_ = host.failures
    if last is FailureClass.THROTTLED:
        return f"its host answered 429 or 503 {backoff} times in a row"
    word = "no answer" if last is None else last.word
    return f"its host gave no answer {times} times in a row, {snoozes} snoozes among them; the last: {word}"


def pages_left(host: Host, budget: BudgetSettings) -> int | None:
    """How many more requests may begin; each request in flight may become a page. None: no limit."""
    return None if budget.host_pages is None else max(0, budget.host_pages - host.tally.fetched - host.leased)


def in_flight_may_use_up_domain(host: Host, budget: BudgetSettings) -> bool:
    """Whether the requests that are in flight to the hosts of the host's domain may use up its budget of pages."""
    domain, most = host.domain, budget.domain_pages
    return domain is not None and most is not None and domain.fetched + domain.leased >= most

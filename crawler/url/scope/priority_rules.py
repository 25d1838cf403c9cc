"""The priority class of a URL: the first matching rule decides; if none matches, the crawl's order does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from crawler.base.settings.parts import PriorityRule, Settings
from crawler.url.scope.patterns import Pattern
from crawler.url.scope.url_sites import UrlSites

LISTED_PRIORITY = 0.5  # priority of a URL whose sitemap gives none (https://www.sitemaps.org/protocol.html)


class Rule:
    """One rule. Raises PatternError for a pattern that no URL can match."""

    def __init__(self, stated: PriorityRule) -> None:
        self.stated = stated
        self.pattern = None if stated.pattern is None else Pattern(stated.pattern)

    def matches(self, href: str, depth: int, seed: bool, sitemap_priority: float | None) -> bool:
        """Return True if the rule matches. ``sitemap_priority`` is None for a URL that no sitemap lists."""
        stated = self.stated
        if stated.seed is not None and stated.seed != seed:
            return False
        if not _within(depth, stated.min_depth, stated.max_depth):
            return False
        if self.by_sitemap and (
            sitemap_priority is None
            or not _within(sitemap_priority, stated.min_sitemap_priority, stated.max_sitemap_priority)
        ):
            return False
        return self.pattern is None or self.pattern.matches(href)

    @property
    def by_sitemap(self) -> bool:
        """True if the rule matches only URLs of sitemaps."""
        return self.stated.min_sitemap_priority is not None or self.stated.max_sitemap_priority is not None

    def covers(self, other: Rule) -> bool:
        """Return True if this rule matches every URL that ``other`` matches. (False may also mean: unknown.)"""
        mine, its = self.stated, other.stated
        if mine.seed is not None and mine.seed != its.seed:
            return False
        if self.pattern is not None and (other.pattern is None or not self.pattern.covers(other.pattern)):
            return False
        if self.by_sitemap and not other.by_sitemap:
            return False
        ranges = (
            (mine.min_depth, mine.max_depth, its.min_depth, its.max_depth),
            (
                mine.min_sitemap_priority,
                mine.max_sitemap_priority,
                its.min_sitemap_priority,
                its.max_sitemap_priority,
            ),
        )
        return all(
            (low is None or (its_low is not None and low <= its_low))
            and (high is None or (its_high is not None and high >= its_high))
            for low, high, its_low, its_high in ranges
        )

    def words(self) -> Iterator[str]:
        """Yield the conditions as text, one by one."""
        stated = self.stated
        if stated.pattern is not None:
            yield f"like {stated.pattern}"
        if stated.seed is not None:
            yield "seeds" if stated.seed else "no seeds"
        yield from _range_words("depth", stated.min_depth, stated.max_depth)
        yield from _range_words("sitemap priority", stated.min_sitemap_priority, stated.max_sitemap_priority)


class PriorityRules:
    """All rules, in order."""

    def __init__(
        self,
        rules: Iterable[PriorityRule],
        sites: UrlSites | None = None,
        places: Mapping[tuple[str | int, ...], str] | None = None,
    ) -> None:
        """``places``: where settings come from, see ``Settings``."""
        self._rules = tuple(map(Rule, rules))
        self._sites = sites
        self._places = places or {}

    @classmethod
    def of_settings(cls, settings: Settings) -> PriorityRules:
        return cls(settings.priority.rules, UrlSites.of_settings(settings), settings.places)

    def of(self, href: str, depth: int, *, seed: bool, sitemap_priority: float | None = None) -> int | None:
        """Return the class given by the URL's ``[[site]]``, or by the first matching rule; None if there is neither."""
        if self._sites is not None and (own := self._sites.of_url(href).priority) is not None:
            return own
        for rule in self._rules:
            if rule.matches(href, depth, seed, sitemap_priority):
                return rule.stated.class_
        return None

    def explain(self, href: str, depth: int, *, seed: bool) -> str:
        """For a URL that no sitemap lists, return one sentence that names the deciding rule."""
        own = None if self._sites is None else self._sites.of_url(href)
        if own is not None and own.priority is not None:
            table = own.places["priority"]
            place = self._places.get(("site", table, "priority"))
            return f"Class {own.priority} by [[site]] {table + 1}" + (f" ({place})." if place else ".")
        for number, rule in enumerate(self._rules, 1):
            if rule.matches(href, depth, seed, None):
                asked = ", ".join(rule.words()) or "anything"
                return f"Class {rule.stated.class_} by priority rule {number} ({asked})."
        apart = ", apart from those about sitemaps" if any(rule.by_sitemap for rule in self._rules) else ""
        return f"Class by the crawl's order: no priority rule matches{apart}."


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _range_words(name: str, low: float | None, high: float | None) -> Iterator[str]:
    if low is not None and high is not None:
        yield f"{name} {low} to {high}"
    elif low is not None:
        yield f"{name} {low} or more"
    elif high is not None:
        yield f"{name} {high} or less"

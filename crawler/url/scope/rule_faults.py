"""Finds rules that cannot work before the crawl starts, and locates them in the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from crawler.base.settings.parts import OutputSettings, ScopeSettings, Settings, SitesSettings
from crawler.url.scope.patterns import Pattern, PatternError
from crawler.url.scope.priority_rules import Rule
from crawler.url.scope.url_sites import site_patterns


class RuleFault(Struct, frozen=True):
    """A fault, described for the user, and its place: table, key, number in the list, ..."""

    place: tuple[str | int, ...]
    text: str


def rule_faults(settings: Settings) -> Iterator[RuleFault]:
    """Yield patterns that no URL can match, and rules that never decide because another rule covers them."""
    yield from _scope_faults(settings.scope)
    yield from _priority_faults(settings)
    for place, name, text in (*_site_texts(settings.site), *_output_texts(settings.output)):
        pattern = _pattern(text)
        if isinstance(pattern, str):
            yield RuleFault(place, f"{name} {text!r}: {pattern}")


def _scope_faults(settings: ScopeSettings) -> Iterator[RuleFault]:
    excludes: list[Pattern] = []
    for number, text in enumerate(settings.exclude):
        place = ("scope", "exclude", number)
        pattern = _pattern(text)
        if isinstance(pattern, str):
            yield RuleFault(place, f"scope.exclude {text!r}: {pattern}")
            continue
        if pattern.covers(_EVERYTHING):
            yield RuleFault(place, f"scope.exclude {text!r} matches every URL: no links would be followed")
        excludes.append(pattern)
    for number, text in enumerate(settings.include):
        place = ("scope", "include", number)
        pattern = _pattern(text)
        if isinstance(pattern, str):
            yield RuleFault(place, f"scope.include {text!r}: {pattern}")
            continue
        by = _covering(excludes, pattern)
        if by is not None:
            yield RuleFault(place, f"scope.include {text!r} can never match: scope.exclude {by.text!r} covers it")


def _priority_faults(settings: Settings) -> Iterator[RuleFault]:
    excludes = [pattern for text in settings.scope.exclude if isinstance(pattern := _pattern(text), Pattern)]
    before: list[tuple[int, Rule]] = []
    for number, stated in enumerate(settings.priority.rules):
        place: tuple[str | int, ...] = ("priority", number)
        try:
            rule = Rule(stated)
        except PatternError as error:
            yield RuleFault((*place, "pattern"), f"priority rule {number + 1}, pattern {stated.pattern!r}: {error}")
            continue
        key, why = _empty(rule, settings)
        if why is not None:
            yield RuleFault((*place, key), f"priority rule {number + 1} can never match: {why}")
            continue
        if stated.seed is False or stated.min_depth or rule.by_sitemap:
            why = _excluded(rule, excludes)
        if why is not None:
            yield RuleFault((*place, "pattern"), f"priority rule {number + 1} can never match: {why}")
            continue
        by = next((other for other, earlier in before if earlier.covers(rule)), None)
        if by is not None:
            yield RuleFault(place, f"priority rule {number + 1} can never match: rule {by + 1} covers it")
        before.append((number, rule))


def _empty(rule: Rule, settings: Settings) -> tuple[str, str | None]:
    """Return the key that prevents all URLs from matching, and the reason; None if some URL may match."""
    stated = rule.stated
    least = stated.min_depth or 0
    if stated.max_depth is not None and least > stated.max_depth:
        return "min_depth", f"min_depth {least} is above max_depth {stated.max_depth}"
    if settings.crawl.max_depth is not None and least > settings.crawl.max_depth:
        return "min_depth", f"min_depth {least} is above crawl.max_depth {settings.crawl.max_depth}"
    if stated.seed and least:
        return "min_depth", "seeds are at depth 0"
    if rule.by_sitemap:
        low, high = stated.min_sitemap_priority or 0.0, stated.max_sitemap_priority
        key = "min_sitemap_priority" if stated.min_sitemap_priority is not None else "max_sitemap_priority"
        if high is not None and low > high:
            return key, f"min_sitemap_priority {low} is above max_sitemap_priority {high}"
        if not settings.links.sitemaps:
            return key, "links.sitemaps is off"
        if stated.seed:
            return key, "seeds are not listed by sitemaps"
        if stated.max_depth == 0 or settings.crawl.max_depth == 0:
            return "max_depth" if stated.max_depth == 0 else key, "URLs in sitemaps are at depth 1 or more"
    return "", None


def _excluded(rule: Rule, excludes: Sequence[Pattern]) -> str | None:
    """If an exclude pattern covers the rule's pattern, so that no link matching the rule can be admitted, return a text
    that says so; otherwise None."""
    by = None if rule.pattern is None else _covering(excludes, rule.pattern)
    return None if by is None else f"scope.exclude {by.text!r} covers it"


def _site_texts(settings: SitesSettings) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    for number, table in enumerate(settings.tables):
        for place, text in site_patterns(table):
            yield ("site", number, *place), f"site.{place[0]}", text


def _output_texts(settings: OutputSettings) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    for key in ("store_include", "store_exclude"):
        for number, text in enumerate(getattr(settings, key)):
            yield ("output", key, number), f"output.{key}", text


_EVERYTHING = Pattern("*")


def _pattern(text: str) -> Pattern | str:
    try:
        return Pattern(text)
    except PatternError as error:
        return str(error)


def _covering(patterns: Sequence[Pattern], pattern: Pattern) -> Pattern | None:
    """Return the first of the patterns that covers ``pattern``; None if none does."""
    return next((one for one in patterns if one.covers(pattern)), None)

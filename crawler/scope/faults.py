"""Rules that cannot do what was asked: found before the crawl begins, named by their place in the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crawler.scope.patterns import Pattern, PatternError
from crawler.settings import ScopeSettings, Settings


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, in words for the user, and where: table, key, number in the list, ..."""

    place: tuple[str | int, ...]
    text: str


def rule_faults(settings: Settings) -> Iterator[Fault]:
    """Patterns that no URL can match, and rules that never decide because of another."""
    yield from _scope_faults(settings.scope)


def _scope_faults(settings: ScopeSettings) -> Iterator[Fault]:
    excludes: list[Pattern] = []
    for number, text in enumerate(settings.exclude):
        place = ("scope", "exclude", number)
        pattern = _pattern(text)
        if isinstance(pattern, str):
            yield Fault(place, f"scope.exclude {text!r}: {pattern}")
            continue
        if pattern.covers(_EVERYTHING):
            yield Fault(place, f"scope.exclude {text!r} matches every URL: no link would be followed")
        excludes.append(pattern)
    for number, text in enumerate(settings.include):
        place = ("scope", "include", number)
        pattern = _pattern(text)
        if isinstance(pattern, str):
            yield Fault(place, f"scope.include {text!r}: {pattern}")
            continue
        by = _covering(excludes, pattern)
        if by is not None:
            yield Fault(place, f"scope.include {text!r} can never match: scope.exclude {by.text!r} takes all it would")


_EVERYTHING = Pattern("*")


def _pattern(text: str) -> Pattern | str:
    try:
        return Pattern(text)
    except PatternError as error:
        return str(error)


def _covering(patterns: Sequence[Pattern], pattern: Pattern) -> Pattern | None:
    """The first that matches whatever ``pattern`` does."""
    return next((one for one in patterns if one.covers(pattern)), None)

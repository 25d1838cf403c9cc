"""Formats numbers for people, and enum values as sentences. All texts for people use these functions; JSON and metrics
contain plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Context
from enum import StrEnum
from typing import Self

_TWO_DIGITS = Context(2, ROUND_HALF_UP)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_PERCENT = 0.01  # probabilities of at least this are shown as a percentage
_SMALLEST = 1e-15  # lower probabilities do not matter in any crawl
_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def count(value: float | None) -> str:
    """Return a count with thousands separators; a dash for None."""
    return "-" if value is None else f"{round(value):,}"


def noun(value: float | None, singular: str, plural: str | None = None) -> str:
    """Return the noun that goes with a count. Unless ``plural`` is given, the plural is the singular with an s."""
    return singular if value is not None and round(value) == 1 else plural or f"{singular}s"


def counted(value: float | None, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 host``, ``2 hosts``."""
    return f"{count(value)} {noun(value, singular, plural)}"


def listed(values: Iterable[object]) -> str:
    """Return the values as an enumeration: ``2``, ``2 and 3``, ``2, 3 and 5``."""
    *others, last = map(str, values)
    return f"{', '.join(others)} and {last}" if others else last


def probability(value: float | None) -> str:
    """Return a probability with at most two significant digits; a dash for None.

    Examples: 12%, ``1 in 470``, ``1 in 330 million``, ``practically 0``. The page formats probabilities in the same way
    in ``format.js``.
    """
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if value < _SMALLEST:
        return "practically 0"
    if value >= _PERCENT:
        return "100%" if value >= 1 else f"{min(99.0, _two_digits(100 * value)):g}%"
    often = _two_digits(1 / value)
    for unit, name in _LARGE:
        if often >= unit:
            return f"1 in {often / unit:,.12g} {name}"
    return f"1 in {often:,.0f}"


def _two_digits(value: float) -> float:
    """Round to two significant digits, halves up, as JavaScript does."""
    return float(_TWO_DIGITS.create_decimal(value))


def share(value: float) -> str:
    """Return a share as a percentage, as in ``less than 1%`` or 2%; 100% only if the share is the whole."""
    if value <= 0:
        return "0%"
    if value < 0.01:
        return "less than 1%"
    return f"{min(value, 0.99):.0%}" if value < 1 else f"{value:.0%}"


def per_second(value: float) -> str:
    """Return a rate, with one decimal if the rate is small."""
    return f"{value:.1f}" if value < 100 else f"{round(value):,}"


def duration(seconds: float) -> str:
    """Return a duration in two units, or in whole days from two days on."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    days, hours, minutes, rest = whole // 86_400, whole // 3_600, whole // 60 % 60, whole % 60
    if days >= 2:
        return f"{days:,} days"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(value: float | None) -> str:
    """Return bytes in the largest unit that fits; a dash for None."""
    if value is None:
        return "-"
    unit = 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{value:.0f} B"


class Worded(StrEnum):
    """Enum values that appear in JSON as names, and that each have a sentence for users. The sentence may contain
    placeholders for details and for the key of a row; ``{count:row}`` becomes "1 row" or "2 rows"."""

    words: str

    def __new__(cls, name: str, words: str = "{error}") -> Self:
        made = str.__new__(cls, name)
        made._value_, made.words = name, words
        return made

    def filled(self, details: Mapping[str, object]) -> str:
        """Return the sentence with these details."""
        known = {name: "missing" if value is None else value for name, value in details.items()}
        return self.words.format(**{k: _Quantity(v) if isinstance(v, int) else v for k, v in known.items()})


class _Quantity(int):
    """A number that can be formatted together with a noun, if the format contains one."""

    def __format__(self, noun: str) -> str:
        return counted(self, noun) if noun else str(int(self))

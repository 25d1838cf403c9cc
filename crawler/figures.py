"""Numbers as people read them. Every text for people takes them from here; JSON and metrics have the bare numbers."""

from __future__ import annotations

import math

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = 1e-6  # from here on a probability is a decimal fraction
_SMALLEST = 1e-15  # below, no crawl is long enough to notice
_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_SURE = 0.9999


def count(value: float | None) -> str:
    """Return a count with thousands separators; a dash for None."""
    return "-" if value is None else f"{round(value):,}"


def noun(value: float | None, singular: str, plural: str | None = None) -> str:
    """Return the noun that goes with a count. ``plural`` is the singular with an s unless given."""
    return singular if value is not None and round(value) == 1 else plural or f"{singular}s"


def counted(value: float | None, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 host``, ``2 hosts``."""
    return f"{count(value)} {noun(value, singular, plural)}"


def probability(value: float | None) -> str:
    """Return a probability with at most three digits that count: 0.0021, 0.000059, ``1 in 333 million``, ``practically
    0``; a dash for None."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if value < _SMALLEST:
        return "practically 0"
    if value < _DECIMAL:
        return _one_in(1 / value)
    if value < 0.0001:  # where Python changes to exponents
        return f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0")
    return f"{value:.2g}" if value <= _SURE or value == 1 else "nearly 1"


def _one_in(often: float) -> str:
    for unit, name in _LARGE:
        if often >= 0.995 * unit:
            return f"1 in {round(often / unit, 1 if often < 9.95 * unit else 0):g} {name}"
    return f"1 in {often:,.0f}"


def share(value: float) -> str:
    """Return a share of a whole as a percentage: ``less than 1%``, 2%, 100% for all of it alone."""
    if value <= 0:
        return "0%"
    if value < 0.01:
        return "less than 1%"
    return f"{min(value, 0.99):.0%}" if value < 1 else f"{value:.0%}"


def per_second(value: float) -> str:
    """Return a rate, to a tenth if it is small."""
    return f"{value:.1f}" if value < 100 else f"{round(value):,}"


def duration(seconds: float) -> str:
    """Return a time as people say it, in two units, or in whole days from two days on."""
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

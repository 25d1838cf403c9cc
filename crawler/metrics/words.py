"""Numbers of a crawl in words, the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def count(value: float | None) -> str:
    """A count with thousands apart; a dash when there is none."""
    return "-" if value is None else f"{round(value):,}"


def probability(value: float | None) -> str:
    """Two significant digits; 0.0021 as it stands, smaller ones as 2.1e-5; a dash when there is none."""
    if value is None:
        return "-"
    if value == 0 or value >= 0.0001:
        return f"{value:.2g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def trust(stats: Mapping[str, Any]) -> str:
    """How far the seen-set can be trusted, in one sentence."""
    seen = stats.get("seen")
    if not seen:
        return "There is no seen-set yet."
    expected = seen.get("expected_urls_skipped")
    if expected is None or seen.get("fpp_bound") == 0:
        return "The seen-set is exact: no URL is skipped by mistake."
    new = (stats.get("urls_admitted") or 0) + expected
    if new < 1:
        return "No URL has been seen yet."
    if expected >= 0.95:
        text = f"Of {count(new)} new URLs about {count(expected)} were taken for seen and skipped by mistake."
    else:
        few = probability(expected) if expected >= 0.001 else "fewer than 0.001"
        text = f"Of {count(new)} new URLs probably none was skipped by mistake ({few} expected)."
    estimated, target = seen.get("fpp_estimated"), seen.get("fpp_target")
    if estimated is not None and target is not None and estimated > target:
        text += f" The filter is worse than asked for: {probability(estimated)}, not {probability(target)}."
    return text

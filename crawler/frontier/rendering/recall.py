"""Estimates the *recall* of rendering from audits: the share of pages that need a browser and are rendered.

A page *needs* the browser if rendering it adds links or text to the HTML as it was sent. A page that cannot be rendered
does not need it. The recall is F / (F + M): among the visited pages with this need, F were rendered, for any reason,
and M were not. F is counted. M is estimated.

Each page that would not be rendered is drawn independently with a known chance and then rendered as an *audit*. A page
drawn with chance c that turns out to need the browser is a *hit*. It represents (1 - c) / c pages that were not drawn:
the sum of these weights over all hits estimates M without bias (Horvitz and Thompson, 1952). The chance may depend on
everything learned before, because it never depends on the page itself.

There are few chances, ``CHANCES``, and the number of hits at each is approximately Poisson. The confidence interval of
M is therefore that of Fay and Feuer (1997) for a weighted sum of Poisson counts, which is conservative and equals
Garwood's (1936) if all weights are the same. It also holds if a hit ends the misses of its kind, because pages of that
kind are rendered from then on: the hits are then given, the misses follow a gamma distribution, and the interval
contains both of its quantiles.

All inputs are counts. They are summed over the partitions of a crawl before the estimate is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

CHANCES = (1.0, 0.25, 0.05, 0.01)  # chances of an audit
AT_MOST = (20, 60, 200)  # each chance but the last applies up to this number of pages that would not be rendered
NEW_MOST = 0.05  # limit on the certain audits of new shapes, as a share of the pages that would not be rendered
_DECIDED, _GAINED, _LEVELS, _EACH = 0, 1, 2, 3
SIZE = _LEVELS + _EACH * len(CHANCES)
_Z = 1.959964  # a normal variable lies between -z and z with probability 0.95


class Recall(NamedTuple):
    """The recall with its 95% interval; None if no known page needs the browser.

    ``pages`` pages were visited, and ``rendered`` of them were rendered, ``audits`` of these as audits; ``hits`` of the
    audits found a page that needs the browser. ``missed`` is the estimated number of further pages that need the
    browser.
    """

    value: float | None
    low: float | None
    high: float | None
    pages: int
    rendered: int
    audits: int
    hits: int
    missed: float


def pages_by_level(counts: Sequence[int]) -> list[int]:
    """Return for each of ``CHANCES`` how many pages that would not be rendered were drawn with it."""
    return pooled([counts])[_LEVELS::_EACH]


def level_now(pages: Sequence[int], *, is_new: bool) -> int:
    """Return the index in ``CHANCES`` for the next page that would not be rendered, after these ``pages_by_level``.

    ``is_new`` is True if little is known about pages of its shape, so that an audit teaches more.
    """
    if is_new and pages[0] < AT_MOST[0] + NEW_MOST * sum(pages):
        return 0
    return next((level for level, most in enumerate(AT_MOST) if sum(pages) < most), len(AT_MOST))


def count(counts: list[int], level: int | None, *, rendered: bool, gained: bool) -> None:
    """Count a page. ``level`` is the level of its audit chance, or None if it was to be rendered anyway."""
    counts += [0] * (SIZE - len(counts))
    if level is None:
        counts[_DECIDED] += 1
        counts[_GAINED] += gained
    else:
        start = _LEVELS + _EACH * level
        for place, number in enumerate((1, rendered, gained), start):
            counts[place] += number


def pooled(several: Sequence[Sequence[int]]) -> list[int]:
    """Return the sums of the counts of several partitions."""
    return [sum(each[place] if place < len(each) else 0 for each in several) for place in range(SIZE)]


def estimated(counts: Sequence[int]) -> Recall | None:
    """Return the recall estimated from these counts, or None if all are zero."""
    if not any(counts):
        return None
    levels = [counts[at : at + _EACH] for at in range(_LEVELS, SIZE, _EACH)]
    pages, audits, hits = (sum(each) for each in zip(*levels, strict=True))
    missed, variance, largest = 0.0, 0.0, 0.0
    for chance, (of_level, _, found) in zip(CHANCES, levels, strict=True):
        weight = (1 - chance) / chance
        missed += weight * found
        variance += weight**2 * found
        largest = max(largest, weight if of_level else 0.0)
    unknown = pages - audits
    low = _gamma(missed**2 / variance, -_Z) * variance / missed if missed else 0.0
    more, wider = missed + largest, variance + largest**2
    high = min(unknown, _gamma(more**2 / wider, _Z) * wider / more) if largest else 0.0
    decided, needed = counts[_DECIDED], counts[_GAINED] + hits
    counted = (pages + decided, decided + audits, audits, hits, missed)
    if not needed:
        return Recall(None, None, None, *counted)
    value, least, most = (needed / (needed + each) for each in (missed, max(missed, high), min(low, unknown)))
    return Recall(value, least, most, *counted)


def recall_figures(counts: Sequence[int]) -> dict[str, Any] | None:
    """Return the recall for statistics, with the counts needed to pool several partitions."""
    recall = estimated(counts)
    return None if recall is None else {**recall._asdict(), "counts": list(counts)}


def pooled_figures(several: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the recall for statistics, pooled over several partitions."""
    return recall_figures(pooled([each["counts"] for each in several]))


def _gamma(shape: float, z: float) -> float:
    """Return an approximate quantile of the gamma distribution (Wilson and Hilferty, 1931).

    The error is within 0.6% for shapes of at least 1 at the upper end. At the lower end the result is below the true
    quantile.
    """
    return float(shape * max(0.0, 1 - 1 / (9 * shape) + z / (3 * sqrt(shape))) ** 3)

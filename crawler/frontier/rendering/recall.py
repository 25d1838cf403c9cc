"""How many of the pages that need a browser it renders: the *recall*, estimated from audits.

A page *needs* the browser if rendering it finds links or text that the page lacks as it came; one that cannot be
rendered does not. The recall is the share of the visited pages with such a need that were rendered, for whatever
reason: F / (F + M), where F of them were rendered and M were not. F is counted. M is estimated.

Each page that would not be rendered is drawn by itself with a known chance, and then rendered as an *audit*. A page
that has the chance c, and is drawn, and turns out to need the browser, a *hit*, stands for (1 - c) / c pages that were
not drawn: the sum of these weights over all hits estimates M without bias (Horvitz and Thompson, 1952). The chance may
depend on all that was learned before, as it never depends on the page itself.

There are few chances, ``CHANCES``, and the hits with each are about Poisson. So M has the interval of Fay and Feuer
(1997) for a weighted sum of Poisson counts, which is conservative, and Garwood's (1936) if all weights are the same.
It also holds if a hit ends the misses of its kind, because such pages are rendered from then on: then the hits are
given and the misses follow a gamma distribution, of which the interval has both quantiles.

All of this is made of counts that are added up over the partitions of a crawl, and then estimated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

CHANCES = (1.0, 0.25, 0.05, 0.01)  # of an audit
AT_MOST = (20, 60, 400)  # pages that would not be rendered, up to which the chance is another one than the last
# So many certain audits of new shapes, for each of such pages and for each hit: what they find has to be paid for.
NEW_MOST = (0.0125, 10)
_DECIDED, _GAINED, _LEVELS, _EACH = 0, 1, 2, 3
SIZE = _LEVELS + _EACH * len(CHANCES)
_Z = 1.959964  # a normal variable is in -z to z with probability 0.95


class Recall(NamedTuple):
    """The recall with its interval of 95%; None if no page is known that needs the browser. ``pages`` were visited,
    ``rendered`` of them rendered, with ``audits``; ``hits`` of these were needed. ``missed``: how many more are, by
    estimate."""

    value: float | None
    low: float | None
    high: float | None
    pages: int
    rendered: int
    audits: int
    hits: int
    missed: float


def level_now(counts: Sequence[int], *, is_new: bool) -> int:
    """The position in ``CHANCES`` for the next page that would not be rendered. ``is_new``: little is known about such
    pages, so that an audit of one teaches more."""
    pages, hits = (sum(counts[start::_EACH]) for start in (_LEVELS, _LEVELS + 2))
    if is_new and sum(counts[_LEVELS : _LEVELS + 1]) < AT_MOST[0] + NEW_MOST[0] * pages + NEW_MOST[1] * hits:
        return 0
    return next((level for level, most in enumerate(AT_MOST) if pages < most), len(AT_MOST))


def count(counts: list[int], level: int | None, *, rendered: bool, gained: bool) -> None:
    """Count a page; ``level`` is that of its chance of an audit, None if it was to be rendered anyway."""
    counts += [0] * (SIZE - len(counts))
    if level is None:
        counts[_DECIDED] += 1
        counts[_GAINED] += gained
    else:
        start = _LEVELS + _EACH * level
        for place, number in enumerate((1, rendered, gained), start):
            counts[place] += number


def pooled(several: Sequence[Sequence[int]]) -> list[int]:
    """The counts of several partitions, together."""
    return [sum(each[place] if place < len(each) else 0 for each in several) for place in range(SIZE)]


def estimated(counts: Sequence[int]) -> Recall | None:
    """The recall by these counts; None if there are none."""
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
    """The recall for statistics, with the counts, of which those of several partitions are pooled."""
    recall = estimated(counts)
    return None if recall is None else {**recall._asdict(), "counts": list(counts)}


def pooled_figures(several: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The same for several partitions."""
    return recall_figures(pooled([each["counts"] for each in several]))


def _gamma(shape: float, z: float) -> float:
    """A quantile of the gamma distribution (Wilson and Hilferty, 1931), within 0.6% from 1 up at the higher end, and
    below the right one at the lower end."""
    return float(shape * max(0.0, 1 - 1 / (9 * shape) + z / (3 * sqrt(shape))) ** 3)

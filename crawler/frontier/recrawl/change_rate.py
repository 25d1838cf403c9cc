"""Estimates how often a page changes from its visits.

Changes are modelled as a Poisson process with an unknown rate (Cho and Garcia-Molina 2003, "Estimating frequency of
change"). A visit after ``elapsed`` seconds shows whether the page has changed, not how often. The rate of each page is
estimated as a gamma distribution with two parameters:

    shape       roughly the number of changes found
    exposure    roughly the time observed, in seconds

A visit without a change adds its seconds to the exposure, which is exact. After a visit with a change the posterior is
not a gamma distribution; it is approximated by the gamma distribution with the same mean and variance. Unlike the ratio
of changes to visits, this estimate is not biased by irregular visits or by several changes between two visits, and the
rate of a page that never changed falls with time but never reaches 0. Old evidence fades, so the estimate adapts when a
page's behaviour changes.

Pure: no clock, no store.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

SHAPE = 0.5  # the prior; broad, because the rates of pages differ by orders of magnitude
_FADE = 0.95  # share of the evidence kept at each visit; the prior replaces the rest
_SHORTEST = 1e-3  # seconds
_GUESSES = {1: 3_600.0, 2: 86_400.0, 3: 2_592_000.0}  # seconds between two changes, by the frequency that a site states
_SWAY = 3.0  # limit on the factor by which the site's estimate scales the prior


class ChangeRate(NamedTuple):
    """Gamma distribution of the rate at which a page changes."""

    shape: float
    exposure: float

    @property
    def mean(self) -> float:
        """Mean rate, in changes per second."""
        return self.shape / self.exposure

    def unchanged(self, seconds: float) -> float:
        """Return the probability that the page is unchanged ``seconds`` after its last visit."""
        return math.exp(-self.shape * math.log1p(seconds / self.exposure))


@lru_cache(maxsize=64)
def first_guess(interval: float, frequency: int = 0) -> ChangeRate:
    """Return the prior for a page whose second visit is due after ``interval`` seconds.

    ``frequency`` is the site's estimate: 1 (hourly) to 3 (rarely), or 0 if it gives none.
    """
    if frequency:
        interval *= min(max(math.sqrt(_GUESSES[frequency] / interval), 1 / _SWAY), _SWAY)
    return ChangeRate(SHAPE, SHAPE * interval)


def after_visit(known: ChangeRate, elapsed: float, *, changed: bool, first: ChangeRate) -> ChangeRate:
    """Return the distribution updated by a visit ``elapsed`` seconds after the previous one."""
    elapsed = max(elapsed, _SHORTEST)
    shape, exposure = _faded(known, first)
    if not changed:
        return ChangeRate(shape, exposure + elapsed)
    # Mean and second moment of the rate, given at least one change. Each is a difference of two terms; ``expm1`` avoids
    # cancellation.
    log = math.log1p(elapsed / exposure)
    some = -math.expm1(-shape * log)
    mean = shape / exposure * -math.expm1(-(shape + 1) * log) / some
    second = shape * (shape + 1) / exposure**2 * -math.expm1(-(shape + 2) * log) / some
    variance = max(second - mean * mean, 1e-9 * mean * mean)
    return ChangeRate(mean * mean / variance, mean / variance)


def after_signal(known: ChangeRate, elapsed: float, *, changed: bool, first: ChangeRate) -> ChangeRate:
    """Return the distribution updated by a visit made because the site announced a change.

    These visits are triggered by changes. If they were treated as visits at arbitrary times, every one of them would
    find a change and the estimated rate would grow without bound. The change found is taken to be the first one, made
    just before the visit.
    """
    shape, exposure = _faded(known, first)
    return ChangeRate(shape + changed, exposure + max(elapsed, _SHORTEST))


def _faded(known: ChangeRate, first: ChangeRate) -> tuple[float, float]:
    return (
        _FADE * known.shape + (1 - _FADE) * first.shape,
        _FADE * known.exposure + (1 - _FADE) * first.exposure,
    )

"""How often a page changes, estimated from its visits, and what a visit is worth.

A page changes at random with an unknown rate (a Poisson process; Cho and Garcia-Molina 2003, "Estimating frequency of
change"). A visit after ``elapsed`` seconds tells whether it has changed, not how often. What is known of the rate is
kept as a gamma distribution, two numbers a page:

    shape       about how many changes were found
    exposure    seconds: about how long the page was watched for them

A visit without a change adds its seconds to the exposure. That is exact. After a visit with a change the posterior is
no gamma distribution, so the one with the same mean and variance takes its place. Unlike the ratio of changes to
visits, this is not misled by visits at irregular times or by several changes between two visits, and a page that never
changed has a rate that falls with time, not 0. Old evidence fades, so that a page may change its habits.

Pure: no clock, no store.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

SHAPE = 0.5  # before the first visit: rates of pages differ by orders of magnitude
_FADE = 0.95  # of the evidence stays at each visit; the rest goes back to what was assumed first
_SHORTEST = 1e-3  # seconds
_GUESSES = {1: 3_600.0, 2: 86_400.0, 3: 2_592_000.0}  # seconds between two changes, by the site's own guess
_SWAY = 3.0  # how far such a guess may move ours, as a factor


class ChangeRate(NamedTuple):
    """What is known of the rate at which a page changes."""

    shape: float
    exposure: float

    @property
    def mean(self) -> float:
        """Changes a second."""
        return self.shape / self.exposure

    def unchanged(self, seconds: float) -> float:
        """The probability that the page is as it was, so long after it was visited."""
        return math.exp(-self.shape * math.log1p(seconds / self.exposure))


@lru_cache(maxsize=64)
def first_guess(interval: float, frequency: int = 0) -> ChangeRate:
    """What is assumed of a page that is to be visited for the second time after ``interval`` seconds. ``frequency`` is
    the site's guess: 1 (hourly) to 3 (rarely), or 0 if it has none."""
    if frequency:
        interval *= min(max(math.sqrt(_GUESSES[frequency] / interval), 1 / _SWAY), _SWAY)
    return ChangeRate(SHAPE, SHAPE * interval)


def after_visit(known: ChangeRate, elapsed: float, *, changed: bool, first: ChangeRate) -> ChangeRate:
    """What is known after a visit ``elapsed`` seconds after the one before."""
    elapsed = max(elapsed, _SHORTEST)
    shape, exposure = _faded(known, first)
    if not changed:
        return ChangeRate(shape, exposure + elapsed)
    # Mean and second moment of the rate, given at least one change: differences of two terms each, taken together.
    log = math.log1p(elapsed / exposure)
    some = -math.expm1(-shape * log)
    mean = shape / exposure * -math.expm1(-(shape + 1) * log) / some
    second = shape * (shape + 1) / exposure**2 * -math.expm1(-(shape + 2) * log) / some
    variance = max(second - mean * mean, 1e-9 * mean * mean)
    return ChangeRate(mean * mean / variance, mean / variance)


def after_signal(known: ChangeRate, elapsed: float, *, changed: bool, first: ChangeRate) -> ChangeRate:
    """What is known after a visit that was made because the site said that the page had changed.

    Such a visit comes when the page changes. Were it taken for one at any time, all of them would find a change, and
    the rate would have no bound. The change that it finds is the first one, and it was made just before."""
    shape, exposure = _faded(known, first)
    return ChangeRate(shape + changed, exposure + max(elapsed, _SHORTEST))


def _faded(known: ChangeRate, first: ChangeRate) -> tuple[float, float]:
    return (
        _FADE * known.shape + (1 - _FADE) * first.shape,
        _FADE * known.exposure + (1 - _FADE) * first.exposure,
    )

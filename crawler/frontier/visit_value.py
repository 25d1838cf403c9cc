"""When a visit is worth its request: the times of revisits that spend a budget where it buys freshness.

A page is *fresh* from a visit until it changes. The share of time that pages are fresh is greatest, for a given number
of visits, if each page is visited when the worth of a visit reaches a threshold that is the same for all (Azar,
Horvitz, Lubetzky, Peres and Shahaf 2018, "Tractable near-optimal policies for crawling"). The worth ``t`` seconds after
the last visit is

    worth(t) = integral from 0 to t of (unchanged(s) - unchanged(t)) ds

``unchanged`` is averaged over what is known of the page's rate (``change_rate``). So a page of which little is known is
visited earlier, to learn, and noise in the estimate costs little. The worth of a page that changes all the time stays
small: no visit keeps it fresh. Such a page is visited as often as the average page, as it may have new links.

Each visit chooses the page's next interval. The mean of the chosen intervals is the number of pages divided by the
visits a second, whatever the rates. So the threshold follows it: down if intervals are longer than the mean that the
budget allows, up if they are shorter. No list of all pages is needed.

Pure: no clock, no store.
"""

from __future__ import annotations

import math

from crawler.frontier.change_rate import ChangeRate
from crawler.settings import RecrawlSettings

_STEP = 0.005  # of the logarithm of the threshold, if an interval is twice the mean
_LONGEST = 8.0  # times the mean: a longer interval moves the threshold no further
_FIRST = 1 - 2 / math.e  # times the mean interval: the worth of an average page after that interval
_RANGE = math.log(1e6)  # of the threshold, either way
_LEAST_CHANCE = 0.05  # of a change: a visit that finds one less often is not worth its request
_HALVINGS = 12  # of the logarithm of an interval: to less than a hundredth


def worth(rate: ChangeRate, seconds: float) -> float:
    """What a visit buys that long after the last one, in seconds of freshness."""
    shape, exposure = rate
    log = math.log1p(seconds / exposure)
    fresh = exposure * (log if shape == 1.0 else -math.expm1((1.0 - shape) * log) / (shape - 1.0))
    return fresh - seconds * math.exp(-shape * log)


def interval_at(rate: ChangeRate, threshold: float, least: float, most: float) -> float:
    """The seconds after which a visit is worth ``threshold``, between the least and the most."""
    if worth(rate, most) <= threshold:
        return most
    low, high = math.log(least), math.log(most)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if worth(rate, math.exp(middle)) < threshold:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


class Budget:
    """The threshold that keeps the mean interval of all pages at that of the settings."""

    def __init__(self, settings: RecrawlSettings, threshold: float | None = None) -> None:
        """``threshold`` is that of an earlier run."""
        self._least, self._most = settings.min_interval, settings.max_interval
        self._mean = min(max(settings.mean_interval, self._least), self._most)
        self._middle = math.log(_FIRST * self._mean)
        known = threshold is not None and 0.0 < threshold < math.inf
        self._log = math.log(threshold) if threshold is not None and known else self._middle

    @property
    def threshold(self) -> float:
        """In seconds of freshness."""
        return math.exp(self._log)

    def interval(self, rate: ChangeRate) -> float:
        """The seconds until the next visit of a page that was just visited."""
        interval = interval_at(rate, self.threshold, self._least, self._most)
        if rate.mean * self._mean > 1.0:
            interval = min(interval, self._mean)
        self._follow(interval)
        # What is saved here is not spent elsewhere: nothing else is worth it either.
        rare = rate.exposure * math.expm1(-math.log1p(-_LEAST_CHANCE) / rate.shape)
        return min(max(interval, rare), self._most)

    def _follow(self, interval: float) -> None:
        step = _STEP * (min(interval / self._mean, _LONGEST) - 1.0)
        self._log = min(max(self._log - step, self._middle - _RANGE), self._middle + _RANGE)

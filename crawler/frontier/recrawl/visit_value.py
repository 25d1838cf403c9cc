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

from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.recrawl.change_rate import ChangeRate

_STEP = 0.005  # of the logarithm of the threshold, if an interval is twice the mean
_LONGEST = 8.0  # times the mean: a longer interval moves the threshold no further
_FIRST = 1 - 2 / math.e  # times the mean interval: the worth of an average page after that interval
_RANGE = math.log(1e6)  # of the threshold, either way
_LEAST_CHANCE = 0.05  # of a change: a visit that finds one less often is not worth its request
_RARE = -math.log1p(-_LEAST_CHANCE)
_STEPS = 40  # towards an interval; two are enough for what is usual
_NEAR = 0.005  # of the interval: the last step, which is longer than what is left
_FAR = 5.0


def worth(rate: ChangeRate, seconds: float) -> float:
    """What a visit buys that long after the last one, in seconds of freshness."""
    shape, exposure = rate
    log = math.log1p(seconds / exposure)
    fresh = exposure * (log if shape == 1.0 else -math.expm1((1.0 - shape) * log) / (shape - 1.0))
    return fresh - seconds * math.exp(-shape * log)


def interval_at(rate: ChangeRate, threshold: float, least: float, most: float) -> float:
    """The seconds after which a visit is worth ``threshold``, between the least and the most; to a hundredth."""
    if worth(rate, most) <= threshold:
        return most
    shape, exposure = rate
    sought, power = threshold / exposure, 1.0 - shape
    low, high = math.log1p(least / exposure), math.log1p(most / exposure)
    log = math.sqrt(2.0 * sought / shape)  # where a visit soon after the last is worth so much
    if not low <= log < high:
        log = low if log < low else (low + high) / 2
    for _ in range(_STEPS):
        # The logarithm of the worth is nearly straight in that of ``log``: two steps of Newton's, as a rule.
        grown, left = math.expm1(log), math.exp(-shape * log)
        value = (math.expm1(power * log) / power if power else log) - grown * left
        slope = shape * grown * left * log
        before = log
        if value < sought:
            low = log
        else:
            high = log
        if value > 0.0 and slope > 0.0:
            step = math.log(sought / value) * value / slope
            if -_FAR < step < _FAR:
                log *= math.exp(step)
        if not low < log < high:
            log = (low + high) / 2
        if abs(log - before) < _NEAR * log / (1.0 + log):
            break
    interval = exposure * math.expm1(log)
    return interval if interval > least else least


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
        shape, exposure = rate
        interval = interval_at(rate, math.exp(self._log), self._least, self._most)
        if interval > self._mean and shape * self._mean > exposure:
            interval = self._mean
        self._follow(interval)
        # What is saved here is not spent elsewhere: nothing else is worth it either.
        rare = exposure * math.expm1(_RARE / shape)
        return interval if rare < interval else min(rare, self._most)

    def sooner(self, rate: ChangeRate, age: float, apparent: float) -> float | None:
        """The seconds after its last visit at which a page is due that is ``age`` seconds old and as doubtful as one of
        ``apparent`` seconds. None: no visit keeps it fresh."""
        if rate.mean * self._mean > 1.0:
            return None
        interval = interval_at(rate, self.threshold, self._least, self._most)
        sooner = max(age + max(interval - apparent, 0.0), self._least)
        return sooner

    def moved(self, interval: float, sooner: float) -> None:
        """A visit that was set after ``interval`` seconds, which the threshold has followed, comes sooner."""
        self._shift(_STEP * (min(interval / self._mean, _LONGEST) - min(sooner / self._mean, _LONGEST)))

    @property
    def mean(self) -> float:
        """The mean interval, in seconds."""
        return self._mean

    def _follow(self, interval: float) -> None:
        self._shift(-_STEP * (min(interval / self._mean, _LONGEST) - 1.0))

    def _shift(self, step: float) -> None:
        self._log = min(max(self._log + step, self._middle - _RANGE), self._middle + _RANGE)

"""Decides when a revisit is worth its request, so that the budget is spent where it buys the most freshness.

A page is *fresh* from a visit until it changes. For a given number of visits, pages are fresh for the largest share of
time if each page is visited when the value of a visit reaches a threshold common to all pages (Azar, Horvitz, Lubetzky,
Peres and Shahaf 2018, "Tractable near-optimal policies for crawling"). The value ``t`` seconds after the last visit is

    worth(t) = integral from 0 to t of (unchanged(s) - unchanged(t)) ds

``unchanged`` is averaged over the distribution of the page's rate (``change_rate``). Pages with uncertain rates are
therefore visited earlier, and noise in the estimate costs little. The value stays small for a page that changes
constantly, because no visit keeps it fresh. It is visited as often as the average page, as it may have new links.

Each visit determines the page's next interval. Regardless of the rates, the mean of these intervals must equal the
number of pages divided by the visits per second. The threshold is adjusted accordingly: down if intervals are longer
than the mean that the budget allows, up if they are shorter. This needs no list of all pages.

Pure: no clock, no store.
"""

from __future__ import annotations

import math

from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.recrawl.change_rate import ChangeRate

_STEP = 0.005  # change of the threshold's logarithm if an interval is twice the mean
_LONGEST = 8.0  # an interval counts as at most this multiple of the mean
_FIRST = 1 - 2 / math.e  # value of a visit to an average page after the mean interval, as a fraction of it
_RANGE = math.log(1e6)  # the threshold's logarithm stays within this distance of its initial value
_LEAST_CHANCE = 0.05  # probability of a change below which a visit is not worth its request
_RARE = -math.log1p(-_LEAST_CHANCE)
_PRECISION = 1.005  # ratio of the bounds at which the search for an interval stops


def worth(rate: ChangeRate, seconds: float) -> float:
    """Return the value of a visit ``seconds`` after the last one, in seconds of freshness."""
    shape, exposure = rate
    log = math.log1p(seconds / exposure)
    fresh = exposure * (log if shape == 1.0 else -math.expm1((1.0 - shape) * log) / (shape - 1.0))
    return fresh - seconds * math.exp(-shape * log)


def interval_at(rate: ChangeRate, threshold: float, least: float, most: float) -> float:
    """Return the interval after which a visit is worth ``threshold``, in seconds, with a relative error of at most 1%.

    The result is clamped to ``least`` and ``most``.
    """
    if worth(rate, most) <= threshold:
        return most
    low, high = least, most
    while high > low * _PRECISION:
        middle = math.sqrt(low * high)
        if worth(rate, middle) < threshold:
            low = middle
        else:
            high = middle
    return high if high > least * _PRECISION else least


class Budget:
    """Finds the threshold at which the mean interval of all pages is the configured mean."""

    def __init__(self, settings: RecrawlSettings, threshold: float | None = None) -> None:
        """``threshold`` is the value saved by an earlier run, if any."""
        self._least, self._most = settings.min_interval, settings.max_interval
        self._mean = min(max(settings.mean_interval, self._least), self._most)
        self._middle = math.log(_FIRST * self._mean)
        known = threshold is not None and 0.0 < threshold < math.inf
        self._log = math.log(threshold) if threshold is not None and known else self._middle

    @property
    def threshold(self) -> float:
        """The threshold, in seconds of freshness."""
        return math.exp(self._log)

    def interval(self, rate: ChangeRate) -> float:
        """Return the seconds until the next visit of a page that was just visited."""
        shape, exposure = rate
        interval = interval_at(rate, math.exp(self._log), self._least, self._most)
        if interval > self._mean and shape * self._mean > exposure:
            interval = self._mean
        self._follow(interval)
        # The requests saved here are not spent on other pages, where no visit is worth more.
        rare = exposure * math.expm1(_RARE / shape)
        return interval if rare < interval else min(rare, self._most)

    def sooner(self, rate: ChangeRate, age: float, apparent: float) -> float | None:
        """Return the seconds after its last visit at which a page is due, or None if no visit keeps it fresh.

        ``age`` is the time since the last visit; ``apparent`` is the age at which a page without an announced change
        would be equally likely to have changed. Both are in seconds.
        """
        if rate.mean * self._mean > 1.0:
            return None
        interval = interval_at(rate, self.threshold, self._least, self._most)
        sooner = max(age + max(interval - apparent, 0.0), self._least)
        return sooner

    def moved(self, interval: float, sooner: float) -> None:
        """Adjust the threshold for a visit that was scheduled after ``interval`` seconds and now comes after
        ``sooner``."""
        self._shift(_STEP * (min(interval / self._mean, _LONGEST) - min(sooner / self._mean, _LONGEST)))

    @property
    def mean(self) -> float:
        """The mean interval, in seconds."""
        return self._mean

    def _follow(self, interval: float) -> None:
        self._shift(-_STEP * (min(interval / self._mean, _LONGEST) - 1.0))

    def _shift(self, step: float) -> None:
        self._log = min(max(self._log + step, self._middle - _RANGE), self._middle + _RANGE)

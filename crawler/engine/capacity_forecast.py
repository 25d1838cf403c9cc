"""Forecasts the seen-set of a running crawl from its present rate and the free memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from crawler.base.memory import available_memory
from crawler.job.metrics import suspicion
from crawler.seen.filters import FilterError, SeenSet, advise, project
from crawler.seen.filters.advisor import Cause, matters_at

log = logging.getLogger("crawler")

INTERVAL = 5.0  # seconds between two forecasts
BEAT = 0.5  # seconds between two looks at the count of URLs: each run of a process takes them
WINDOW = 60.0  # seconds over which the rate of new URLs is measured
# The forecast uses only the last seconds, because most links are found at the start of a crawl. The window ...
SHARE_WINDOW = 30.0
FINISHED = 50  # ... grows until this many URLs are finished in it,
LONGEST = 3_600.0  # seconds; but no longer than this
LEAST = 10  # finished URLs in the window; with fewer there is no forecast
DAY = 86_400.0
TOLERANCE = 0.25  # share of the time to the end, or of the URLs in a day, by which forecasts that agree may differ


class When(StrEnum):
    """The moment that a forecast describes."""

    END = "end"  # no URLs are left
    DAY = "day"  # a day from now, because no end is in sight


# Seconds over which forecasts must agree before one is told; longer for one that reaches further.
STEADY = {When.END: 20.0, When.DAY: 60.0}


class Progress(Struct, frozen=True):
    """How far the crawl has come: the numbers of finished and of unfinished URLs. Of a crawl without an end, which
    visits its pages again, only first visits count."""

    finished: int
    left: int


class Forecast(Struct, frozen=True):
    """The seen-set as it will be if the crawl continues at this pace. Counts are URLs; ``bytes`` is the seen-set's
    size."""

    when: When
    seconds: float  # seconds until that moment
    new_per_url: float  # new URLs found for each finished one, at present
    urls: int
    slices: int
    bytes: int
    fpp: float
    urls_skipped: float
    steady: bool = False  # the forecasts of the last seconds say nearly the same


class Pace(Struct, frozen=True):
    """The pace of the crawl: it found ``new`` URLs and finished ``finished`` in the last ``seconds``."""

    new: float
    finished: float
    seconds: float


def forecast(
    statistics: Any,
    parameters: Mapping[str, Any],
    left: int,
    pace: Pace,
    *,
    compact_slices: int = 0,
    endless: bool = False,
) -> Forecast:
    """Return what happens to the seen-set with ``left`` URLs to finish at this pace.

    Each unfinished URL brings ``share = new / finished`` others, each of these brings as many again, and so on. If
    ``share`` is below 1, the geometric series gives ``left / (1 - share)`` URLs to finish, and the crawl ends.
    Otherwise, or if the crawl is ``endless``, the forecast is for a day from now. What an endless crawl finds in a day
    is bounded by the same series: afterwards it only visits its pages again. Raises FilterError for a kind of seen-set
    without slices."""
    new, finished, seconds = pace.new, pace.finished, pace.seconds
    share = new / finished
    ends = share < 1 and not endless
    to_finish = left / (1 - share) if ends else DAY * finished / seconds
    coming = to_finish - left if ends else DAY * new / seconds
    if share < 1:
        coming = min(coming, left * share / (1 - share))
    urls = round(statistics["count"] + coming)
    made = project(statistics, parameters, urls, compact_slices=compact_slices)
    return Forecast(
        When.END if ends else When.DAY,
        to_finish * seconds / finished if ends else DAY,
        share,
        made.urls,
        made.slices,
        made.size,
        made.fpp,
        made.urls_skipped,
    )


class Steadiness:
    """Tells whether forecasts agree with those of the last seconds, so that it is worth telling somebody."""

    def __init__(self) -> None:
        self._told: deque[tuple[float, Forecast]] = deque()

    def look(self, now: float, made: Forecast | None) -> bool:
        """Add the forecast made at ``now`` and return whether those of the last seconds say the same."""
        told = self._told
        if made is None or (told and now < told[-1][0]):
            told.clear()
        if made is None:
            return False
        told.append((now, made))
        while len(told) > 1 and told[1][0] <= now - STEADY[When.DAY]:
            told.popleft()
        since = now - STEADY[made.when]
        return told[0][0] <= since and all(_agree(now - then, each, made) for then, each in told if then >= since)


def _agree(passed: float, before: Forecast, now: Forecast) -> bool:
    """Whether two forecasts, with some seconds between, say nearly the same."""
    if before.when is not now.when:
        return False
    if now.when is When.DAY:
        return before.urls <= now.urls * (1 + TOLERANCE) and now.urls <= before.urls * (1 + TOLERANCE)
    return abs(passed + now.seconds - before.seconds) <= TOLERANCE * before.seconds


class Adviser:
    """Makes a forecast every few seconds and warns of each cause once."""

    def __init__(self, compact_slices: int, *, ledger: bool = False, endless: bool = False) -> None:
        """``ledger``: the crawl has a ledger, so no URL stays skipped. ``endless``: the crawl revisits its pages."""
        self._compact_slices = compact_slices
        self._ledger = ledger
        self._endless = endless
        self._counts: deque[tuple[float, int]] = deque()  # when, URLs in the seen-set
        self._looks: deque[tuple[float, int, int]] = deque()  # when, URLs in the seen-set, URLs finished
        self._steadiness = Steadiness()
        self._warned: set[Cause] = set()
        self._suspected = False
        self._matters_at = sys.maxsize  # URLs in the seen-set at which a warning is possible
        self.advice: dict[str, Any] | None = None  # the value in ``stats --json``; None for a kind without slices

    async def watch(self, seen: SeenSet, clock: Callable[[], float], progress: Callable[[], Progress]) -> None:
        """Make forecasts and log warnings until cancelled.

        A forecast is made every few seconds, as soon as the seen-set has enough URLs for a warning, and at the end of
        the crawl, which may come before either."""

        def tell() -> None:
            warning = self.look(seen, clock(), available_memory(), progress())
            for text in (warning, self.suspicion(seen)):
                if text is not None:
                    log.warning("seen-set: %s", text)

        try:
            while True:
                tell()
                await asyncio.sleep(BEAT)
                waited = BEAT
                while waited < INTERVAL and len(seen) < self._matters_at:
                    await asyncio.sleep(BEAT)
                    waited += BEAT
        finally:
            tell()

    def look(self, seen: SeenSet, now: float, memory: int | None, progress: Progress) -> str | None:
        """Make a forecast and return its warning, or None if it has none or was given before.

        ``now`` is in seconds since 1970, ``memory`` in free bytes (None: unknown)."""
        count, done = len(seen), progress.finished
        self._looks.append((now, count, done))
        while len(self._looks) > 2 and self._is_old(self._looks[1], now, done):
            self._looks.popleft()
        while now - self._looks[0][0] > LONGEST:
            self._looks.popleft()
        self._counts.append((now, count))
        while now - self._counts[0][0] > WINDOW:
            self._counts.popleft()
        since, before = self._counts[0]
        rate = (count - before) / (now - since) if now > since else None
        statistics = seen.statistics()
        try:
            advice = advise(
                statistics, seen.parameters(), rate=rate, memory=memory, compact_slices=self._compact_slices
            )
        except FilterError:
            return None  # this kind of seen-set has no forecast
        self._matters_at = matters_at(statistics, advice)
        self.advice = {**asdict(advice), "new_urls_per_second": rate, "forecast": self._forecast(seen, progress)}
        if advice.cause is None or advice.cause in self._warned:
            return None
        self._warned.add(advice.cause)
        return advice.warning

    def suspicion(self, seen: SeenSet) -> str | None:
        """Return what is wrong with the seen-set, once, if its bits are not those of its keys."""
        statistics = seen.statistics()
        if self._suspected or not statistics["count_suspect"]:
            return None
        self._suspected = True
        return suspicion(statistics)

    def _is_old(self, look: tuple[float, int, int], now: float, done: int) -> bool:
        """Return whether a window that begins at ``look``, later than the present one, would still be long enough."""
        return now - look[0] >= SHARE_WINDOW and done - look[2] >= FINISHED

    def _forecast(self, seen: SeenSet, progress: Progress) -> dict[str, Any] | None:
        (since, before, done), (now, count, finished) = self._looks[0], self._looks[-1]
        made = None
        if finished - done >= LEAST and (progress.left or self._endless):
            # A filter of some kinds cannot hold as much.
            with contextlib.suppress(FilterError, OverflowError):
                made = forecast(
                    seen.statistics(),
                    seen.parameters(),
                    progress.left,
                    Pace(count - before, finished - done, now - since),
                    compact_slices=self._compact_slices,
                    endless=self._endless,
                )
        steady = self._steadiness.look(now, made)
        if made is None:
            return None
        return asdict(replace(made, steady=steady)) | ({"urls_skipped": 0.0} if self._ledger else {})

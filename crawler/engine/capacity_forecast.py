"""What is ahead of the seen-set of a running crawl, at its present rate and in the memory that is free."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from crawler.filters import FilterError, SeenSet, advise, project
from crawler.filters.advisor import Cause, matters_at
from crawler.memory import available_memory

log = logging.getLogger("crawler")

INTERVAL = 5.0  # seconds between two looks
BEAT = 0.1  # seconds between two counts
WINDOW = 60.0  # seconds over which the rate is taken
# What is expected of a crawl rests on its last seconds, since the first links come all at once, ...
SHARE_WINDOW = 30.0
FINISHED = 50  # ... or on as many as it takes to finish this many URLs,
LONGEST = 3_600.0  # but no more;
LEAST = 10  # of fewer URLs nothing is expected
DAY = 86_400.0


class When(StrEnum):
    """What a forecast is made for."""

    END = "end"  # nothing is left
    DAY = "day"  # a day from now: there is no end in sight


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the crawl has come: URLs that are done, and those that are not."""

    finished: int
    left: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """The seen-set as it will be if the crawl goes on as it does. Counts are URLs, ``bytes`` of the seen-set."""

    when: When
    seconds: float  # until then
    new_per_url: float  # URLs found new for each that is finished, at present
    urls: int
    slices: int
    bytes: int
    fpp: float
    urls_skipped: float


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the crawl goes: ``new`` URLs were found and ``finished`` done in the last ``seconds``."""

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
    """What lies ahead with ``left`` URLs to finish at this pace.

    Each that is left brings ``new / finished`` others, these bring as many again, and so on: where that is less than
    one each, ``left / (1 - new / finished)`` are still to come, and the crawl ends. Otherwise, and where it is
    ``endless``, a day is looked ahead. Raises FilterError for a kind that has no slices."""
    new, finished, seconds = pace.new, pace.finished, pace.seconds
    share = new / finished
    ends = share < 1 and not endless
    to_finish = left / (1 - share) if ends else DAY * finished / seconds
    coming = to_finish - left if ends else DAY * new / seconds
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


class Adviser:
    """Looks ahead every few seconds, and warns of each cause once."""

    def __init__(self, compact_slices: int, *, ledger: bool = False, endless: bool = False) -> None:
        """With a ``ledger`` no URL stays skipped; an ``endless`` crawl is one that visits its pages again."""
        self._compact_slices = compact_slices
        self._ledger = ledger
        self._endless = endless
        self._counts: deque[tuple[float, int]] = deque()  # when, URLs in the seen-set
        self._looks: deque[tuple[float, int, int]] = deque()  # when, URLs in the seen-set, URLs finished
        self._warned: set[Cause] = set()
        self._matters_at = sys.maxsize  # URLs in the seen-set
        self.advice: dict[str, Any] | None = None  # as ``stats --json`` has it; None for a kind without slices

    async def watch(self, seen: SeenSet, clock: Callable[[], float], progress: Callable[[], Progress]) -> None:
        """Look, and log the warnings, until cancelled: every few seconds, when the seen-set has as many URLs that there
        may be something to warn of, and once more at the end, which may come sooner than either."""

        def tell() -> None:
            warning = self.look(seen, clock(), available_memory(), progress())
            if warning is not None:
                log.warning("seen-set: %s", warning)

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
        """``now`` in seconds, ``memory``: free bytes. The warning, if there is one that was not given before."""
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
            return None  # nothing can be planned for this kind
        self._matters_at = matters_at(statistics, advice)
        self.advice = {**asdict(advice), "new_urls_per_second": rate, "forecast": self._forecast(seen, progress)}
        if advice.cause is None or advice.cause in self._warned:
            return None
        self._warned.add(advice.cause)
        return advice.warning

    def _is_old(self, look: tuple[float, int, int], now: float, done: int) -> bool:
        """Whether a window that begins there, later than the present one, is long enough."""
        return now - look[0] >= SHARE_WINDOW and done - look[2] >= FINISHED

    def _forecast(self, seen: SeenSet, progress: Progress) -> dict[str, Any] | None:
        (since, before, done), (now, count, finished) = self._looks[0], self._looks[-1]
        if finished - done < LEAST or not progress.left:
            return None
        try:
            made = forecast(
                seen.statistics(),
                seen.parameters(),
                progress.left,
                Pace(count - before, finished - done, now - since),
                compact_slices=self._compact_slices,
                endless=self._endless,
            )
        except (FilterError, OverflowError):
            return None  # more than any filter of this kind can hold
        return asdict(made) | ({"urls_skipped": 0.0} if self._ledger else {})

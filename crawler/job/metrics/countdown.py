"""The time to the end of a crawl, decided once: the page, the terminal, the list of jobs and ``stats`` show this one.

What the last seconds say of the end swings: a host that is slow finishes a URL now and then. So the pace is measured
over at least so many finished URLs, and what is told follows what is measured step by step. It is never below what the
slowest host needs on its own, which is known better than any pace.

Pure: time is an argument.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from crawler.job.metrics.sentences import TimeLeft, time_left

SHORTEST = 30.0  # seconds over which a pace is measured, at least, and ...
FINISHED = 30  # ... as many URLs as were finished meanwhile,
LONGEST = 1_800.0  # but no more than so many seconds
LEAST = 10  # finished URLs that tell a pace at all
FIRST = 10.0  # seconds of observations before anything is told
KEPT = 60.0  # seconds for which the last estimate counts on when nothing new is known
_STEP = 0.9  # seconds between two observations that are kept, at least
_FOLLOWS = 0.1  # of the time left: so long it takes to follow most of a change, ...
_FASTEST, _SLOWEST = 2.0, 30.0  # ... within these seconds


class Look(Struct, frozen=True):
    """An observation: ``left`` URLs were to be finished at ``at`` (seconds, increasing), ``done`` were."""

    at: float
    left: int
    done: int


class Countdown:
    """Told the figures of a running crawl about every second, it says how long the crawl takes."""

    def __init__(self) -> None:
        self.told: TimeLeft | None = None
        self._looks: deque[Look] = deque()
        self._end = 0.0  # when the crawl ends, by what was told
        self._known_at = -math.inf  # when something was known last
        self._grew_at = -math.inf  # when URLs were found last

    def forget(self) -> None:
        """The crawl does not run: what it did before says nothing about when it goes on."""
        self._looks.clear()
        self.told = None
        self._known_at = -math.inf

    def look(self, look: Look, stats: Mapping[str, Any]) -> TimeLeft | None:
        """Return the time left at this moment; None if it is unknown. ``stats`` are those of ``stats --json`` that
        ``time_left`` reads."""
        if self._looks and look.left + look.done > self._looks[-1].left + self._looks[-1].done:
            self._grew_at = look.at
        found = self._measured(look, stats)
        if not look.left or stats.get("endless"):
            self.told = None
            return None
        before = self.told
        if found is None and (before is None or look.at - self._known_at > KEPT):
            self.told = None
            return None
        if found is not None:
            self._follow(look.at, found)
        seconds = max(0.0, self._end - look.at)
        slowest, source = stats.get("slowest_host"), before if found is None else found
        assert source is not None
        if slowest is not None and slowest["seconds"] >= seconds:
            seconds, source = slowest["seconds"], TimeLeft(0.0, source.at_least, slowest["name"])
            self._end = look.at + seconds
        grows = source.at_least and look.at - self._grew_at <= KEPT
        self.told = TimeLeft(seconds, grows, source.host)
        return self.told

    def _follow(self, now: float, found: TimeLeft) -> None:
        end = now + found.seconds
        if self.told is None:
            self._end = end
        else:
            lasts = min(max(_FOLLOWS * (self._end - now), _FASTEST), _SLOWEST)
            passed = now - self._known_at
            self._end += (end - self._end) * (1 - math.exp(-passed / lasts))
        self._known_at = now

    def _measured(self, look: Look, stats: Mapping[str, Any]) -> TimeLeft | None:
        """The time left by the pace of the last seconds, which may be far from that of the seconds before."""
        looks = self._looks
        if looks and look.at <= looks[-1].at:
            looks.clear()  # the clock was set back
        if not looks or look.at - looks[-1].at >= _STEP:
            looks.append(look)
        while len(looks) > 2 and self._is_enough(looks[1], look):
            looks.popleft()
        first = looks[0]
        seconds = look.at - first.at
        if seconds < FIRST:
            return None
        finished, slope = look.done - first.done, (look.left - first.left) / seconds
        new = max(0.0, slope + finished / seconds)
        return time_left(stats, slope, new, measured=finished >= LEAST)

    @staticmethod
    def _is_enough(first: Look, now: Look) -> bool:
        """Whether a pace that is measured from ``first`` on is good enough."""
        seconds = now.at - first.at
        return seconds >= LONGEST or (seconds >= SHORTEST and now.done - first.done >= FINISHED)

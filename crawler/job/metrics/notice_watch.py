"""Decides when a crawl has something to tell its operator: it pauses, resumes, or needs somebody. Pure: the time is an
argument, and the statistics are those of ``stats --json``.

A change is told once. A pause is told when it has lasted a moment, so that a short outage makes no noise; a reason
that comes and goes is told again after an hour at the earliest. What was planned, by hours or a schedule, is not told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from crawler.base.figures import counted
from crawler.job.metrics.attention import Need, needs
from crawler.job.metrics.sentences import PLANNED

LASTS = 10.0  # seconds after which a pause is told
AGAIN = 3_600.0  # seconds after which the same reason may be told again


class Notice(Struct, frozen=True):
    """``event`` is one of ``settings.NOTICES``; ``kind`` says more of it; ``text`` is one line."""

    event: str
    kind: str
    text: str


class NoticeWatch:
    """What has been told of one run."""

    def __init__(self) -> None:
        self._paused: tuple[str, float] | None = None  # by what, since when
        self._told_pause: str | None = None
        self._working = False  # a round goes on
        self._told: dict[str, float] = {}  # when each reason was there last

    def observe(self, now: float, stats: Mapping[str, Any]) -> list[Notice]:
        """Return what is to be told of the statistics at ``now``."""
        found = [*self._round(stats), *self._pauses(now, stats)]
        for need in needs(stats):
            if now >= self._told.get(need.kind, -AGAIN) + AGAIN:
                found.append(_of_need(need))
            self._told[need.kind] = now
        return found

    def _round(self, stats: Mapping[str, Any]) -> list[Notice]:
        """A crawl with a schedule has no end: the end of each round is told."""
        was, self._working = self._working, stats.get("paused_by") != "round"
        if self._working or not was:
            return []
        pages = counted(stats.get("pages_fetched"), "page")
        return [Notice("end", "round", f"{stats['paused']}: {pages} fetched so far")]

    def _pauses(self, now: float, stats: Mapping[str, Any]) -> list[Notice]:
        by = stats.get("paused_by")
        if by is None or by in PLANNED:
            told, self._paused, self._told_pause = self._told_pause, None, None
            return [Notice("resume", told, "resumed")] if told is not None else []
        if self._paused is None or self._paused[0] != by:
            self._paused = (by, now)
        if self._told_pause == by or now < self._paused[1] + LASTS:
            return []
        self._told_pause = by
        return [Notice("pause", by, f"paused: {stats['paused']}")]


def _of_need(need: Need) -> Notice:
    return Notice("attention", need.kind, f"needs somebody: {need.text}")

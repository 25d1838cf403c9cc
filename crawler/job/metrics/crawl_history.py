"""The history and the events of a job, kept across runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from crawler.base.figures import count, counted, probability
from crawler.job.metrics.attention import attention
from crawler.job.metrics.events import Event, Events, Kind
from crawler.job.metrics.history import History, HistoryError
from crawler.job.metrics.outlook import seen_words
from crawler.job.metrics.sentences import came, standing, suspicion, trust, working

_OVER = ("ended", "stopped")
_STOPPED = ("stopped", "stopped_by")


class CrawlHistoryError(ValueError):
    """The stored string is not a job's history."""


class _Kept(Struct):
    """The stored history of a job."""

    history: dict[str, Any]
    events: list[Event]
    stopped: dict[str, str | None] = {}
    pages_parsed: dict[str, int] | None = None


class CrawlHistory:
    """Records the history of a job. Call ``observe`` once a second: it also adds events for changes in the
    statistics."""

    def __init__(self, *, tells: bool = True) -> None:
        """Create an empty history. ``tells=False``: another process runs the crawl and writes its events, so none are
        added here."""
        self._tells = tells
        self.figures = History()
        self.events = Events()
        self.stopped: dict[str, str | None] = {}  # why the last run stopped: the `_STOPPED` keys of its statistics
        self.parsed: dict[str, int] | None = None  # number of pages of the last run by parser; None if unknown
        self._stats: Mapping[str, Any] | None = None

    def observe(self, now: float, stats: Mapping[str, Any]) -> None:
        """Record ``stats`` at ``now`` (seconds since 1970): the mapping of ``stats --json``, empty before the crawl
        exists."""
        if not stats:
            return
        over = stats.get("state") in _OVER
        if not over or (self._stats is not None and self._stats.get("state") not in _OVER) or not self.figures.point():
            self.figures.observe(now, stats)  # a finished crawl has no pace: its charts end where it ended
        if self._tells and self._stats is not None:
            for kind, text in _changes(self._stats, stats):
                self.events.add(now, kind, text)
        self._stats = stats
        self.stopped = {key: stats.get(key) for key in _STOPPED} if stats.get("stopped_by") else {}
        self.parsed = stats.get("pages_parsed")

    def words(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """Return sentences about ``stats``.

        ``trust``, ``working`` (a mapping) and ``forecast`` (the seen-set at the end) describe the crawl, ``standing``
        is its state as users understand it. ``needs`` lists everything that needs attention (see `attention`), each as
        a mapping."""
        return {
            "standing": standing(stats),
            "trust": trust(stats),
            "working": working(stats),
            "forecast": seen_words(stats),
            "needs": [need._asdict() for need in attention(stats)],
        }

    def dump(self) -> dict[str, Any]:
        """Return a JSON-serialisable mapping for ``restore``."""
        content = {"history": self.figures.dump(), "events": self.events.after(0)}
        kept = {"stopped": self.stopped, "pages_parsed": self.parsed}
        return content | {key: value for key, value in kept.items() if value}

    def restore(self, content: Mapping[str, Any], now: float) -> None:
        """Restore the history of an earlier run. Raises CrawlHistoryError."""
        try:
            kept = msgspec.convert(content, _Kept)
            self.figures.restore(kept.history, now)
        except (msgspec.ValidationError, UnicodeEncodeError, HistoryError) as error:
            raise CrawlHistoryError(str(error)) from error
        self.events.restore(kept.events)
        self.stopped, self.parsed = kept.stopped, kept.pages_parsed


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[Kind, str]]:
    made = after.get("checkpoint")
    if made and (before.get("checkpoint") or {}).get("generation") != made["generation"]:
        size = counted(made["bytes"], "byte")
        yield Kind.CHECKPOINT, f"generation {made['generation']}: {size} in {1000 * made['seconds']:,.0f} ms"
    seen_before, seen = before.get("seen") or {}, after.get("seen") or {}
    yield from _slices(seen_before, seen)
    if seen.get("count_suspect") and not seen_before.get("count_suspect"):
        yield Kind.ERROR, f"the seen-set cannot be trusted: {suspicion(seen)}"
    if after.get("paused") != before.get("paused"):
        reason = after.get("paused")
        yield Kind.RUN, f"paused: {reason}" if reason else "resumed"
    if after.get("state") != before.get("state") and after.get("state") in ("stopping", "ended", "stopped"):
        how = {"ended": "has ended", "stopped": "has stopped"}.get(after["state"], "is stopping")
        yield Kind.RUN, f"the crawl {how}, {came(after)}"
    warning = after.get("seen_warning") or {}
    if warning.get("cause") not in (None, (before.get("seen_warning") or {}).get("cause")):
        yield Kind.SLICE, str(warning["text"])


def _slices(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[Kind, str]]:
    old, new = list(before.get("slices") or ()), list(after.get("slices") or ())
    if (after.get("compactions") or 0) > (before.get("compactions") or 0):
        yield Kind.SLICE, f"compacted to one slice, for {counted(new[0]['capacity'], 'URL')}"
    elif len(new) > len(old) > 0:
        capacity, fpp = count(new[-1]["capacity"]), probability(new[-1]["fpp_design"])
        yield Kind.SLICE, f"slice {len(new)} started, for {capacity} URLs at an fpp of {fpp}"

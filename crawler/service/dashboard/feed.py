"""Sends the current statistics and new events to all listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.service.dashboard.event_stream import Listeners, message

# Ticks between two messages with the whole history, from which the page restores the points that it has dropped.
_HISTORY_EVERY = 60
_GONE = {"standing": "gone", "working": {"mark": "bad", "text": "The job is gone: its directory was deleted or moved."}}
_NEWS_MOST = 50  # events in a message; /api/log has all of them


class Feed:
    """``stats()`` returns the statistics; it is called on the event loop and must be fast. ``clock()`` returns seconds
    since 1970. ``history`` is the history so far; new observations are added to it. ``beside()`` returns further news
    since the last tick, to be merged into the message."""

    def __init__(
        self,
        stats: Callable[[], dict[str, Any]],
        clock: Callable[[], float],
        history: CrawlHistory | None = None,
        beside: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.stats = stats
        self._beside = beside
        self.history = history or CrawlHistory()
        self.listeners = Listeners()
        self.clock = clock
        self.gone = False  # True if the job's directory was deleted or moved
        self._told = self.history.events.last
        self._greets: bytes | None = None
        self._ticks = 0

    def observe(self) -> None:
        """Observe once, without sending a message."""
        self.history.observe(self.clock(), self.stats())

    def tick(self) -> None:
        """Observe, and send the news to the listeners."""
        self._ticks += 1
        news = self._news("tick")
        if len(self.listeners) and self._ticks % _HISTORY_EVERY == 0:
            news = message("history", self.history.figures.series()) + news
        self.listeners.tell(news)

    def end(self) -> None:
        """Send the final statistics. No listeners can join afterwards."""
        self.listeners.close(self._news("end"))

    def greeting(self) -> bytes:
        """Return the first message for a new listener. All listeners that join between two ticks share it: after a
        restart many join at once, and serialising the history takes about 30 ms."""
        if self._greets is None:
            past = message("history", self.history.figures.series())
            self._greets = past + self._now("tick", self.stats(), self.history.events.last)
        return self._greets

    def _news(self, event: str) -> bytes:
        stats = self.stats()
        self.history.observe(self.clock(), stats)
        since, self._told = self._told, self.history.events.last
        self._greets = None
        beside = self._beside()
        return self._now(event, stats, since, beside) if len(self.listeners) else b""

    def _now(self, event: str, stats: dict[str, Any], since: int, beside: Mapping[str, Any] | None = None) -> bytes:
        """Return a message with the current statistics and the events after number ``since``, at most the last
        `_NEWS_MOST`."""
        events = self.history.events
        news = events.after(since)
        if len(news) > _NEWS_MOST:
            news = news[-_NEWS_MOST:]
            since = news[0]["number"] - 1
        log = {"last": events.last, "after": since, "events": news}
        words = self.history.words(stats) | (_GONE if self.gone else {})
        content = {"stats": stats, "point": self.history.figures.point(), **words, "log": log}
        return message(event, content | dict(beside or {}))

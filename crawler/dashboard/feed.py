"""The feed of the page: tells all listeners the current statistics and what has happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawler.dashboard.event_stream import Listeners, message
from crawler.metrics import Course

# What the page drops while it is open (points between thinned ones) it gets back this often, in ticks.
_HISTORY_EVERY = 60
_NEWS_MOST = 50  # events in a message; /api/log has them all


class Feed:
    """``stats`` is called in the event loop and must be quick; ``clock()`` is in seconds since 1970. ``course`` is what
    was seen before; what is seen from now on is added to it."""

    def __init__(
        self, stats: Callable[[], dict[str, Any]], clock: Callable[[], float], course: Course | None = None
    ) -> None:
        self.stats = stats
        self.course = course or Course()
        self.listeners = Listeners()
        self._clock = clock
        self._told = self.course.events.last
        self._greets: bytes | None = None
        self._ticks = 0

    def observe(self) -> None:
        """Look once, without telling the listeners."""
        self.course.observe(self._clock(), self.stats())

    def tick(self) -> None:
        """Look, and tell the listeners."""
        self._ticks += 1
        news = self._news("tick")
        if len(self.listeners) and self._ticks % _HISTORY_EVERY == 0:
            news = message("history", self.course.history.series()) + news
        self.listeners.tell(news)

    def end(self) -> None:
        """Tell the final statistics; nobody can listen after that."""
        self.listeners.close(self._news("end"))

    def greeting(self) -> bytes:
        """What a new listener hears first. All that join between two ticks share one: after a restart many join at
        once, and the past takes some 30 ms to serialise."""
        if self._greets is None:
            past = message("history", self.course.history.series())
            self._greets = past + self._now("tick", self.stats(), self.course.events.last)
        return self._greets

    def _news(self, event: str) -> bytes:
        stats = self.stats()
        self.course.observe(self._clock(), stats)
        since, self._told = self._told, self.course.events.last
        self._greets = None
        return self._now(event, stats, since) if len(self.listeners) else b""

    def _now(self, event: str, stats: dict[str, Any], since: int) -> bytes:
        """A message of what is, and of what happened after event number ``since``: the last of it, where it is much."""
        events = self.course.events
        news = events.after(since)
        if len(news) > _NEWS_MOST:
            news = news[-_NEWS_MOST:]
            since = news[0]["number"] - 1
        log = {"last": events.last, "after": since, "events": news}
        content = {"stats": stats, "point": self.course.history.point(), **self.course.words(stats), "log": log}
        return message(event, content)

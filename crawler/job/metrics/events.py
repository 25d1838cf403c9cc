"""The events of a crawl, for people: a bounded list of sentences.

The number of events is limited for each kind separately, so that a thousand failed URLs do not push out the one retired
host. A listener asks for the events after a number; numbers increase over the whole life of the job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

EACH = 200  # events kept per kind
_TEXT_MAX = 400  # characters in a sentence
_CUT = "..."


class Kind(StrEnum):
    """The subject of an event."""

    RUN = "run"  # started, resumed, ended
    CONTROL = "control"  # a user's command
    CHECKPOINT = "checkpoint"
    SLICE = "slice"  # the seen-set grew, or was compacted
    BACKOFF = "backoff"  # a host is held: 429, 503, snoozed
    RETIRED = "retired"  # a host is retired
    SOFT404 = "soft404"  # a host sends a page for nonexistent paths
    ERROR = "error"  # a URL failed, the disk is full, or a file is damaged


class Event(Struct, frozen=True):
    """An event. ``time`` is in seconds since 1970. ``host`` is a host key if the event is about a host."""

    number: int
    time: float
    kind: Kind
    text: str
    host: str | None = None


class Events:
    """The most recent events of each kind."""

    def __init__(self) -> None:
        self._kept: dict[Kind, deque[Event]] = {kind: deque(maxlen=EACH) for kind in Kind}
        self.last = 0  # number of the newest event; 0 if there is none

    def add(self, now: float, kind: Kind, text: str, host: str | None = None) -> None:
        """Add an event. ``text`` is a sentence without its full stop; long text is cut."""
        if len(text) > _TEXT_MAX:
            text = text[: _TEXT_MAX - len(_CUT)] + _CUT
        self.last += 1
        self._kept[kind].append(Event(self.last, now, kind, text, host))

    def after(self, number: int) -> list[dict[str, Any]]:
        """Return the kept events with a larger number, oldest first, as mappings with the fields of ``Event``."""
        if number >= self.last:
            return []
        newer = (event for ring in self._kept.values() for event in ring if event.number > number)
        return [asdict(event) for event in sorted(newer, key=lambda event: event.number)]

    def restore(self, events: Iterable[Event]) -> None:
        """Restore the events that ``after(0)`` returned."""
        for event in events:
            self._kept[event.kind].append(event)
            self.last = max(self.last, event.number)

"""What a crawl can do now for a host whose time has come: hand out its next URL, or let it wait, and what for."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from crawler.frontier.slot_share import ALL, QUICK, Kinds


class Bar(StrEnum):
    """What a host waits for whose time has come. If several apply, the first in this list counts."""

    CRAWL = "crawl"  # the crawl hands out nothing
    RATE = "rate"  # requests wait for the limit of all hosts together
    SLOT = "slot"  # no slot is free, or none for hosts of its kind
    TURN = "turn"  # other hosts go first

    @property
    def words(self) -> str:
        """The reason in the table of hosts."""
        return _WORDS[self]


_WORDS = {
    Bar.CRAWL: "its time has come, but the crawl hands out nothing now",
    Bar.RATE: "its time has come, and requests wait for the rate limit (politeness.rate)",
    Bar.SLOT: "its time has come, and it waits for a slot",
    Bar.TURN: "its time has come, and it waits for its turn among other hosts",
}


class Serving(Struct, frozen=True):
    """``bar``: what all due hosts wait for; None if nothing. ``kinds``: which kinds of hosts may have a slot (see
    ``slot_share``). A host that takes longer than ``slow_from`` seconds is slow."""

    bar: Bar | None = None
    kinds: Kinds = ALL
    slow_from: float = float("inf")

    def bar_of(self, kind: int, *, in_session: bool) -> Bar | None:
        """What a due host of that kind waits for; None if it is asked at once."""
        if not self.kinds[kind] and self.bar in (None, Bar.TURN):
            return Bar.SLOT
        if self.bar is not None:
            return self.bar
        return Bar.TURN if kind == QUICK and not (in_session or self.kinds[3]) else None  # new hosts go first


AT_ONCE = Serving()

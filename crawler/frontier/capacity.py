"""The capacity of a crawl for due hosts: whether the next URL is handed out at once, or why the host must wait."""

from __future__ import annotations

from msgspec import Struct

from crawler.base.figures import Worded
from crawler.frontier.slot_share import ALL, QUICK, Kinds


class Bar(Worded):
    """The limit that a due host waits for, and the reason in the host table. If several limits apply, the first in this
    list counts."""

    CRAWL = "crawl", "due, but the crawl hands out no URLs now"
    RATE = "rate", "due, but requests wait for the rate limit (politeness.rate)"
    SLOT = "slot", "due, but waiting for a slot"  # no slot is free, or none for hosts of its kind
    TURN = "turn", "due, but waiting for its turn among other hosts"


class Serving(Struct, frozen=True):
    """The current capacity of a crawl.

    ``bar`` is the limit that all due hosts wait for, or None. ``kinds`` are the kinds of hosts that may have a slot
    (see ``slot_share``). A host that takes longer than ``slow_from`` seconds to respond is slow.
    """

    bar: Bar | None = None
    kinds: Kinds = ALL
    slow_from: float = float("inf")

    def bar_of(self, kind: int, *, in_session: bool) -> Bar | None:
        """Return the limit that a due host of that kind waits for; None if the host is requested at once."""
        if not self.kinds[kind] and self.bar in (None, Bar.TURN):
            return Bar.SLOT
        if self.bar is not None:
            return self.bar
        return Bar.TURN if kind == QUICK and not (in_session or self.kinds[3]) else None  # new hosts go first


AT_ONCE = Serving()

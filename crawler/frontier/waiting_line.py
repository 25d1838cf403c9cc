"""Who waits for a turn, and for what: a look at the frontier that changes nothing."""

from __future__ import annotations

from msgspec import Struct

from crawler.frontier.serving import Bar, Serving
from crawler.frontier.workbench import Workbench

COUNTED_MOST = 16_384  # tickets of a heap that are visited for one look: some milliseconds


class Turn(Struct, frozen=True):
    """The turn of a host that is due. ``before``: how many hosts that wait go first; at least so many if ``at_least``.
    ``in_sessions``: hosts that keep their turns, and are asked meanwhile. ``asked_at``: when it was asked last, in
    seconds since 1970; None: never. ``starved``: it gets no slot, and hosts that were asked later have their turns
    before it."""

    before: int
    at_least: bool
    in_sessions: int
    asked_at: float | None
    starved: bool


class WaitingLine:
    """The hosts of a frontier that wait. Times are in seconds since 1970."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench

    def serving(self, bar: Bar | None) -> Serving:
        """What the crawl can do now, if all due hosts wait for ``bar``."""
        return Serving(bar, self._workbench.admits(), self._workbench.gate.share.slow_from)

    @property
    def held(self) -> tuple[int, int, int]:
        """The slots that quick, new and slow hosts hold."""
        quick, new, slow = self._workbench.gate.share.held
        return quick, new, slow

    def is_longer_than(self, most: int, now: float) -> bool:
        """Whether more than ``most`` hosts are due at ``now`` that may have a slot; some may be counted twice."""
        return self._workbench.is_longer_than(most, now)

    def turn(self, name: str, now: float) -> Turn | None:
        """The turn of a host, if it is due at ``now``; None if the job has not met it."""
        workbench = self._workbench
        host = workbench.look(name)
        if host is None:
            return None
        before, exact, in_sessions, next_since = workbench.standing(host, now, COUNTED_MOST)
        asked_at = host.politeness.last_request
        # Those that were asked before and wait beside it are asked again first; if none waits, they are asked at once.
        overtaken = asked_at < next_since and (asked_at > 0.0 or next_since != float("inf"))
        starved = overtaken and not (host.session_until or workbench.admits()[host.kind])
        return Turn(before, not exact, in_sessions, asked_at or None, starved)

    def place_in_group(self, name: str) -> int | None:
        """How many hosts are before this one in the line of its group; None if it is in none."""
        host = self._workbench.look(name)
        return None if host is None else self._workbench.gate.place_in_line(host)

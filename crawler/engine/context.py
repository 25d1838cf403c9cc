"""The shared parts that a worker passes to its runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.engine.fair_turns import Turns
from crawler.engine.loop_lag import LoopLag
from crawler.engine.outage_detector import OutageDetector
from crawler.engine.reading import Reading
from crawler.engine.rendering.renderer import Renderer
from crawler.engine.slots import Slots
from crawler.engine.user_code import UserCode
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Lease
from crawler.frontier.request_outcome import RequestOutcome
from crawler.web.extract.text_pool import Texts
from crawler.web.fetch import Fetches
from crawler.web.parsing.pages import PageParser

log = logging.getLogger("crawler")


class SaidOnce:
    """Logs a message once, even if it applies to several runs of a worker, as a full disk does."""

    def __init__(self) -> None:
        self._of: dict[str, set[object]] = {}

    def say(self, line: str, who: object) -> None:
        """Record that the message applies to ``who``, and log it unless it already applies to another run."""
        if line not in self._of:
            log.warning("%s", line)
        self._of.setdefault(line, set()).add(who)

    def over(self, line: str, who: object) -> bool:
        """Record that the message no longer applies to ``who``. Returns whether this was the last run to which it
        applied."""
        of = self._of.get(line, set())
        if who not in of:
            return False
        of.remove(who)
        if not of:
            del self._of[line]
        return not of

    def leave(self, who: object) -> None:
        """Remove all messages of ``who``: the run is over."""
        for line in list(self._of):
            self.over(line, who)


class Capacity(Struct, frozen=True):
    """A worker's capacity: the number of its ``slots`` and of those that are ``free``, and the number of requests that
    are ``waiting`` for the rate limit. ``rate``: that limit, in requests a second (None: no limit)."""

    slots: int
    free: int
    rate: float | None
    waiting: int


class Context(Struct, frozen=True):
    """The worker's network and clock (seconds since 1970), and how its runs wake it.

    ``wake``: something has changed, so look for a ready host again. ``line`` detects network outages. A visit that only
    waits lends its slot (``slots``). ``lag`` measures the event loop that all runs share. ``reading`` guards the
    parsing of bytes that servers send; ``fetcher`` already uses it. Each piece of work that takes milliseconds waits
    for its turn (``turns``). ``parser`` parses expensive pages; ``texts`` extracts the main text of pages; ``renderer``
    has the browser. ``rate`` waits until the rate limit permits a request: the first request of a visit has already
    waited, and each further request waits again. ``capacity`` returns the free capacity. ``code`` is the user's code.
    ``said`` logs a message once, even if it applies to several runs."""

    fetcher: Fetches
    clock: Callable[[], float]
    wake: Callable[[], None]
    line: OutageDetector
    slots: Slots
    lag: LoopLag
    reading: Reading
    turns: Turns
    parser: PageParser
    texts: Texts
    renderer: Renderer
    rate: Callable[[], Awaitable[None]]
    capacity: Callable[[], Capacity]
    code: UserCode = field(default_factory=UserCode)
    said: SaidOnce = field(default_factory=SaidOnce)

    def with_code(self, code: UserCode) -> Context:
        """Return a copy of the context with a run's user code."""
        return replace(self, code=code)


@contextmanager
def without_host(context: Context, frontier: Frontier, lease: Lease, request: RequestOutcome) -> Iterator[None]:
    """Return a context in which a visit holds neither its host nor its slot, because its response is complete."""
    if not lease.left:
        frontier.answered(lease, request, context.clock())
        context.wake()
    with context.slots.lent():
        yield

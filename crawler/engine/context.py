"""What a worker lends to the parts of its runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.engine.loop_lag import LoopLag
from crawler.engine.outage_detector import OutageDetector
from crawler.engine.reading import Reading
from crawler.engine.rendering.renderer import Renderer
from crawler.engine.said_once import SaidOnce
from crawler.engine.slots import Slots
from crawler.engine.turns import Turns
from crawler.engine.user_code import UserCode
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Lease
from crawler.frontier.request_outcome import RequestOutcome
from crawler.web.extract.text_pool import Texts
from crawler.web.fetch import Fetches
from crawler.web.parsing.pages import PageParser


class Capacity(Struct, frozen=True):
    """What a worker has left to give: ``free`` of its ``slots``. ``waiting`` requests wait for the rate limit, which is
    ``rate`` a second; None: there is no limit. ``alone``: nothing is handed out, because a page is visited alone."""

    slots: int
    free: int
    rate: float | None
    waiting: int
    alone: bool


class Context(Struct, frozen=True):
    """The worker's network and clock (seconds since 1970), and how its runs wake it.

    ``wake``: something has changed, so look for a ready host again. ``line`` judges whether the network works. A visit
    that only waits lends its slot (``slots``). ``lag`` measures the event loop that all runs share. What servers send
    is read with ``reading``; ``fetcher`` already is. Each piece of work that takes milliseconds waits for its turn
    (``turns``). Pages that may cost much are parsed by ``parser``; ``texts`` extracts the main text of pages;
    ``renderer`` has the browser. ``rate``
    waits until the rate limit permits a request: a visit has waited for its first one, and waits again for each that
    follows from it. ``capacity`` tells what is left. ``code``: that of the user.
    ``said``: what all runs would say alike.
    """

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
        """The same for a run with code of the user."""
        return replace(self, code=code)


@contextmanager
def without_host(context: Context, frontier: Frontier, lease: Lease, request: RequestOutcome) -> Iterator[None]:
    """A context in which a visit needs neither its host nor its slot any more: its response has ended."""
    if not lease.left:
        frontier.answered(lease, request, context.clock())
        context.wake()
    with context.slots.lent():
        yield

"""Fetches robots.txt like a page, except that redirects are followed at once and a long body is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawler.url.robots.parse import MAX_BYTES, robots_url, unreachable
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.whatwg import Rejected
from crawler.web.fetch.content_coding import GZIP, salvage
from crawler.web.fetch.outcome import Failure, Fetches, Keeps, RawExchange, Response

_REDIRECTS = 5  # the limit of RFC 9309, 2.3.1.2


class Followed(Struct, frozen=True):
    """The answer after a redirect, whether it came from another host, and its age in seconds."""

    answer: Response | Failure
    elsewhere: bool = False
    age: float = 0.0


class Exchanged(NamedTuple):
    """One captured exchange: its URL, its duration in seconds, and when it ended, by the clock of the event loop."""

    address: str
    seconds: float
    ended: float
    raw: RawExchange


class RobotsResult(Struct, frozen=True):
    """The final answer of a host.

    The body of a response has at most ``MAX_BYTES``. Its status is 3xx if there were more than five redirects in a row
    or one had no valid target. After a failure the host counts as unreachable (RFC 9309, 2.3.1.4). ``seconds`` and
    ``received`` are totals of all requests to the host itself.
    ``exchanged``: all captured exchanges, the redirects first."""

    last: Followed
    seconds: float
    received: int
    redirects: int = 0  # number of redirects followed
    exchanged: tuple[Exchanged, ...] = ()

    @property
    def answer(self) -> Response | Failure:
        return self.last.answer

    @property
    def says_nothing(self) -> bool:
        """True if the host did not answer, or if its answer neither states rules nor shows that the host has none."""
        if isinstance(self.answer, Failure):
            return not self.answer.kind.excluded
        return unreachable(self.answer.status)


class NotNow(Struct, frozen=True):
    """A redirect leads to a host that must get no request for ``wait`` seconds, or the request must be repeated after
    that time."""

    wait: float


def followed(answer: Response | Failure, *, elsewhere: bool = False) -> Followed | NotNow:
    """Return an answer, or NotNow if the host refused the request for lack of a signature, so that it must be
    repeated."""
    unsigned = isinstance(answer, Response) and answer.unsigned
    return NotNow(0.0) if unsigned else Followed(answer, elsewhere=elsewhere)


Follow = Callable[[str], Awaitable[Followed | NotNow]]


def locate(location: str, address: str) -> str | None:
    """Return the URL that a Location of ``address`` leads to; None if it is invalid."""
    target = Canonicaliser().canonicalise(location, address)
    return None if isinstance(target, Rejected) else target.href


async def fetch_robots(
    fetcher: Fetches,
    href: str,
    follow: Follow | None = None,
    locate: Callable[[str, str], str | None] = locate,
    keep: Keeps | None = None,
    *,
    file: str | None = None,
) -> RobotsResult | NotNow:
    """Fetch the robots.txt that governs ``href`` (any URL of the host), or a ``file`` that belongs to it.

    ``follow`` fetches the target of a redirect politely, and reports whether the target is on another host; if so, the
    totals in the result do not include that request. Returns NotNow if ``follow`` does. ``locate`` resolves the
    Location. ``keep``: see ``Fetches``.
    """

    async def ask(address: str) -> Followed | NotNow:
        return followed(await ask_robots(fetcher, address, keep))

    address = file or robots_url(href)
    hop = await (ask if follow is None or robots_url(address) == robots_url(href) else follow)(address)
    seconds, received, redirects = 0.0, 0, 0
    exchanged = list[Exchanged]()
    while isinstance(hop, Followed):
        if hop.answer.raw is not None:
            ended = asyncio.get_running_loop().time()
            exchanged.append(Exchanged(address, hop.answer.seconds, ended, hop.answer.raw))
        if not hop.elsewhere:
            seconds += hop.answer.seconds
            received += hop.answer.received if isinstance(hop.answer, Response) else 0
        location = hop.answer.location if isinstance(hop.answer, Response) else None
        target = None if redirects == _REDIRECTS or location is None else locate(location, address)
        if target is None:
            return RobotsResult(hop, seconds, received, redirects, tuple(exchanged))
        address, redirects = target, redirects + 1
        hop = await (follow or ask)(address)
    return hop


async def ask_robots(fetcher: Fetches, address: str, keep: Keeps | None = None) -> Response | Failure:
    """Make one request for a robots.txt. A gzip file without a Content-Encoding header is decompressed."""
    answer = await fetcher.fetch(address, accept=_any_type, max_body=MAX_BYTES, truncate=True, keep=keep)
    if isinstance(answer, Failure) or answer.body is None or not answer.body.startswith(GZIP):
        return answer
    body, whole = salvage("gzip", answer.body, MAX_BYTES)
    return replace(answer, body=body[:MAX_BYTES] if whole or len(body) > MAX_BYTES else body[: body.rfind(b"\n") + 1])


def _any_type(content_type: str | None) -> bool:
    return True

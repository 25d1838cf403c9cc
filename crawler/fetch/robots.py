"""Fetching robots.txt: like any page, but its redirects are followed at once and too much of it is cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from crawler.fetch.outcome import Failure, FailureKind, Fetches
from crawler.robots import robots_url
from crawler.settings import RobotsSettings
from crawler.urls import Canonicaliser, Rejected

_REDIRECTS = 5  # RFC 9309, 2.3.1.2


@dataclass(frozen=True, slots=True)
class RobotsResult:
    """What a host said: a status with the body (at most ``RobotsSettings.max_bytes``), or why it said
    nothing.

    A status of 3xx is left when more than five redirects came in a row or one led nowhere. ``status`` is None
    exactly when ``error`` is set: the host counts as unreachable (RFC 9309, 2.3.1.4). ``error`` is the kind of failure,
    a colon, and the message; ``passing`` says whether asking again may help. ``kind`` is the kind of failure by
    itself, ``seconds`` are those of all requests together, ``received`` their bytes. ``date`` is when the server says
    that it answered.
    """

    status: int | None
    body: bytes
    error: str | None
    passing: bool = False
    retry_after: str | None = None
    kind: FailureKind | None = None
    seconds: float = 0.0
    received: int = 0
    date: str | None = None


async def fetch_robots(fetcher: Fetches, href: str, settings: RobotsSettings, pause: float = 0.0) -> RobotsResult:
    """The robots.txt that rules ``href`` (any URL of the host). ``pause`` seconds lie between an answer and the next
    request, where it redirects: the caller has the host for itself meanwhile."""
    address = robots_url(href)
    canonicaliser = Canonicaliser()
    redirects = 0
    seconds, received = 0.0, 0
    while True:
        answer = await fetcher.fetch(address, accept=_any_type, max_body=settings.max_bytes, truncate=True)
        seconds += answer.seconds
        if isinstance(answer, Failure):
            return RobotsResult(
                None,
                b"",
                f"{answer.kind.value}: {answer.message}",
                answer.kind.transient,
                kind=answer.kind,
                seconds=seconds,
                received=received,
            )
        received += answer.received
        target = None if answer.location is None else canonicaliser.canonicalise(answer.location, address)
        if target is None or isinstance(target, Rejected) or redirects == _REDIRECTS:
            passing = answer.status >= 500 or answer.status == 429
            return RobotsResult(
                answer.status,
                answer.body or b"",
                None,
                passing,
                answer.retry_after,
                seconds=seconds,
                received=received,
                date=answer.headers.get("Date"),
            )
        address = target.href
        redirects += 1
        await asyncio.sleep(pause)


def _any_type(content_type: str | None) -> bool:
    return True

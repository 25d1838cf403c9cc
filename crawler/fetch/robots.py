"""Fetching robots.txt: like any page, but its redirects are followed at once and too much of it is cut."""

from __future__ import annotations

from dataclasses import dataclass

from crawler.fetch.outcome import Failure, Fetches
from crawler.robots import robots_url
from crawler.settings import RobotsSettings
from crawler.urls import Canonicaliser, Rejected

_REDIRECTS = 5  # RFC 9309, 2.3.1.2


@dataclass(frozen=True, slots=True)
class RobotsResult:
    """What a host said: a status with the body (at most ``RobotsSettings.max_bytes``), or why it said
    nothing.

    A status of 3xx is left when more than five redirects came in a row or one led nowhere. ``status`` is None
    exactly when ``error`` is set: the host counts as unreachable (RFC 9309, 2.3.1.4).
    """

    status: int | None
    body: bytes
    error: str | None


async def fetch_robots(fetcher: Fetches, href: str, settings: RobotsSettings) -> RobotsResult:
    """The robots.txt that rules ``href`` (any URL of the host)."""
    address = robots_url(href)
    canonicaliser = Canonicaliser()
    redirects = 0
    while True:
        answer = await fetcher.fetch(address, accept=_any_type, max_body=settings.max_bytes, truncate=True)
        if isinstance(answer, Failure):
            return RobotsResult(None, b"", answer.message)
        target = None if answer.location is None else canonicaliser.canonicalise(answer.location, address)
        if target is None or isinstance(target, Rejected) or redirects == _REDIRECTS:
            return RobotsResult(answer.status, answer.body or b"", None)
        address = target.href
        redirects += 1


def _any_type(content_type: str | None) -> bool:
    return True

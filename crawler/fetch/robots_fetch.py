"""Fetching robots.txt: like any page, but its redirects are followed at once and too much of it is cut."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from crawler.fetch.outcome import Failure, FailureKind, Fetches, Response
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
    that it answered. ``elsewhere``: another host, to which this one redirects, is what gave the answer,
    ``age`` seconds ago.
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
    elsewhere: bool = False
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class NotNow:
    """A redirect leads to a host that cannot be asked for ``wait`` seconds."""

    wait: float


@dataclass(frozen=True, slots=True)
class Followed:
    """What a redirect led to; whether that is another host; and how many seconds ago it was answered."""

    answer: Response | Failure
    elsewhere: bool
    age: float = 0.0


async def fetch_robots(
    fetcher: Fetches,
    href: str,
    settings: RobotsSettings,
    follow: Callable[[str], Awaitable[Followed | NotNow]] | None = None,
) -> RobotsResult | NotNow:
    """The robots.txt that rules ``href`` (any URL of the host). ``follow`` asks for what it redirects to, politely; it
    says whether that was another host, and what that cost is no part of the result. NotNow where it says so."""
    address = robots_url(href)
    canonicaliser = Canonicaliser()
    answer, elsewhere = await ask_robots(fetcher, address, settings), False
    seconds, received, redirects, age = 0.0, 0, 0, 0.0
    while True:
        if not elsewhere:
            seconds += answer.seconds
            received += answer.received if isinstance(answer, Response) else 0
        if isinstance(answer, Failure):
            return RobotsResult(
                None,
                b"",
                f"{answer.kind.value}: {answer.message}",
                answer.kind.transient,
                kind=answer.kind,
                seconds=seconds,
                received=received,
                elsewhere=elsewhere,
            )
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
                elsewhere=elsewhere,
                age=age,
            )
        address = target.href
        redirects += 1
        if follow is None:
            answer = await ask_robots(fetcher, address, settings)
            continue
        followed = await follow(address)
        if isinstance(followed, NotNow):
            return followed
        answer, elsewhere, age = followed.answer, followed.elsewhere, followed.age


async def ask_robots(fetcher: Fetches, address: str, settings: RobotsSettings) -> Response | Failure:
    """One request for a robots.txt."""
    return await fetcher.fetch(address, accept=_any_type, max_body=settings.max_bytes, truncate=True)


def _any_type(content_type: str | None) -> bool:
    return True

"""A cache of responses to GET requests of pages (RFC 9111), shared by all pages. Pure: time is an argument.

It is in memory only, so it is empty at the start of a run. It never serves a stale response unless the server
has revalidated it (304). Responses without caching headers are fresh for a tenth of their age, scripts and style
sheets at least for ``UNSTATED`` seconds, because the pages of a site share them, and a browser would request them once.

Each page has its own cookies: it gets those that a response sets whenever the response is served, and a private
response only if it has the same cookies as the page that requested it. The browser's own caching headers are ignored:
its cache is disabled, so it sends them with each request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from msgspec import Struct
from msgspec.structs import replace

from crawler.web.browser.rendered import Answer, Kind

UNSTATED = 300.0  # seconds
_LONGEST_GUESS = 86_400.0  # seconds
_GUESSED = frozenset((200, 203, 204, 300, 301, 308, 404, 410))  # statuses cacheable without headers (RFC 9110)
_ENTRY = 1_024  # approximate bytes of a response besides headers and body


class Get(Struct, frozen=True):
    """A request as sent, and its time in seconds since 1970. Header names are in lower case."""

    url: str
    kind: Kind
    headers: Mapping[str, str]
    at: float


class Kept(Struct, frozen=True):
    """A cached response. ``vary`` has the request headers for which it may be used."""

    answer: Answer
    fresh_until: float
    vary: tuple[tuple[str, str], ...]

    @property
    def size(self) -> int:
        """The approximate number of bytes."""
        return len(self.answer.body) + _ENTRY + sum(len(name) + len(value) for name, value in self.answer.headers)

    @property
    def conditions(self) -> dict[str, str]:
        """The request headers for revalidating the response; empty if it cannot be revalidated."""
        said = _first(self.answer)
        pairs = (("if-none-match", "etag"), ("if-modified-since", "last-modified"))
        return {name: said[stated] for name, stated in pairs if stated in said}

    def fits(self, sent: Mapping[str, str]) -> bool:
        return all(sent.get(name, "") == value for name, value in self.vary)


class HttpCache:
    """The last response of each URL. The least recently used are evicted first."""

    def __init__(self, most: int) -> None:
        """``most`` is the maximum number of bytes."""
        self._most = most
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self.bytes = 0

    def find(self, get: Get) -> Kept | None:
        """Return the cached response to the request, fresh or stale, or None."""
        kept = self._kept.get(get.url)
        if kept is None or not kept.fits(get.headers):
            return None
        self._kept.move_to_end(get.url)
        return kept

    def keep(self, get: Get, answer: Answer, now: float) -> None:
        """Cache the response to a request, received at ``now``, if that is allowed. Replaces an earlier one."""
        self.drop(get.url)
        fresh, said, names = _lifetime(get, answer, now), _first(answer), set(_values(answer, "vary"))
        if fresh is None or "*" in names:
            return
        origin = () if said.get("access-control-allow-origin") == "*" else ("origin",)  # often missing in Vary
        own = ("cookie",) if "private" in _directives(answer) else ()
        names.update(("authorization", *origin, *own))
        vary = tuple((name, get.headers.get(name, "")) for name in map(str.lower, names))
        kept = Kept(answer, now + fresh, vary)
        if kept.size > self._most // 2 or (fresh <= 0 and not kept.conditions):
            return
        self._kept[get.url] = kept
        self.bytes += kept.size
        while self.bytes > self._most:
            self.drop(next(iter(self._kept)))

    def holds(self, get: Get, kept: Kept, said: Answer, now: float) -> Answer:
        """Revalidate a cached response with the server's 304 response ``said``. Returns the complete response."""
        new = [pair for pair in said.headers if not pair[0].lower().startswith("content-")]
        told = {name.lower() for name, _ in new}
        old = [pair for pair in kept.answer.headers if pair[0].lower() not in told]
        answer = replace(kept.answer, headers=(*old, *new))
        self.keep(get, answer, now)
        return answer

    def drop(self, url: str) -> None:
        """Remove the response of a URL."""
        dropped = self._kept.pop(url, None)
        self.bytes -= 0 if dropped is None else dropped.size


def _lifetime(get: Get, answer: Answer, now: float) -> float | None:
    """Return the number of seconds from ``now`` that the response is fresh, or None if it must not be cached."""
    said, control = _first(answer), _directives(answer)
    if "no-store" in control or answer.status in (206, 304) or answer.status < 200:
        return None
    date = _moment(said.get("date"))
    sent = now if date is None else date
    age = max(0.0, now - sent, (_seconds(said.get("age")) or 0.0) + now - get.at)
    if "no-cache" in control or ("no-cache" in said.get("pragma", "") and not control):
        return 0.0
    if "max-age" in control:
        return (_seconds(control["max-age"]) or 0.0) - age
    if "expires" in said:
        return (_moment(said["expires"]) or 0.0) - sent - age
    if answer.status not in _GUESSED:
        return None
    changed = _moment(said.get("last-modified"))
    guess = 0.0 if changed is None else min(_LONGEST_GUESS, (sent - changed) / 10)
    return max(guess - age, UNSTATED if get.kind in (Kind.SCRIPT, Kind.STYLESHEET) and answer.status == 200 else 0.0)


def _first(answer: Answer) -> dict[str, str]:
    """Return the first value of each header by its lower-case name."""
    return {name.lower(): value for name, value in reversed(answer.headers)}


def _values(answer: Answer, name: str) -> list[str]:
    """Return the values of a header that is a list."""
    lists = [value for header, value in answer.headers if header.lower() == name]
    return [value.strip() for value in ",".join(lists).split(",") if value.strip()]


def _directives(answer: Answer) -> dict[str, str]:
    pairs = (value.partition("=") for value in _values(answer, "cache-control"))
    return {name.strip().lower(): value.strip(' "') for name, _, value in pairs}


def _seconds(text: str | None) -> float | None:
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return float(text[:12])


def _moment(text: str | None) -> float | None:
    """Return an HTTP date in seconds since 1970, or None if it is invalid."""
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None

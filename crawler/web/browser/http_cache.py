"""A cache of answers to the GET requests of pages (RFC 9111), which they share. Pure: time is an argument.

It is in memory only: a run begins without it. It never gives a stale answer unless the server has said again that the
answer holds (304). Answers without any word about their life are fresh for a tenth of their age, and scripts and style
sheets for ``UNSTATED`` seconds at least: the pages of a site share them, and a browser would ask for them once.

Each page has cookies of its own: it gets those that an answer sets whenever it is given, and a private answer only if
it has the same as the page that asked. What the browser says of caching is not heard: it has no cache, and says so with
each request.
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
_GUESSED = frozenset((200, 203, 204, 300, 301, 308, 404, 410))  # statuses that may be kept without a word (RFC 9110)
_VARIANTS = 4  # of one URL
_ENTRY = 1_024  # bytes of an answer without headers and body, about


class Get(Struct, frozen=True):
    """A request as it was sent at a time, in seconds since 1970. Names of headers are in lower case."""

    url: str
    kind: Kind
    headers: Mapping[str, str]
    at: float


class Kept(Struct, frozen=True):
    """An answer that is kept. ``vary``: the headers of requests that it is for."""

    answer: Answer
    fresh_until: float
    vary: tuple[tuple[str, str], ...]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.answer.body) + _ENTRY + sum(len(name) + len(value) for name, value in self.answer.headers)

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that ask whether the answer still holds; none: nobody can say."""
        said = _first(self.answer)
        pairs = (("if-none-match", "etag"), ("if-modified-since", "last-modified"))
        return {name: said[stated] for name, stated in pairs if stated in said}

    def fits(self, sent: Mapping[str, str]) -> bool:
        return all(sent.get(name, "") == value for name, value in self.vary)


class HttpCache:
    """Answers by URL. What was not used for the longest time makes room."""

    def __init__(self, most: int) -> None:
        """``most``: bytes."""
        self._most = most
        self._kept: OrderedDict[str, list[Kept]] = OrderedDict()
        self.bytes = 0

    def find(self, get: Get) -> Kept | None:
        """What is kept for the request, fresh or not."""
        for kept in self._kept.get(get.url, ()):
            if kept.fits(get.headers):
                self._kept.move_to_end(get.url)
                return kept
        return None

    def keep(self, get: Get, answer: Answer, now: float) -> None:
        """Keep the answer to a request that came at ``now``, if it may be kept, in place of an earlier one."""
        every = [other for other in self.drop(get.url) if not other.fits(get.headers)]
        fresh, said, names = _lifetime(get, answer, now), _first(answer), set(_values(answer, "vary"))
        if fresh is not None and "*" not in names:
            origin = () if said.get("access-control-allow-origin") == "*" else ("origin",)  # servers forget to vary
            own = ("cookie",) if "private" in _directives(answer) else ()
            names.update(("authorization", *origin, *own))
            vary = tuple((name, get.headers.get(name, "")) for name in map(str.lower, names))
            kept = Kept(answer, now + fresh, vary)
            if kept.size <= self._most // 2 and (fresh > 0 or kept.conditions):
                every = [*every[1 - _VARIANTS :], kept]
        if every:
            self._kept[get.url] = every
            self.bytes += sum(kept.size for kept in every)
        while self.bytes > self._most:
            self.drop(next(iter(self._kept)))

    def holds(self, get: Get, kept: Kept, said: Answer, now: float) -> Answer:
        """The server has answered 304 (``said``) to the conditions of what was kept. Returns the whole answer."""
        new = [pair for pair in said.headers if not pair[0].lower().startswith("content-")]
        told = {name.lower() for name, _ in new}
        old = [pair for pair in kept.answer.headers if pair[0].lower() not in told]
        answer = replace(kept.answer, headers=(*old, *new))
        self.keep(get, answer, now)
        return answer

    def drop(self, url: str) -> list[Kept]:
        """Forget the answers of a URL, and return them."""
        dropped = self._kept.pop(url, [])
        self.bytes -= sum(kept.size for kept in dropped)
        return dropped


def _lifetime(get: Get, answer: Answer, now: float) -> float | None:
    """For how many seconds from ``now`` the answer is fresh; None if it must not be kept."""
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
    """The first value of each header, by its name in lower case."""
    return {name.lower(): value for name, value in reversed(answer.headers)}


def _values(answer: Answer, name: str) -> list[str]:
    """The values of a header that is a list."""
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
    """An HTTP date in seconds since 1970."""
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None

"""A cache of responses to GET requests of pages (RFC 9111), shared by all pages. Pure: time is an argument.

It is in memory only, so it is empty at the start of a run. It never serves a stale response unless the server has
revalidated it (304). Only ``max-age`` makes a response fresh; other responses are revalidated by their ETag or
Last-Modified. Scripts and style sheets without a stated lifetime are fresh for ``UNSTATED`` seconds, because the pages
of a site share them, and a browser would request each of them only once.

Each page has its own cookies. Whenever a response is served to a page, the page gets the cookies that the response
sets. A private response is served only to pages with the same cookies as the page that requested it. The browser's own
caching headers are ignored: its cache is disabled, so it sends them with each request.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct
from msgspec.structs import replace

from crawler.web.browser.rendered import Answer, Kind, SubRequest

UNSTATED = 300.0  # seconds
_ENTRY = 1_024  # approximate bytes of a response besides headers and body


class Kept(Struct, frozen=True):
    """A cached response. ``vary`` has the request headers that a request must share to get this response."""

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


class HttpCache:
    """The last response of each URL. The least recently used are evicted first."""

    def __init__(self, most: int) -> None:
        """``most`` is the maximum number of bytes."""
        self._most = most
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self.bytes = 0

    def find(self, sent: SubRequest) -> Kept | None:
        """Return the cached response to the request, fresh or stale, or None. Its headers are in lower case."""
        kept = self._kept.get(sent.url)
        if kept is None or any(sent.headers.get(name, "") != value for name, value in kept.vary):
            return None
        self._kept.move_to_end(sent.url)
        return kept

    def keep(self, sent: SubRequest, at: float, answer: Answer) -> None:
        """Cache the response to a request that was sent at ``at``, if that is allowed. An earlier response of the URL
        is dropped in any case."""
        self.drop(sent.url)
        said, control, names = _first(answer), _directives(answer, "cache-control"), set(_directives(answer, "vary"))
        if "no-store" in control or "*" in names or answer.status in (206, 304) or answer.status >= 500:
            return
        origin = () if said.get("access-control-allow-origin") == "*" else ("origin",)  # servers often omit it in Vary
        own = ("cookie",) if "private" in control else ()
        names.update(("authorization", *origin, *own))
        fresh = _lifetime(sent.kind, answer)
        kept = Kept(answer, at + fresh, tuple((name, sent.headers.get(name, "")) for name in names))
        if kept.size > self._most // 2 or (fresh <= 0 and not kept.conditions):
            return
        self._kept[sent.url] = kept
        self.bytes += kept.size
        while self.bytes > self._most:
            self.drop(next(iter(self._kept)))

    def revalidate(self, sent: SubRequest, at: float, kept: Kept, said: Answer) -> Answer:
        """Cache a response again after the server's 304 response ``said``. Returns the complete response."""
        new = [pair for pair in said.headers if not pair[0].lower().startswith("content-")]
        renewed = {name.lower() for name, _ in new}
        old = [pair for pair in kept.answer.headers if pair[0].lower() not in renewed]
        answer = replace(kept.answer, headers=(*old, *new))
        self.keep(sent, at, answer)
        return answer

    def drop(self, url: str) -> None:
        """Remove the response of a URL."""
        dropped = self._kept.pop(url, None)
        self.bytes -= 0 if dropped is None else dropped.size


def _lifetime(kind: Kind, answer: Answer) -> float:
    """Return for how many seconds after its request a response is fresh."""
    said, control = _first(answer), _directives(answer, "cache-control")
    if "no-cache" in control:
        return 0.0
    if "max-age" in control:
        return _seconds(control["max-age"]) - _seconds(said.get("age", ""))
    is_shared = kind in (Kind.SCRIPT, Kind.STYLESHEET) and answer.status == 200
    return UNSTATED if is_shared and said.keys().isdisjoint(("expires", "pragma")) else 0.0


def _first(answer: Answer) -> dict[str, str]:
    """Return the first value of each header; the keys are the lower-case names."""
    return {name.lower(): value for name, value in reversed(answer.headers)}


def _directives(answer: Answer, name: str) -> dict[str, str]:
    """Return the items of a header that is a list, in lower case, with their arguments."""
    lists = [value for header, value in answer.headers if header.lower() == name]
    pairs = (item.partition("=") for item in ",".join(lists).split(",") if item.strip())
    return {key.strip().lower(): value.strip(' "') for key, _, value in pairs}


def _seconds(text: str) -> float:
    return float(text[:12]) if text.isascii() and text.isdigit() else 0.0

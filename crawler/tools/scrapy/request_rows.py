"""Scrapy's requests in the form stored by the job: Scrapy's own serialisation, pickled as in its disk queues."""

from __future__ import annotations

import pickle
import secrets
from typing import Any

from scrapy import Request, Spider
from scrapy.utils.request import request_from_dict

from crawler.frontier.entry import Entry
from crawler.frontier.order import Place, class_of
from crawler.job.found import Brought
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.request_name import with_name

_PROTOCOL = 4  # of pickle, as in scrapy.squeues
_ELSEWHERE = "scrapy.invalid"  # the host of requests that are not HTTP; `.invalid` is never a domain


class UnserialisableError(ValueError):
    """A request that cannot be stored; the message contains the reason."""


class UnreadableError(ValueError):
    """Stored bytes that the spider's current code cannot read; the message contains the reason."""


def own_name() -> str:
    """Return a unique name, for a request that must not count as a duplicate."""
    return f"once-{secrets.token_hex(16)}"


class RequestRows:
    """Converts requests of one spider to rows, and rows to requests."""

    def __init__(self, spider: Spider, *, newest_first: bool, start_last: bool) -> None:
        """With ``newest_first``, the newest of several requests of equal priority goes first. With ``start_last``,
        start requests go after all others, in their own order."""
        self._spider = spider
        self._newest_first = newest_first
        self._start_last = start_last
        self._canonicaliser = Canonicaliser()

    def row(self, request: Request, name: str, *, start: bool) -> Brought:
        """Convert a request to a row. Raises UnserialisableError."""
        try:
            stored = pickle.dumps(request.to_dict(spider=self._spider), _PROTOCOL)
        except Exception as error:  # pickling runs the spider's code, which may raise anything
            raise UnserialisableError(f"{type(error).__name__}: {error}") from error
        last = start and self._start_last
        depth = request.meta.get("depth", 0)
        entry = Entry(
            with_name(self._href(request), name),
            depth if isinstance(depth, int) and 0 <= depth < 2**32 else 0,
            self._via(request),
            seed=start,
            priority=class_of(request.priority),
        )
        return Brought(name, entry, Place(request.priority, last, self._newest_first and not last), stored)

    def _href(self, request: Request) -> str:
        known = self._canonicaliser.canonicalise(request.url)
        if isinstance(known, Canonical):
            return known.href
        return f"http://{request.url.partition(':')[0].lower()}.{_ELSEWHERE}/"

    def _via(self, request: Request) -> str | None:
        referer: Any = request.headers.get(b"Referer")
        if not referer:
            return None
        known = self._canonicaliser.canonicalise(referer.decode("latin-1"))
        return known.href if isinstance(known, Canonical) else None

    def request(self, stored: bytes) -> Request:
        """Convert a stored row to a request. Raises UnreadableError."""
        try:
            return request_from_dict(pickle.loads(stored), spider=self._spider)
        except Exception as error:  # unpickling runs the spider's code, which may raise anything
            raise UnreadableError(f"{type(error).__name__}: {error}") from error

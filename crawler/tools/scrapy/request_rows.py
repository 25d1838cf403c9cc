"""Requests of Scrapy as the job stores them: by Scrapy's own serialisation, pickled as its disk queues do it."""

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
_ELSEWHERE = "scrapy.invalid"  # stands for the host of what is not asked by HTTP; `.invalid` is no domain


class UnserialisableError(ValueError):
    """A request that cannot be stored; the text says why."""


class UnreadableError(ValueError):
    """Stored bytes that give no request with the spider's code of today; the text says why."""


def own_name() -> str:
    """A name for a request that nothing is a duplicate of."""
    return f"once-{secrets.token_hex(16)}"


class RequestRows:
    """Makes rows of the requests of one spider, and requests of its rows."""

    def __init__(self, spider: Spider, *, newest_first: bool, start_last: bool) -> None:
        """Of requests with one priority, the newest goes first or the oldest; start requests, in their order, behind
        all others or among them."""
        self._spider = spider
        self._newest_first = newest_first
        self._start_last = start_last
        self._canonicaliser = Canonicaliser()

    def row(self, request: Request, name: str, *, start: bool) -> Brought:
        """Raises UnserialisableError."""
        try:
            stored = pickle.dumps(request.to_dict(spider=self._spider), _PROTOCOL)
        except Exception as error:  # whatever the classes of the spider raise when they are taken apart
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
        """Raises UnreadableError."""
        try:
            return request_from_dict(pickle.loads(stored), spider=self._spider)
        except Exception as error:  # whatever the classes of the spider raise when they are made again
            raise UnreadableError(f"{type(error).__name__}: {error}") from error

"""Detects when a request is done, and its outcome.

No signal of Scrapy reports that a request is done: errbacks and failures pass no spider middleware, and an item is
still in the pipelines when the middlewares have seen it. But since version 1.0 the engine keeps a set of requests in
progress, and closes a spider when it is empty. A request leaves it when its response or failure has been
scraped: callback or errback have returned, each resulting request is enqueued, each item has passed the pipelines;
or, if the downloader middlewares returned another request, when that one is enqueued. So this package replaces
that set. The outcome of the download is the downloader's return value to the engine.

The items of a request are flushed to the files of Scrapy's feeds before it is done. A feed writes to a buffer. SIGKILL
would lose the items in the buffer although they have passed all pipelines, and a request that is done would never
produce them again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions.feedexport import FeedExporter
from scrapy.http import Response
from twisted.python.failure import Failure

from crawler.job.records import Outcome
from crawler.tools.scrapy.request_job import Ending

log = logging.getLogger(__name__)

DROPPED = Ending(Outcome.FAILED, error="the engine dropped it")


class UnknownEngineError(RuntimeError):
    """Scrapy's engine lacks the attributes that this package relies on."""


class InProgress(set[Request]):
    """The engine's set of requests in progress. ``done`` is called with each request that leaves it."""

    def __init__(self, done: Callable[[Request], None]) -> None:
        super().__init__()
        self._done = done

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._done(request)


def watch_engine(engine: Any, answered: Callable[[Request, Ending], None], done: Callable[[Request], None]) -> None:
    """Call ``answered`` whenever the download of a request ends, and ``done`` when a request is done. Raises
    UnknownEngineError."""
    slot: Any = getattr(engine, "_slot", None) or getattr(engine, "slot", None)
    if not isinstance(getattr(slot, "inprogress", None), set) or not hasattr(engine, "downloader"):
        raise UnknownEngineError("unsupported version of Scrapy: cannot find the engine's set of requests in progress")
    slot.inprogress = InProgress(done)
    download = engine.downloader.fetch

    def fetch(request: Request, *args: Any, **kwargs: Any) -> Any:
        deferred = download(request, *args, **kwargs)

        def note(result: Any) -> Any:
            answered(request, ending_of(result))
            return result

        return deferred.addBoth(note)

    engine.downloader.fetch = fetch


def ending_of(result: Any) -> Ending:
    """Return the outcome of a download: a response, another request, or a failure."""
    if isinstance(result, Response):
        kind = result.headers.get(b"Content-Type")
        content_type = None if kind is None else kind.decode("latin-1")
        return Ending(Outcome.FETCHED, result.status, None, content_type, len(result.body))
    if isinstance(result, Request):
        return Ending(Outcome.REDIRECT, location=result.url)
    if isinstance(result, Failure):
        value = result.value
        said = f"{type(value).__name__}: {value}".removesuffix(": ")
        return Ending(Outcome.EXCLUDED if isinstance(value, IgnoreRequest) else Outcome.FAILED, error=said)
    return DROPPED


class ItemFeeds:
    """The feeds of one spider, from ``-o`` and FEEDS."""

    def __init__(self, crawler: Any) -> None:
        made = getattr(getattr(crawler, "extensions", None), "middlewares", ())
        self._exporters = [each for each in made if isinstance(each, FeedExporter)]
        self._due = False
        self._told = False

    def ended(self) -> None:
        """Record that a request is done, so that its items must be flushed before its end is written."""
        self._due = True

    def flush(self) -> None:
        """Flush the feeds' buffers to the operating system if a request has finished since the last flush."""
        if not self._due:
            return
        self._due = False
        for exporter in self._exporters:
            for slot in exporter.slots:
                self._flush(getattr(slot, "file", None))

    def _flush(self, file: Any) -> None:
        flush = getattr(file, "flush", None)  # files of custom storages may lack methods other than write
        if flush is None or getattr(file, "closed", False):
            return
        try:
            flush()
        except OSError as error:  # a failing feed does not stop Scrapy; its buffer keeps the items
            self._due = True
            if not self._told:
                self._told = True
                log.error("Cannot write items to their feed: %s: they would be lost if the spider is killed", error)

"""When a request is done, and what came of it.

No signal of Scrapy says that a request is done: errbacks and failures pass no spider middleware, and an item is in the
pipelines when the middlewares have seen it. But the engine keeps the set of requests in progress, in the same way in
all versions since 1.0, and closes a spider when it is empty. A request leaves it when its response or failure has been
scraped: callback or errback have returned, each request that they gave is enqueued, each item has passed the pipelines;
or, if the downloader middlewares returned another request, when that one is enqueued. So this package takes the place
of that set. What came of the download is what the downloader returns to the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from crawler.job.records import Outcome
from crawler.tools.scrapy.request_job import Ending

_NOT_KNOWN = Ending(Outcome.FAILED, error="the engine dropped it")


class UnknownEngineError(RuntimeError):
    """An engine of Scrapy that has not got what this package relies on."""


class InProgress(set[Request]):
    """The engine's set of requests in progress. ``done`` is called with each request that leaves it."""

    def __init__(self, done: Callable[[Request], None]) -> None:
        super().__init__()
        self._done = done

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._done(request)


def watch_engine(engine: Any, answered: Callable[[Request, Ending], None], done: Callable[[Request], None]) -> None:
    """Have ``answered`` called when the download of a request has ended, and ``done`` when the request is done. Raises
    UnknownEngineError."""
    slot: Any = getattr(engine, "_slot", None) or getattr(engine, "slot", None)
    if not isinstance(getattr(slot, "inprogress", None), set) or not hasattr(engine, "downloader"):
        raise UnknownEngineError("this version of Scrapy keeps its requests in progress in an unknown way")
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
    """What came of a download: a response, another request, or a failure."""
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
    return _NOT_KNOWN

"""Handles start requests. A spider yields all of them at each start; those that an earlier run has queued are skipped.
Start requests that earlier runs had not reached when they were killed are new, and are queued. A request that a spider
yields twice in one run is queued twice: for each fingerprint the job stores how often it was queued, and how often it
was yielded in the last run.
"""

from __future__ import annotations

import struct
import weakref
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from scrapy import Request

from crawler.tools.scrapy.request_job import RequestJob

_NOTED = struct.Struct("<IIQ")  # times queued in total; times yielded in the last run; number of that run
_RUNS = b"runs"
_START = b"start"
_NUMBER = struct.Struct("<Q")


class StartRequests:
    """Recognises the start requests of this run. It is placed before all other spider middlewares, so it sees the
    requests exactly as the engine gets them."""

    def __init__(self) -> None:
        self._coming: weakref.WeakSet[Request] = weakref.WeakSet()
        self._job: RequestJob | None = None
        self._run = 0

    def watch(self, methods: defaultdict[str, deque[Any]]) -> None:
        """Insert this object before all spider middlewares. Start requests are a generator before Scrapy 2.13, and an
        asynchronous generator since then."""
        methods["process_start"].append(self.process_start)
        methods["process_start_requests"].append(self.process_start_requests)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for each in start:
            yield self._noted(each)

    def process_start_requests(self, start_requests: Iterable[Any], spider: Any) -> Iterator[Any]:
        return map(self._noted, start_requests)

    def _noted(self, each: Any) -> Any:
        if isinstance(each, Request):
            self._coming.add(each)
        return each

    def begin(self, job: RequestJob) -> None:
        """Start a run."""
        noted = job.note(_RUNS)
        self._run = 1 if noted is None else _NUMBER.unpack(noted)[0] + 1
        self._job = job
        job.put_note(_RUNS, _NUMBER.pack(self._run))

    def is_start(self, request: Request) -> bool:
        """Return True if the spider has just yielded the request as a start request. Must be called once for each
        request."""
        if request in self._coming:
            self._coming.discard(request)
            return True
        return False

    def is_due(self, fingerprint: bytes) -> bool:
        """Return True if a start request with that fingerprint must be queued; the caller then calls ``queued``.
        Otherwise record that the spider yielded it, and return False."""
        queued, came = self._counts(fingerprint)
        if came < queued:
            self._note(fingerprint, queued, came + 1)
        return came >= queued

    def queued(self, fingerprint: bytes) -> None:
        """Record that the request is queued, in the transaction that queues it. Do not call it for a request that is
        only in memory: the next run must queue that again."""
        queued, came = self._counts(fingerprint)
        self._note(fingerprint, queued + 1, came + 1)

    def _counts(self, fingerprint: bytes) -> tuple[int, int]:
        """Return how often the request was queued in total, and how often the spider yielded it in this run."""
        assert self._job is not None
        noted = self._job.note(_START + fingerprint)
        queued, came, run = (0, 0, 0) if noted is None else _NOTED.unpack(noted)
        return queued, came if run == self._run else 0

    def _note(self, fingerprint: bytes, queued: int, came: int) -> None:
        assert self._job is not None
        self._job.put_note(_START + fingerprint, _NOTED.pack(queued, came, self._run))

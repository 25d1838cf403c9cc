"""Watches for failing proxies. A failing proxy does not count against any host, but the operator must know about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from crawler.base.figures import duration
from crawler.inspect.statistics import FailingProxy
from crawler.job.job import Job
from crawler.job.metrics.catalogue import NAMED
from crawler.job.metrics.events import Kind
from crawler.web.fetch import Failure, FailureKind, Response

UNNAMED = "the proxy"


class ProxyWatch:
    """Records which proxies fail."""

    def __init__(self, clock: Callable[[], float], job: Job) -> None:
        """Events go to the job's event log."""
        self._clock = clock
        self._job = job
        self._failing: dict[str, FailingProxy] = {}  # by proxy name
        self._failures = 0

    def note(self, result: Response | Failure) -> None:
        """Record the result of an exchange."""
        if isinstance(result, Failure) and result.kind is FailureKind.PROXY:
            self._failed(result)
        elif self._failing and result.proxy is not None:
            self._answered(result.proxy)

    @property
    def failing(self) -> list[FailingProxy]:
        """The proxies that failed on their last request."""
        return list(self._failing.values())

    def figures(self) -> dict[str, Any]:
        """Return the statistics of the proxies of this run."""
        named = [asdict(proxy) for proxy in self.failing[:NAMED]]
        return {"failing": len(self._failing), "failures": self._failures, "named": named}

    def _failed(self, failure: Failure) -> None:
        self._failures += 1
        name = failure.proxy or UNNAMED
        if name not in self._failing:
            now = self._clock()
            self._failing[name] = FailingProxy(name, now, failure.message)
            text = f"a proxy fails; no host is blamed: {failure.message}"
            self._job.events.add(now, Kind.ERROR, text)

    def _answered(self, name: str) -> None:
        proxy = self._failing.pop(name, None)
        if proxy is not None:
            now = self._clock()
            self._job.events.add(now, Kind.RUN, f"{name} answers again after {duration(now - proxy.since)}")

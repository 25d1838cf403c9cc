"""Membership of a run in a partitioned crawl: its job is one of several that make up one crawl. Another component
assigns the partitions to processes, and knows whether this process still owns the partition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct

from crawler.web.fetch import Failure, Fetches, Followed, NotNow, Response, Through
from crawler.web.fetch.fence import FencedOffError, wait_to_send


def _without_limit() -> None:
    """The default allowance: no limit."""


def _is_nowhere(_: str) -> bool:
    return False


def _no_lag() -> tuple[int, float]:
    return 0, 0.0


async def _later(_: str) -> Followed | NotNow:
    return NotNow(0.0)


class Membership(Struct, frozen=True):
    """The calls of a run to the component that assigns partitions.

    ``may_request()``: True if this process certainly owns the partition now, so a request may start. It is called for
    each lease and each request, so it must be fast. Its implementation calls ``Run.wake`` when it would return True
    again. ``is_sent()``: True if everything that belongs to other partitions is durable there. ``allowance()``: how
    many pages the partition may fetch in total, as its share of the crawl's limit; None means no limit.
    ``is_elsewhere(address)``: True if a URL belongs to another partition; ``ask_robots(address)`` has that partition
    fetch a robots.txt. ``has_seeds``: True if the run gets the seeds of the crawl. ``lag()``: the number of messages
    that wait to be delivered to other partitions, and for how many seconds some of them have made no progress."""

    may_request: Callable[[], bool]
    is_sent: Callable[[], bool]
    allowance: Callable[[], int | None] = _without_limit
    is_elsewhere: Callable[[str], bool] = _is_nowhere
    ask_robots: Callable[[str], Awaitable[Followed | NotNow]] = _later
    has_seeds: bool = False
    lag: Callable[[], tuple[int, float]] = _no_lag


class FencedNetwork(Through):
    """A network that sends a request of a run only once the gap after earlier requests has passed and, if the run is a
    partition, only while this process owns the partition."""

    def __init__(
        self,
        fetcher: Fetches,
        wait: Callable[[str], float],
        may_send: Callable[[], bool] | None,
        note: Callable[[Response | Failure], None],
    ) -> None:
        """``wait(href)``: the seconds until a request may be sent; 0 means now. ``may_send()``: True if requests may be
        sent. ``note`` is called with each result."""
        super().__init__(fetcher)
        self._wait = wait
        self._may_send = may_send
        self._note = note

    async def fetch(self, href: str, **how: Any) -> Response | Failure:
        """See ``Fetches``. Raises FencedOffError."""
        before = wait_to_send.set(partial(self._until, href))
        try:
            self._check()
            result = await self._network.fetch(href, **how)
        finally:
            wait_to_send.reset(before)
        self._note(result)
        return result

    def _until(self, href: str) -> float:
        self._check()
        return self._wait(href)

    def _check(self) -> None:
        if self._may_send is not None and not self._may_send():
            raise FencedOffError

"""A run that is a partition: its job is one of several that make up one crawl. Another part shares the partitions out
to processes, and knows what the run cannot know: whether the partition is still this process's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct

from crawler.web.fetch import Failure, Fetches, Followed, NotNow, Response, Through
from crawler.web.fetch.fence import FencedOffError, wait_to_send


def _without_limit() -> None:
    """The allowance in a crawl without a limit."""


def _is_nowhere(_: str) -> bool:
    return False


def _no_lag() -> tuple[int, float]:
    return 0, 0.0


async def _later(_: str) -> Followed | NotNow:
    return NotNow(0.0)


class Membership(Struct, frozen=True):
    """What a run asks of whoever shares the crawl out.

    ``may_request()``: whether the partition is surely ours now, so that a request may begin. It is asked for each lease
    and each request, so it must be quick. Whoever supplies it calls ``Run.wake`` when it says yes again.
    ``is_sent()``: whether everything that belongs to other partitions is durable there. ``allowance()``: how many pages
    the partition may have fetched in all, of those that the whole crawl may; None: there is no limit.
    ``is_elsewhere(address)``: whether a URL belongs to another partition; ``ask_robots(address)`` has that partition
    fetch a robots.txt. ``has_seeds``: whether the run is given the seeds of the crawl. ``lag()``: how many messages
    wait for other partitions, and for how many seconds some were seen to wait without progress."""

    may_request: Callable[[], bool]
    is_sent: Callable[[], bool]
    allowance: Callable[[], int | None] = _without_limit
    is_elsewhere: Callable[[str], bool] = _is_nowhere
    ask_robots: Callable[[str], Awaitable[Followed | NotNow]] = _later
    has_seeds: bool = False
    lag: Callable[[], tuple[int, float]] = _no_lag


class FencedNetwork(Through):
    """A network to which a run sends requests only when the gap to others is over, and, if it is a partition, only
    while that is its own."""

    def __init__(
        self,
        fetcher: Fetches,
        wait: Callable[[str], float],
        may_send: Callable[[], bool] | None,
        note: Callable[[Response | Failure], None],
    ) -> None:
        """``wait(href)``: the seconds until a request may be sent; 0: it is sent now. ``may_send()``: whether it may be
        sent at all. ``note`` is called with each result."""
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

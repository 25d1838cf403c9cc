"""The time limits of a host do not count the time in which our own loop stood still."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import pytest
from aiohttp import web

from crawler.base.settings.parts import FetchSettings
from crawler.engine.loop_lag import STANDSTILL, LoopLag
from crawler.web.fetch import Failure, FailureKind, Fetcher, OwnDelays, Response
from crawler.web.fetch.patience import SLACK, Alarm, Patience
from tests.site import Site
from tests.virtual import run_virtually

STALL = 0.8
LIMIT = 0.5
LOCAL = FetchSettings(allow_private=True, headers_timeout=LIMIT, body_timeout=LIMIT, connect_timeout=LIMIT)


def answering(seconds: float) -> Site:
    """A site that has this loop stand still when it gets a request, and answers so many seconds after it got it."""
    ours = asyncio.get_running_loop()

    async def answer(request: web.Request) -> web.Response:
        ours.call_soon_threadsafe(time.sleep, STALL)
        await asyncio.sleep(seconds)
        return web.Response(text="x", content_type="text/html")

    return Site({"/": answer})


async def watched(fetcher: Fetcher, lag: LoopLag, url: str) -> Response | Failure:
    """Fetch a page while the loop's delays are measured."""
    watching = asyncio.create_task(lag.watch())
    try:
        await asyncio.sleep(0)
        return await fetcher.fetch(url)
    finally:
        watching.cancel()


@pytest.mark.parametrize("after", [0.1, STALL + 0.2])
async def test_a_host_that_answers_while_the_loop_stands_still_has_answered(after: float) -> None:
    lag = LoopLag()
    with answering(after) as site:
        async with Fetcher(LOCAL, concurrency=1, per_host=1, delays=OwnDelays(lag.stalled)) as fetcher:
            result = await watched(fetcher, lag, site.url("/"))
    assert isinstance(result, Response), result
    assert result.body == b"x"
    assert result.seconds < STALL, "its pace does not suffer"
    assert lag.stalled(asyncio.get_running_loop().time()) >= STALL * 0.9


async def test_a_host_that_does_not_answer_is_not_spared_by_a_stall() -> None:
    lag = LoopLag()
    with answering(3600) as site:
        async with Fetcher(LOCAL, concurrency=1, per_host=1, delays=OwnDelays(lag.stalled)) as fetcher:
            result = await watched(fetcher, lag, site.url("/"))
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.HEADERS_TIMEOUT
    assert result.seconds == pytest.approx(LIMIT, abs=STANDSTILL + 0.3)


async def ending(alarm: Alarm, after: float, limit: float, heard: Sequence[float] = ()) -> float:
    """The seconds after which an exchange ends that begins then and never does by itself. Bytes come at ``heard``."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(after)
    connection = Connection()
    for at in heard:
        loop.call_later(at, connection.hear)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as within:
            patience = Patience(within, alarm)
            patience.connection = connection
            patience.allow(limit, SILENCE)
            await asyncio.sleep(3600.0)
    assert patience.silent == (loop.time() - after < limit - SLACK)
    return loop.time() - after


class Connection:
    """A connection on which bytes come."""

    heard = 0.0
    paused = False

    def hear(self) -> None:
        self.heard = asyncio.get_running_loop().time()


SILENCE = 8.0


def test_each_of_many_exchanges_ends_when_it_must_whichever_began_first() -> None:
    async def main() -> list[float]:
        alarm = Alarm()
        plan = [(0.0, 6.0), (1.0, 2.0), (1.001, 2.0), (1.002, 2.0), (2.5, 5.0)]
        return await asyncio.gather(*(ending(alarm, after, limit) for after, limit in plan))

    ended = run_virtually(main())
    for took, limit in zip(ended, [6.0, 2.0, 2.0, 2.0, 5.0], strict=True):
        assert limit <= took + 1e-6 <= limit + SLACK + 1e-5

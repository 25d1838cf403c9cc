"""The time limits of a host do not count the time in which our own loop stood still."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import pytest
from aiohttp import web
from msgspec.structs import replace

from crawler.base.settings import FetchSettings
from crawler.engine.loop_lag import STANDSTILL, LoopLag
from crawler.web.fetch import Failure, FailureKind, Fetcher, OwnDelays, Response
from crawler.web.fetch.patience import SLACK, Alarm, Patience
from tests.site import Site
from tests.virtual import run_virtually

STALL = 0.8
LIMIT = 0.5
LOCAL = FetchSettings(allow_private=True, headers_timeout=LIMIT, body_timeout=LIMIT, connect_timeout=LIMIT)


class Stalls:
    """Stalls of a loop, as a test says."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def ended_at(limit: float, stalls: dict[float, float], work: float) -> tuple[float, bool, float]:
    """When an exchange ends that takes ``work`` seconds of the loop's clock, whether in time, and the host's seconds.
    ``stalls`` maps moments to the stall that was noticed then."""

    async def exchange() -> tuple[float, bool, float]:
        loop, stalled = asyncio.get_running_loop(), Stalls()
        for at, seconds in stalls.items():
            loop.call_later(at, setattr, stalled, "seconds", seconds)
        within = asyncio.timeout(None)
        patience = Patience(within, Alarm(stalled))
        try:
            async with within:
                patience.allow(limit)
                await asyncio.sleep(work)
        except TimeoutError:
            return loop.time(), False, patience.seconds
        finally:
            patience.end()
        return loop.time(), True, patience.seconds

    return run_virtually(exchange())


def test_a_limit_without_stalls_is_a_limit() -> None:
    assert ended_at(10.0, {}, 9.0) == (9.0, True, 9.0)
    assert ended_at(10.0, {}, 11.0) == (10.0, False, 10.0)


def test_a_stall_extends_the_limit_by_itself() -> None:
    assert ended_at(10.0, {5.0: 7.0}, 16.0) == (16.0, True, 9.0)
    assert ended_at(10.0, {5.0: 7.0}, 30.0) == (17.0, False, 10.0)


def test_stalls_that_come_while_the_limit_is_extended_count_too() -> None:
    assert ended_at(10.0, {5.0: 4.0, 12.0: 6.0}, 15.5) == (15.5, True, 9.5)
    assert ended_at(10.0, {5.0: 4.0, 12.0: 6.0}, 30.0) == (16.0, False, 10.0)


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
    assert lag.stalled() >= STALL * 0.9


async def test_without_a_measure_of_stalls_it_would_be_blamed() -> None:
    """What the test above sees is not an accident of the order of events."""
    with answering(STALL + 0.2) as site:
        async with Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher:
            result = await watched(fetcher, LoopLag(), site.url("/"))
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.HEADERS_TIMEOUT


async def test_a_host_that_does_not_answer_is_not_spared_by_a_stall() -> None:
    lag = LoopLag()
    with answering(3600) as site:
        async with Fetcher(
            replace(LOCAL, idle_timeout=60.0), concurrency=1, per_host=1, delays=OwnDelays(lag.stalled)
        ) as fetcher:
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


def test_bytes_end_a_silence_and_no_limit() -> None:
    async def main() -> list[float]:
        alarm = Alarm()
        quiet = ending(alarm, 0.0, 30.0)
        spoke = ending(alarm, 0.0, 30.0, [3.0, 5.0])
        drips = ending(alarm, 0.0, 30.0, [float(each) for each in range(30)])
        return await asyncio.gather(quiet, spoke, drips)

    assert run_virtually(main()) == pytest.approx([SILENCE, 5.0 + SILENCE, 30.0], abs=2 * SLACK)


def test_what_nobody_reads_is_no_silence() -> None:
    async def main() -> float:
        loop, connection = asyncio.get_running_loop(), Connection()
        connection.paused = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as within:
                patience = Patience(within, Alarm())
                patience.connection = connection
                patience.allow(60.0, SILENCE)
                await asyncio.sleep(20.0)
                connection.paused = False
                connection.hear()
                await asyncio.sleep(3600.0)
        return loop.time()

    assert run_virtually(main()) == pytest.approx(20.0 + SILENCE, abs=2 * SLACK)

"""All large bodies together are bounded, whoever sends them, and each of them arrives."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote

import brotli  # type: ignore[import-untyped]
import pytest

from crawler.base.settings.parts import FetchSettings
from crawler.web.fetch import Fetcher, OwnDelays, Response
from crawler.web.fetch.body_memory import SMALL, BodyMemory
from crawler.web.fetch.connector import HURRIED, Exchange
from crawler.web.fetch.patience import Alarm, Patience
from tests.virtual import run_virtually

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MIB = 2**20
BODY = 4 * MIB
PIECE = 64 * 1024


@pytest.mark.parametrize("seed", range(20))
async def test_the_budget_and_one_body_more_are_never_exceeded_and_all_come_to_their_end(seed: int) -> None:
    chance = random.Random(seed)
    budget, most = chance.randint(1, 8) * MIB, 3 * MIB
    memory = BodyMemory(budget)
    peak = ended = 0

    async def body(size: int) -> None:
        nonlocal peak, ended
        share = memory.share()
        got = 0
        while got < size:
            got = min(size, got + chance.randint(1, PIECE))
            if not share.take(got):
                await share.wait()
            peak = max(peak, memory.used)
            await asyncio.sleep(0)
            if chance.random() < 0.02:
                break  # cut off
        else:
            if share.counts:
                share.complete()
            for _ in range(chance.randint(0, 9)):
                await asyncio.sleep(0)
        share.close()
        ended += 1

    async with asyncio.timeout(30):
        await asyncio.gather(*(body(chance.randint(SMALL // 2, most)) for _ in range(40)))
    assert ended == 40
    assert memory.used == 0
    assert peak <= budget + most + 40 * (SMALL + PIECE)  # what does not count, and a piece on the way


def test_who_sends_slowly_keeps_others_waiting_for_a_short_time_only() -> None:
    """Each of them drips within all limits of its own."""

    async def drip(memory: BodyMemory, size: int, alarm: Alarm) -> float:
        begun = asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                exchange = Exchange(Patience(limit, alarm), memory, FetchSettings())
                exchange.enter("body", 600.0)
                try:
                    while True:
                        await exchange.room(size)
                        await asyncio.sleep(5.0)
                        size += 1
                finally:
                    exchange.patience.end()
                    exchange.share.close()
        return asyncio.get_running_loop().time() - begun

    async def main() -> tuple[float, list[float]]:
        memory = BodyMemory(9 * MIB)
        alarm = Alarm()
        dripping = [asyncio.create_task(drip(memory, 2 * MIB, alarm)) for _ in range(4)]
        await asyncio.sleep(60.0)
        assert 8 * MIB < memory.used < 9 * MIB
        begun = asyncio.get_running_loop().time()
        exchange = Exchange(Patience(asyncio.timeout(None), alarm), memory, FetchSettings())
        exchange.enter("body", 1.0)
        await exchange.room(2 * MIB)
        waited = asyncio.get_running_loop().time() - begun
        assert exchange.patience.seconds == pytest.approx(0.0), "it is not its own time"
        exchange.patience.end()
        exchange.share.close()
        return waited, await asyncio.gather(*dripping)

    waited, dripped = run_virtually(main())
    assert waited <= HURRIED
    assert max(dripped) < 600.0


async def test_bodies_wait_in_their_sockets_and_their_time_limits_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.web.fetch.fetcher.BUDGET", BODY)

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % BODY)
        writer.write(bytes(BODY))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    href = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    settings = FetchSettings(allow_private=True, body_timeout=1.0)
    needed = 0  # bodies that are read and worked on
    most = 0

    async def visit(fetcher: Fetcher) -> None:
        nonlocal needed, most
        got = await fetcher.fetch(href)
        assert isinstance(got, Response), got
        assert got.received == BODY
        needed += 1
        most = max(most, needed)
        await asyncio.sleep(0.3)  # eight times this is more than the time limit
        needed -= 1

    async with Fetcher(settings, concurrency=8, per_host=8) as fetcher, asyncio.timeout(60):
        await asyncio.gather(*(asyncio.create_task(visit(fetcher)) for _ in range(8)))
    server.close()
    await server.wait_closed()
    assert most <= 2


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstd.compress,
    "deflate": zlib.compress,
    "gzip, br": lambda data: brotli.compress(gzip.compress(data), quality=1),
}


async def test_a_coded_body_that_waits_holds_nothing_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.web.fetch.fetcher.BUDGET", 3 * MIB)
    """It is what it would have been, however it was cut into packets."""
    chance = random.Random(1)
    plain = {coding: chance.randbytes(MIB // 4) * 8 for coding in CODINGS}
    waited = 0

    @contextlib.contextmanager
    def waits() -> Iterator[None]:
        nonlocal waited
        waited += 1
        yield

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        coding = unquote((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()[1:])
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: {coding}\r\n\r\n".encode())
        coded = CODINGS[coding](plain[coding])
        for at in range(0, len(coded), 10_007):
            writer.write(coded[at : at + 10_007])
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    begin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    settings = FetchSettings(allow_private=True)

    async def visit(fetcher: Fetcher, coding: str) -> None:
        got = await fetcher.fetch(begin + quote(coding))
        assert isinstance(got, Response), got
        assert got.body == plain[coding]

    delays = OwnDelays(waits=waits)
    async with Fetcher(settings, concurrency=8, per_host=8, delays=delays) as fetcher, asyncio.timeout(60):
        await asyncio.gather(*(asyncio.create_task(visit(fetcher, coding)) for coding in 2 * [*CODINGS]))
    server.close()
    await server.wait_closed()
    assert waited

"""Whether a host can be reached, without a request."""

from __future__ import annotations

import asyncio

from crawler.base.settings import FetchSettings
from crawler.engine.own_line import connects
from crawler.web.fetch import Fetcher


def test_a_host_is_reached_and_gets_nothing() -> None:
    async def test() -> None:
        heard, came = list[bytes](), asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.read())
            writer.close()
            came.set()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with Fetcher(FetchSettings(allow_private=True), concurrency=1, per_host=1) as fetcher:
            assert await connects(fetcher, f"http://127.0.0.1:{port}/page")
            await came.wait()
            assert heard == [b""]
            server.close()
            await server.wait_closed()
            assert not await connects(fetcher, f"http://127.0.0.1:{port}/page")

    asyncio.run(test())

"""A request that is given up before the host has it all never gets there, however long the system would try."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from crawler.web.fetch import Failure, FailureKind, Fetcher
from tests.web.fetch.sites import HASTY, LOCAL

MUCH = 4_000_000  # bytes of a request: more than the buffers of both ends hold


async def all_that_comes(connection: socket.socket) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MUCH)
    with suppress(ConnectionError):
        while piece := await loop.sock_recv(connection, 65_536):
            data += piece
    return data


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("size", [200_000, MUCH])  # all of it in the buffer of the system, or some in our own
async def test_what_has_not_reached_the_host_is_dropped(cancelled: bool, size: int) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # so that the rest waits at the other end
        listening.setblocking(False)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        async with Fetcher(LOCAL if cancelled else HASTY, concurrency=1, per_host=1) as fetcher:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/{'x' * size}"
            fetching = asyncio.create_task(fetcher.fetch(url))
            connection, _ = await loop.sock_accept(listening)
            with connection:
                if cancelled:
                    await loop.sock_recv(connection, 1)
                    fetching.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await fetching
                else:
                    result = await fetching
                    assert isinstance(result, Failure)
                    assert result.kind is FailureKind.HEADERS_TIMEOUT
                assert b"\r\n\r\n" not in await all_that_comes(connection)

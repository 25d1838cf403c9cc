"""What a GET costs: our fetcher beside a bare aiohttp, and the lenient reader of heads beside aiohttp's own.

    python benchmarks/get.py [--batches N] [--size N]

One process; the server is a child that answers with the same bytes, over connections that stay open. CPU time of the
client, in small batches that take turns; the least of each, since whatever else the machine does only adds.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import time
from collections.abc import Awaitable, Callable

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler

from crawler.bench.machine import describe_machine
from crawler.fetch import Fetcher, Response
from crawler.fetch.lenient import LenientHandler
from crawler.settings import FetchSettings

BODY = b"<p>hello</p>" * 400
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 08:00:00 GMT\r\n"
    b"Content-Type: text/html; charset=utf-8\r\nCache-Control: max-age=0\r\nVary: Accept-Encoding\r\n"
    b'ETag: "abc"\r\nContent-Length: %d\r\n\r\n' % len(BODY) + BODY
)
LIMIT = 2**18
Get = Callable[[], Awaitable[None]]


class Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWER)


def serve(listening: socket.socket) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Server, sock=listening)
        await server.serve_forever()

    asyncio.run(run())


async def microseconds(get: Get, size: int) -> float:
    began = time.process_time()
    for _ in range(size):
        await get()
    return (time.process_time() - began) / size * 1e6


def reading(handler: ResponseHandler, *, decompress: bool) -> Get:
    async def read() -> None:
        handler.set_response_params(
            read_until_eof=True,
            auto_decompress=decompress,
            max_line_size=LIMIT,
            max_field_size=LIMIT,
            max_headers=256,
        )
        handler.data_received(ANSWER)
        _, payload = await handler.read()
        payload.read_nowait(-1)

    return read


async def measure(url: str, batches: int, size: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    target = yarl.URL(url)
    async with (
        Fetcher(FetchSettings(allow_private=True), concurrency=4, per_host=1, environ={}) as fetcher,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):

        async def ours() -> None:
            answer = await fetcher.fetch(url)
            assert isinstance(answer, Response)
            assert answer.body == BODY

        async def bare() -> None:
            async with session.get(target, allow_redirects=False) as answer:
                assert await answer.read() == BODY

        ways = {
            "a GET by aiohttp": bare,
            "a GET by the fetcher": ours,
            "reading an answer, aiohttp": reading(ResponseHandler(loop), decompress=True),
            "reading an answer, lenient": reading(LenientHandler(loop, LIMIT), decompress=False),
        }
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(batches):
            for name, get in ways.items():
                least[name] = min(least[name], await microseconds(get, size))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=200, metavar="N")
    parser.add_argument("--size", type=int, default=20, metavar="N", help="requests a batch")
    arguments = parser.parse_args()
    print(*describe_machine(), sep="\n")
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listening,), daemon=True)
    server.start()
    listening.close()
    try:
        for name, least in asyncio.run(measure(url, arguments.batches, arguments.size)).items():
            print(f"{name:30} {least:6.1f} us")
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()

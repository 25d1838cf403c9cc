"""Connections that are kept: a request goes out once, whatever becomes of them. The server's log decides."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest

from crawler.web.fetch import Failure, FailureKind, Fetcher, Response
from tests.web.fetch.sites import LOCAL, page, site

URLS = 10


async def reset(writer: asyncio.StreamWriter) -> None:
    """Say nothing, once the request has been read."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize("end", [reset, leave])
async def test_each_url_is_asked_for_once_and_after_two_such_ends_no_connection_is_kept(end: object) -> None:
    answers = [page(b"x"), end] * URLS
    async with (
        site(*answers, keep_alive=True) as served,  # type: ignore[arg-type]
        Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher,
    ):
        results = []
        for number in range(URLS):
            if number == 4:  # the server has ended two kept connections, and would go on
                served.answers = [page(b"x")]
            results.append(await fetcher.fetch(f"{served.url}{number}"))
    assert [line.split()[1] for line in served.requests] == [f"/{number}".encode() for number in range(URLS)]
    lost = [number for number, result in enumerate(results) if isinstance(result, Failure)]
    assert lost == [1, 3]
    for number in lost:
        failure = results[number]
        assert isinstance(failure, Failure)
        assert failure.kind is FailureKind.CUT_OFF
        assert failure.kept
    assert served.connections == 2 + URLS - 4


async def test_what_belongs_to_an_earlier_answer_costs_no_page() -> None:
    """An answer that has no body states one, and sends it when the next request is there."""
    bodyless = b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"
    async with (
        site(*[bodyless, b"hello" + page(b"x")] * 2, page(b"y"), keep_alive=True) as served,
        Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher,
    ):
        results = [await fetcher.fetch(f"{served.url}{number}") for number in range(6)]
    failed = {number: result for number, result in enumerate(results) if isinstance(result, Failure)}
    assert [*failed] == [1, 3]
    assert {(failure.kind, failure.kept) for failure in failed.values()} == {(FailureKind.CUT_OFF, True)}
    assert served.connections == 4, "after the second time no connection is kept"


async def test_a_new_connection_that_ends_so_is_the_hosts_fault() -> None:
    async with (
        site(reset, page(b"x"), b"HTTP/1.1 2") as served,
        Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher,
    ):
        results = [await fetcher.fetch(served.url) for _ in range(3)]
    assert len(served.requests) == 3
    assert [result.kept for result in results if isinstance(result, Failure)] == [False, False]


async def test_a_connection_that_ended_before_the_request_left_is_replaced_at_once() -> None:
    """The end has come in and the event loop had no turn to read it. The server cannot have read what was not sent."""
    leaves, answered = threading.Event(), 0

    def serve(listener: socket.socket) -> None:
        nonlocal answered
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(10_000).endswith(b"\r\n\r\n")
                answered += 1
                connection.sendall(page(b"x"))
                assert leaves.wait(60)
            ended.set()

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        async with Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher:
            assert isinstance(await fetcher.fetch(url), Response)
            leaves.set()
            assert ended.wait(60)  # the loop stands still until the server has closed the connection
            assert isinstance(await fetcher.fetch(url), Response)
        server.join(60)
    assert answered == 2

"""HTTP/1.1 as servers write it: browsers read it, so does the crawler, however the bytes are cut into packets."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

import aiohttp
import pytest

from crawler.web.fetch.connector import HEAD_MOST
from crawler.web.fetch.lenient import LenientHandler, Malformed


class Wire(asyncio.Transport):
    """A connection that the test fills by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.patient = False
        self.paused = False

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        if not self.patient:
            raise AssertionError("more was sent than a test needs")
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Talk:
    """One connection, and what is read from it."""

    def __init__(self, max_head: int = HEAD_MOST) -> None:
        self.wire = Wire()
        self.handler = LenientHandler(asyncio.get_running_loop(), max_head)
        self.handler.connection_made(self.wire)
        self.ask()

    def ask(self) -> None:
        self.handler.set_response_params(
            read_until_eof=True, auto_decompress=False, max_line_size=2**18, max_field_size=2**18, max_headers=2**18
        )

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        message, payload = await self.handler.read()
        return message.code, dict(message.headers), await payload.read()


def cuts(raw: bytes) -> Iterator[list[bytes]]:
    """The same bytes in one packet, in packets of one byte, and in two at every place."""
    yield [raw]
    yield [raw[at : at + 1] for at in range(len(raw))]
    for at in range(1, min(len(raw), 500)):
        yield [raw[:at], raw[at:]]


async def said(packets: list[bytes]) -> tuple[int, dict[str, str], bytes] | str:
    talk = Talk()
    for packet in packets:
        talk.handler.data_received(packet)
    talk.handler.connection_lost(None)
    try:
        return await asyncio.wait_for(talk.answer(), 5)
    except Malformed as error:
        return error.message
    except aiohttp.ClientError as error:
        return type(error).__name__


HTML = b"Content-Type: text/html\r\n"
OK = b"HTTP/1.1 200 OK\r\n" + HTML
TYPE = {"Content-Type": "text/html"}
FIVE = {"Content-Length": "5"}
CHUNKED = {"Transfer-Encoding": "chunked"}
HELLO = b"5\r\nhello\r\n0\r\n\r\n"  # in chunks
LF = b"HTTP/1.1 200 OK\n"
IDENTITY = b"Transfer-Encoding: identity\r\n"
CHUNKING = b"Transfer-Encoding: chunked\r\n\r\n"
OLD = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n"
CHUNKS = b"hello, \nwor\r\nld!"

TAKEN = {
    "as it should be": (OK + b"Content-Length: 5\r\n\r\nhello", 200, TYPE | FIVE, b"hello"),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 5\n\nhello", 200, TYPE | FIVE, b"hello"),
    "bare LF at the end": (OK + b"Content-Length: 5\n\nhello", 200, TYPE | FIVE, b"hello"),
    "bare LF before the end": (OK + b"Content-Length: 5\n\r\nhello", 200, TYPE | FIVE, b"hello"),
    "bare LF before chunks": (LF + b"Transfer-Encoding: chunked\n\n" + HELLO, 200, CHUNKED, b"hello"),
    "204 with a body": (b"HTTP/1.1 204 No Content\r\n" + HTML + b"\r\nhello", 204, TYPE, b""),
    "204 with length": (b"HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\nhello", 204, ..., b""),
    "304 with a body": (b"HTTP/1.1 304 Not Modified\r\n" + HTML + b"\r\nhello", 304, TYPE, b""),
    "304 with chunks": (b"HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n" + HELLO, 304, ..., b""),
    "the same length twice": (OK + b"Content-Length: 5\r\n" * 2 + b"\r\nhello", 200, TYPE | FIVE, b"hello"),
    "the same length in a list": (OK + b"Content-Length: 5, 5\r\n\r\nhello", 200, TYPE | FIVE, b"hello"),
    "length and chunks": (OK + b"Content-Length: 9\r\n" + CHUNKING + HELLO, 200, TYPE | CHUNKED, b"hello"),
    "-1 without a sign": (OK + b"Content-Length: 18446744073709551615\r\n\r\nhello", 200, TYPE, b"hello"),
    "-1": (OK + b"Content-Length: -1\r\n\r\nhello", 200, TYPE, b"hello"),
    "length beyond all numbers": (OK + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nhello", 200, TYPE, b"hello"),
    "length in words": (OK + b"Content-Length: five\r\n\r\nhello", 200, TYPE, b"hello"),
    "length with padding": (OK + b"Content-Length: 5 \r\n\r\nhello", 200, TYPE | FIVE, b"hello"),
    "less than the body": (OK + b"Content-Length: 5\r\n\r\nhello, world", 200, TYPE | FIVE, b"hello"),
    "no body, and yet one": (OK + b"Content-Length: 0\r\n\r\nhello", 200, TYPE | {"Content-Length": "0"}, b""),
    "garbage behind chunks": (OK + CHUNKING + HELLO + b"garbage", 200, TYPE | CHUNKED, b"hello"),
    "a second answer": (OK + b"Content-Length: 5\r\n\r\nhello" + OK + b"\r\n", 200, TYPE | FIVE, b"hello"),
    "space before the colon": (
        b"HTTP/1.1 200 OK\r\nContent-Type : text/html\r\nContent-Length\t: 5\r\n\r\nhello",
        200,
        TYPE | FIVE,
        b"hello",
    ),
    "a folded header": (b"HTTP/1.1 200 OK\r\nX: a\r\n  b\r\n\tc\r\n\r\nhello", 200, {"X": "a  b\tc"}, b"hello"),
    "a folded header of an odd version": (b"HTTP/2 200 OK\nX: a\n  b\n\tc\n\nhello", 200, {"X": "a b c"}, b"hello"),
    "a fold before all headers": (b"HTTP/1.1 200 OK\r\n X: a\r\n" + HTML + b"\r\nhello", 200, ..., b"hello"),
    "no colon": (b"HTTP/1.1 200 OK\r\nnonsense\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "no name": (b"HTTP/1.1 200 OK\r\n: x\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "no name that is one": (b"HTTP/1.1 200 OK\r\nA B: x\r\n(c): y\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "no value": (b"HTTP/1.1 200 OK\r\nX:\r\n" + HTML + b"\r\nhello", 200, {"X": ""} | TYPE, b"hello"),
    "UTF-8": (b"HTTP/1.1 200 OK\r\nX: \xc3\xa9\r\n\r\nhello", 200, {"X": "\xe9"}, b"hello"),
    "latin-1": (b"HTTP/1.1 200 OK\r\nX: \xe9\r\n\r\nhello", 200, {"X": "\udce9"}, b"hello"),
    "control characters": (
        b"HTTP/1.1 200 OK\r\nX: a\x01\x1b[1mb\x7f\r\n\r\nhello",
        200,
        {"X": "a\x01\x1b[1mb\x7f"},
        b"hello",
    ),
    "a lone CR": (b"HTTP/1.1 200 OK\r\nX: a\rY: b\r\n\r\nhello", 200, {"X": "a Y: b"}, b"hello"),
    "no headers": (b"HTTP/1.1 200 OK\r\n\r\nhello", 200, {}, b"hello"),
    "no reason": (b"HTTP/1.1 200\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "no reason, but its space": (b"HTTP/1.1 200 \r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "a reason in latin-1": (b"HTTP/1.1 404 Nicht gefunden \xfc\r\n" + HTML + b"\r\nhello", 404, TYPE, b"hello"),
    "a reason without its space": (b"HTTP/1.1 200OK\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "two spaces": (b"HTTP/1.1  200  OK\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "small letters": (b"http/1.1 200 ok\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "HTTP/1.2": (b"HTTP/1.2 200 OK\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "HTTP/2 in text": (b"HTTP/2 200 OK\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "HTTP/2.0 in text": (b"HTTP/2.0 200 OK\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "no version": (b"HTTP 200 OK\r\n" + HTML + b"\r\nhello", 200, TYPE, b"hello"),
    "empty lines first": (b"\r\n\n\r\n" + OK + b"\r\nhello", 200, TYPE, b"hello"),
    "four bytes first": (b"\xef\xbb\xbf " + OK + b"\r\nhello", 200, TYPE, b"hello"),
    "interim answers": (b"HTTP/1.1 103 X\r\nA: x\r\n\r\nHTTP/1.1 100\r\n\r\n" + OK + b"\r\nhello", 200, TYPE, b"hello"),
    "interim answers with bare LF": (
        b"HTTP/1.1 103 X\nA: x\n\nHTTP/1.1 100 X\n\n" + OK + b"\r\nhello",
        200,
        TYPE,
        b"hello",
    ),
    "another transfer coding": (OK + b"Transfer-Encoding: identity\r\n\r\nhello", 200, ..., b"hello"),
    "another transfer coding and a length": (OK + IDENTITY + b"Content-Length: 5\r\n\r\nhello", 200, ..., b"hello"),
    "chunked in capitals": (OK + b"Transfer-Encoding: Chunked\r\n\r\n" + HELLO, 200, ..., b"hello"),
    "chunked twice": (OK + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n" + HELLO, 200, ..., b"hello"),
    "trailers": (OK + CHUNKING + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", 200, TYPE | CHUNKED, b"hello"),
    "padded chunk sizes": (OK + CHUNKING + b"5  \r\nhello\r\n0\r\n\r\n", 200, ..., b"hello"),
    "chunks with bare LF": (OK + CHUNKING + b"5\nhello\nb\n, \nwor\r\nld!\n0\n\n", 200, ..., CHUNKS),
    "chunks with bare LF and trailers": (OK + CHUNKING + b"05 ;a=b\nhello\n0;c\nX: y\nZ: z\n\n", 200, ..., b"hello"),
    "chunks with either": (OK + CHUNKING + b"5\nhello\r\n1\r\n!\n0\r\n\r\n", 200, TYPE | CHUNKED, b"hello!"),
    "nothing but bare LF": (b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n", 200, CHUNKED, b"hello"),
    "an empty extension": (OK + CHUNKING + b"5;\r\nhello\r\n0;\r\n\r\n", 200, ..., b"hello"),
    "an open quote in an extension": (OK + CHUNKING + b'5;a="b\r\nhello\r\n0\r\n\r\n', 200, ..., b"hello"),
    "a control byte in an extension": (OK + CHUNKING + b"5;a=\x01\0\r\nhello\r\n0\r\n\r\n", 200, ..., b"hello"),
    "an odd extension later": (OK + CHUNKING + b'5\r\nhello\r\n1 ; ="\r\n!\r\n0\r\n\r\n', 200, ..., b"hello!"),
    "no colon in the trailer": (OK + CHUNKING + b"5\r\nhello\r\n0\r\nBad Trailer\r\n\r\n", 200, ..., b"hello"),
    "control bytes in the trailer": (OK + CHUNKING + b"5\r\nhello\r\n0\r\n\0\x01: \xff\r\n\r\n", 200, ..., b"hello"),
    "a trailer without its end": (OK + CHUNKING + b"5\r\nhello\r\n0\r\nX: y\r\n", 200, ..., b"hello"),
    "chunked in a list": (OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + HELLO, 200, ..., b"hello"),
    "identity and chunked": (OK + b"Transfer-Encoding: identity, chunked\r\n\r\n" + HELLO, 200, ..., b"hello"),
    "HTTP/1.0 in chunks": (OLD + b"\r\n" + HELLO, 200, ..., b"hello"),
    "HTTP/1.0, not in chunks": (OLD + b"\r\n<p>hello\nand more", 200, ..., b"<p>hello\nand more"),
    "HTTP/1.0, not in chunks, one line": (OLD + b"\r\n<p>hello", 200, ..., b"<p>hello"),
    "HTTP/1.0, nothing at all": (OLD + b"\r\n", 200, ..., b""),
    "300 headers": (OK + b"X: y\r\n" * 300 + b"\r\nhello", 200, ..., b"hello"),
    "300 headers in odd lines": (OK + b"X: y\n" * 300 + b"\nhello", 200, ..., b"hello"),
    "a redirect without the empty line": (b"HTTP/1.1 302 Found\r\nLocation: /x\r\n", 302, {"Location": "/x"}, b""),
    "a redirect cut in its Location": (b"HTTP/1.1 302 Found\r\nLocation: /x", 302, {"Location": "/x"}, b""),
    "cut between CR and LF": (b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r", 302, {"Location": "/x"}, b""),
    "cut with bare LF": (b"HTTP/1.1 302 Found\nLocation: /x\n", 302, {"Location": "/x"}, b""),
    "cut in a name": (OK + b"Content-Le", 200, TYPE, b""),
    "cut behind the length": (OK + b"Content-Length: 5\r\n", 200, ..., b""),
    "only a status line": (b"HTTP/1.1 200 OK\r\n", 200, {}, b""),
    "a status line without its end": (b"HTTP/1.1 404", 404, {}, b""),
    "cut behind an interim answer": (b"HTTP/1.1 103 X\r\n\r\n" + OK, 200, TYPE, b""),
    "extended chunks": (OK + CHUNKING + b"05;a=b\r\nhello\r\n0;c\r\n\r\n", 200, ..., b"hello"),
}


@pytest.mark.parametrize(("raw", "status", "headers", "body"), TAKEN.values(), ids=TAKEN.keys())
async def test_what_browsers_take(raw: bytes, status: int, headers: dict[str, str], body: bytes) -> None:
    for packets in cuts(raw):
        answer = await said(packets)
        assert isinstance(answer, tuple), (answer, packets)
        assert (answer[0], answer[2]) == (status, body), packets
        if headers is not ...:
            assert answer[1] == headers, packets


REFUSED = {
    "two lengths in a list": (OK + b"Content-Length: 5, 6\r\n\r\nhello", "two different lengths"),
    "a NUL": (b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\nhello", "a NUL in the headers"),
    "no HTTP at all": (b"hello", "ServerDisconnectedError"),
    "cut in the status": (b"HTTP/1.1 2", "ServerDisconnectedError"),
    "cut in an interim answer": (b"HTTP/1.1 103 X\r\nX: y\r\n", "ServerDisconnectedError"),
    "a status of two digits": (b"HTTP/1.1 20 OK\r\n\r\nhello", "no status in the first line"),
    "a status of four digits": (b"HTTP/1.1 2000 OK\r\n\r\nhello", "no status in the first line"),
    "no status": (b"HTTP/1.1 OK\r\n\r\nhello", "no status in the first line"),
    "a status below 100": (b"HTTP/1.1 042 OK\r\nX Y: z\r\n\r\nhello", "status 42"),
    "another protocol": (
        b"HTTP/1.1 101 X\r\nUpgrade: x\r\n\r\n\1\2",
        "the server switched protocols without being asked",
    ),
}


@pytest.mark.parametrize(("raw", "message"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_no_browser_takes(raw: bytes, message: str) -> None:
    for packets in cuts(raw):
        assert await said(packets) == message, packets


@pytest.mark.parametrize("packet", [1_000, 100_000, 10_000_000])
async def test_a_body_of_crumbs_ends_before_it_costs_much(packet: int) -> None:
    crumbs = b"1\r\na\r\n" * 1_000_000
    talk = Talk()
    sent = 0
    talk.handler.data_received(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while not talk.wire.closed:
        talk.handler.data_received(crumbs[sent : sent + packet])
        sent += packet
    assert sent <= 100_000 + packet
    _, payload = await talk.handler.read()
    with pytest.raises(Malformed):
        await payload.read()


@pytest.mark.parametrize(("size", "chunk"), [(10_000, 1), (200_000, 25), (3_000_000, 150)])
async def test_a_body_in_small_chunks_is_read(size: int, chunk: int) -> None:
    body = bytes(range(256)) * (size // 256)
    chunks = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    raw = b"".join([b"%x\r\n%b\r\n" % (len(each), each) for each in chunks]) + b"0\r\n\r\n"
    packets = deque(raw[at : at + 70_000] for at in range(0, len(raw), 70_000))
    talk = Talk()
    talk.wire.patient = True
    talk.handler.data_received(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    _, payload = await talk.handler.read()
    found = b""
    while not payload.at_eof():
        while packets and not talk.wire.paused:
            talk.handler.data_received(packets.popleft())
        found += await payload.readany()
    assert found == body
    assert not talk.wire.closed


ENDLESS = {
    "a header": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "headers with bare LF": (b"HTTP/1.1 200 OK\n", b"X: y\n"),
    "a folded header": (b"HTTP/1.1 200 OK\nX: y\n", b" x\n"),
    "a reason": (b"HTTP/1.1 200 ", b"x"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim answers with bare LF": (b"", b"HTTP/1.1 100 Continue\n\n"),
    "empty lines": (b"", b"\r\n"),
    "trailers": (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.parametrize("packet", [1, 100, 100_000])
async def test_headers_have_an_end(begin: bytes, more: bytes, packet: int) -> None:
    talk = Talk(max_head=20_000)
    talk.handler.data_received(begin)
    sent = 0
    while not talk.wire.closed:
        talk.handler.data_received(more * (packet // len(more) + 1))
        sent += packet
        assert sent <= 200_000
    if begin.endswith(b"0\r\n"):  # the body is complete
        assert (await talk.answer())[2] == b""
        return
    with pytest.raises(Malformed):
        await talk.answer()


@pytest.mark.parametrize("late", [b"garbage", OK + b"Content-Length: 5\r\n\r\nfalse"])
async def test_what_nobody_asked_for_closes_an_idle_connection(late: bytes) -> None:
    talk = Talk()
    talk.handler.data_received(OK + b"Content-Length: 5\r\n\r\nhello")
    assert (await talk.answer())[2] == b"hello"
    assert not talk.handler.should_close
    talk.handler.data_received(late)
    assert talk.handler.should_close
    assert talk.wire.closed


LEFT = [OK + b"Content-Length: 5\r\n\r\nhello, world", OK + b"Content-Length: 5\r\n\r\nhello" + OK]
LEFT += [b"HTTP/1.1 200 OK\nContent-Length: 7\n\nh\r\n\r\nelHT", OK + CHUNKING + HELLO + b"."]
LEFT += [OK + CHUNKING + b"5\nhello\n0\n\n"]
LEFT += [b"HTTP/1.1 204 No Content\r\n\r\nhello", b"HTTP/1.1 304 Not Modified\r\n\r\nhello"]
HONEST = [OK + b"Content-Length: 5\r\n\r\nhello", OK + b"Content-Length: 0\r\n\r\n", OK + CHUNKING + HELLO]
HONEST += [b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello"]
HONEST += [b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"]


@pytest.mark.parametrize("raw", [*LEFT, *HONEST])
async def test_a_connection_is_used_again_if_nothing_is_left(raw: bytes) -> None:
    for packets in cuts(raw):
        talk = Talk()
        for packet in packets:
            talk.handler.data_received(packet)
        await talk.answer()
        assert talk.handler.should_close == (raw in LEFT), packets
        assert raw in LEFT or not talk.wire.closed, packets

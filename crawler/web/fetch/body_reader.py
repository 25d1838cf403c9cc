"""Reads bodies, within the shared memory limit of all large bodies (``body_memory``).

A body that must wait for memory holds as little as possible. If its stated length is large, it waits before any of it
is read. If it has a content coding, it drops its decoded bytes and its decoder, whose window may be larger than the
body, and keeps only its coded form, which is usually much smaller. When it may continue, it is decoded again.
"""

from __future__ import annotations

import asyncio
from collections import deque

import aiohttp
from aiohttp import hdrs
from msgspec import Struct

from crawler.web.fetch.body_memory import SMALL
from crawler.web.fetch.capture import Capture
from crawler.web.fetch.connector import Exchange
from crawler.web.fetch.content_coding import Decoder, Overlong, Undecodable, decoder, salvage

_DROP_BYTES = 64 * 1024  # bytes; reading more than this costs more than a new connection
_DROP_SECONDS = 1.0
_DECODED_AT_ONCE = 1024 * 1024  # decoded bytes after which other tasks get a turn


class ReadBody(Struct, frozen=True):
    """A body with its content codings undone, and a note about faults in them. ``short``: the coding whose end is
    missing. ``fault``: why only part of the body could be decoded."""

    data: bytes | None
    note: str | None
    short: str | None = None
    fault: Undecodable | None = None


async def read_body(answer: aiohttp.ClientResponse, limit: int, truncate: bool, exchange: Exchange) -> ReadBody:
    """Return the whole body. If it is longer than ``limit``, return None or, with ``truncate``, its first ``limit``
    bytes. Raises Undecodable."""
    body, note = None, None
    if hdrs.CONTENT_ENCODING in answer.headers:
        body, note = _decoded(answer, limit, exchange.capture)
    if body is None:
        plain = await _read(answer, limit, truncate, exchange)
        if plain is not None and exchange.capture is not None:
            exchange.capture.is_body(plain)
        return ReadBody(plain, note)
    try:
        size = await body.read(exchange)
        if size <= limit:
            body.decode.end()
    except Overlong:
        size = limit + 1
    except Undecodable as error:
        found, whole = await body.salvaged()
        coding = str(error).partition(":")[0].removeprefix("x-")
        if not whole:
            return ReadBody(found, str(error), coding, error)
        if exchange.capture is not None:
            await keep_rest(answer, exchange.capture, exchange)
        return ReadBody(found, f"the data after the end of the {coding} stream was ignored")
    if size <= limit:
        short = body.decode.short
        note = f"the {short} data is cut short; the part that arrived was decoded" if short else body.decode.note
        return ReadBody(b"".join(body.chunks), note, None if short is None else short.removeprefix("x-"))
    return ReadBody(b"".join(body.chunks)[:limit] if truncate else None, body.decode.note)


def _decoded(answer: aiohttp.ClientResponse, limit: int, capture: Capture | None) -> tuple[_Decoded | None, str | None]:
    codings = ", ".join(answer.headers.getall(hdrs.CONTENT_ENCODING))
    decode, note = decoder(codings, limit)
    return None if decode is None else _Decoded(answer, codings, limit, decode, capture), note


async def _read(answer: aiohttp.ClientResponse, limit: int, truncate: bool, exchange: Exchange) -> bytes | None:
    stream, capture = answer.content, exchange.capture
    if stream.is_eof():
        chunk = await stream.readany()
        if capture is not None:
            capture.take(chunk)
        if len(chunk) <= limit:
            return chunk
        return chunk[:limit] if truncate else None
    stated = answer.content_length
    if stated is not None and stated > SMALL:
        if stated > limit and not truncate:
            return None
        await exchange.begin_large()
    chunks = []
    size = 0
    while size <= limit and (chunk := await stream.readany()):
        chunks.append(chunk)
        size += len(chunk)
        if capture is not None:
            capture.take(chunk)
        if size > SMALL:
            await exchange.room(size)
    if size <= limit:
        return b"".join(chunks)
    return b"".join(chunks)[:limit] if truncate else None


class _Decoded:
    """A body and the decoder of its content codings."""

    def __init__(
        self, answer: aiohttp.ClientResponse, codings: str, limit: int, decode: Decoder, capture: Capture | None
    ) -> None:
        self.chunks: list[bytes] = []
        self.decode = decode
        self._capture = capture
        self._answer = answer
        self._codings = codings
        self._limit = limit
        self._came: deque[bytes] | None = deque()  # raw chunks; None after a restart
        self._again: deque[bytes] = deque()  # raw chunks to decode again

    async def read(self, exchange: Exchange) -> int:
        """Read the body into ``chunks`` and return its size. Stops after the limit. Raises Undecodable, Overlong."""
        if (self._answer.content_length or 0) > SMALL:
            await exchange.begin_large()
        size = await self._read(exchange)
        if size is None:
            await exchange.wait(empty=True)
            size = await self._read(exchange)
            assert size is not None, "a body restarts only once"
        exchange.share.take(size + self._kept)  # the memory of the decoder's window is free now
        return size

    async def _read(self, exchange: Exchange) -> int | None:
        """Read the body into ``chunks`` and return its size. If it must wait and be decoded again, hold nothing and
        return None."""
        size, turn = 0, _DECODED_AT_ONCE
        while chunk := await self._next():
            for piece in self.decode.pieces(chunk):
                self.chunks.append(piece)
                size += len(piece)
                if size > self._limit:
                    return size
                if size >= turn:
                    turn = size + _DECODED_AT_ONCE
                    await asyncio.sleep(0)
                if size > SMALL and not exchange.share.take(size + self.decode.window + self._kept):
                    if self._begin_again():
                        return None
                    await exchange.wait()
        return size

    async def _next(self) -> bytes:
        if self._again:
            return self._again.popleft()
        chunk = await self._answer.content.readany()
        if self._came is not None:
            self._came.append(chunk)
        if self._capture is not None:
            self._capture.take(chunk)
        return chunk

    @property
    def _kept(self) -> int:
        """The number of raw bytes that were captured."""
        return 0 if self._capture is None else self._capture.size

    async def salvaged(self) -> tuple[bytes, bool]:
        """Return the part of a faulty body that can be decoded, and whether that is the whole body."""
        if self._came is None:
            return b"".join(self.chunks), False
        self.chunks.clear()
        return await asyncio.to_thread(salvage, self._codings, b"".join(self._came), self._limit)

    def _begin_again(self) -> bool:
        """Drop the decoded bytes, so that the body can be decoded again. Returns whether that is possible."""
        decode, _ = decoder(self._codings, self._limit)
        if self._came is None or decode is None:
            return False
        self._again, self._came, self.decode = self._came, None, decode
        self.chunks.clear()
        return True


async def keep_body(answer: aiohttp.ClientResponse, capture: Capture, exchange: Exchange) -> int:
    """Read a body only to capture it, up to the capture's limit, and return its size in bytes. A body whose stated
    length exceeds the limit is not read."""
    stated = answer.content_length
    if stated is not None and stated > capture.most:
        return await drop_body(answer, exchange)
    body = await _read(answer, capture.most, True, exchange)
    if body is not None:
        capture.is_body(body)
    return capture.size


async def keep_rest(answer: aiohttp.ClientResponse, capture: Capture, exchange: Exchange) -> None:
    """Capture the rest of a body that is not read further, up to the capture's limit."""
    while not capture.cut and (chunk := await answer.content.readany()):
        capture.take(chunk)
        await exchange.room(capture.size)


async def drop_body(answer: aiohttp.ClientResponse, exchange: Exchange) -> int:
    """Read a small unwanted body, so that its connection can be reused, and return its size in bytes.

    Errors are ignored, because the response is already complete without it."""
    stream = answer.content
    stated = answer.content_length
    if stream.at_eof() or (stated is not None and stated > _DROP_BYTES):
        return 0
    size = 0
    exchange.enter("drop", 2 * _DROP_SECONDS)
    try:
        async with asyncio.timeout(_DROP_SECONDS):
            while size <= _DROP_BYTES and (chunk := await stream.readany()):
                size += len(chunk)
    except (aiohttp.ClientError, OSError):
        return size
    return size

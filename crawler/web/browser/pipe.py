"""The DevTools protocol over the two pipes of a browser: JSON messages terminated by a zero byte.

A reply goes to its call, an event to the listener of its session. One connection carries all sessions ("flat").
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from typing import Any

import msgspec

Params = dict[str, Any]
Listener = Callable[[str, Params], None]  # called with the method and the parameters of an event


class BrowserGone(Exception):
    """The browser or its connection has ended."""


class CallFailed(Exception):
    """The browser returned an error for a command."""


class Message(msgspec.Struct):
    id: int | None = None
    method: str = ""
    params: Params = {}
    result: Params = {}
    error: Params | None = None
    sessionId: str = ""


_strict = msgspec.json.Decoder(Message).decode


def _decode(message: bytes) -> Message:
    """Decode a message. The text of a page may have lone surrogates, which ``msgspec`` rejects."""
    try:
        return _strict(message)
    except msgspec.DecodeError:
        with contextlib.suppress(ValueError, RecursionError):
            return msgspec.convert(json.loads(message.decode(errors="replace")), Message)
        return Message()  # an empty message is ignored; its caller has a time limit


_encode = msgspec.json.Encoder().encode


class Pipe(asyncio.Protocol):
    """The connection of one browser. The callbacks in ``when_gone`` are called once when it ends."""

    def __init__(self) -> None:
        self.listeners: dict[str, Listener] = {}  # by session; "" is the browser itself
        self.when_gone: list[Callable[[], None]] = []
        self._calls: dict[int, asyncio.Future[Params]] = {}
        self._number = 0
        self._partial: list[bytes] = []
        self._reads: asyncio.BaseTransport | None = None
        self._writes: asyncio.WriteTransport | None = None

    @classmethod
    async def connect(cls, reads: int, writes: int) -> Pipe:
        """Create a connection that owns the two descriptors."""
        loop, pipe = asyncio.get_running_loop(), cls()
        pipe._reads, _ = await loop.connect_read_pipe(lambda: pipe, os.fdopen(reads, "rb", 0))
        pipe._writes, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writes, "wb", 0))
        return pipe

    def close(self) -> None:
        for transport in (self._reads, self._writes):
            if transport is not None:
                transport.close()
        self.connection_lost(None)

    async def call(self, method: str, params: Params | None = None, session: str = "") -> Params:
        """Send a command and wait for its result."""
        reply: asyncio.Future[Params] = asyncio.get_running_loop().create_future()
        number = self.send(method, params, session)
        if self._writes is None or self._writes.is_closing():
            raise BrowserGone
        self._calls[number] = reply
        try:
            return await reply
        finally:
            self._calls.pop(number, None)

    def send(self, method: str, params: Params | None = None, session: str = "") -> int:
        """Send a command and ignore its reply. Returns the number of the command."""
        self._number += 1
        message: Params = {"id": self._number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        if self._writes is not None and not self._writes.is_closing():
            self._writes.write(self._framed(_encode(message)))
        return self._number

    def _framed(self, message: bytes) -> bytes:
        return message + b"\0"

    def data_received(self, data: bytes) -> None:
        *whole, rest = data.split(b"\0")
        for part in whole:
            self._partial.append(part)
            self._receive_whole()
        if rest:
            self._partial.append(rest)

    def _receive_whole(self) -> None:
        """Process a message whose last part has arrived."""
        message = b"".join(self._partial)
        self._partial.clear()
        self._receive(_decode(message))

    def _receive(self, message: Message) -> None:
        if message.id is None:
            listener = self.listeners.get(message.sessionId)
            if listener is not None:
                listener(message.method, message.params)
            return
        reply = self._calls.get(message.id)
        if reply is None or reply.done():
            return
        if message.error is None:
            reply.set_result(message.result)
        else:
            reply.set_exception(CallFailed(str(message.error.get("message", message.error))))

    def connection_lost(self, exc: Exception | None) -> None:
        for reply in self._calls.values():
            if not reply.done():
                reply.set_exception(BrowserGone())
        while self.when_gone:
            self.when_gone.pop()()

"""The DevTools protocol over the two pipes of a browser: JSON messages terminated by a zero byte.

A reply is passed to the call that it answers, an event to the listener of its session. One connection carries all
sessions ("flat").
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

Params = dict[str, Any]
Listener = Callable[[str, Params], None]  # called with the method and the parameters of an event


ENDED = "the browser has ended"


class Lost(Exception):
    """The page is gone, perhaps with the whole browser. The message says why."""


class CallFailed(Exception):
    """The browser did not do what a command asked. The message says why."""


class Pipe(asyncio.Protocol):
    """The connection of one browser. ``gone`` is done when the connection has ended."""

    def __init__(self) -> None:
        self.listeners: dict[str, Listener] = {}  # by session, or by the browser context of a new target
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls: dict[int, asyncio.Future[Params]] = {}
        self._number = 0
        self._partial: list[bytes] = []
        self._reads: asyncio.BaseTransport
        self._writes: asyncio.WriteTransport

    @classmethod
    async def connect(cls, reads: int, writes: int) -> Pipe:
        """Create a connection that owns the two descriptors."""
        loop, pipe = asyncio.get_running_loop(), cls()
        pipe._reads, _ = await loop.connect_read_pipe(lambda: pipe, os.fdopen(reads, "rb", 0))
        pipe._writes, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writes, "wb", 0))
        return pipe

    def close(self) -> None:
        self._reads.close()
        self._writes.close()
        self.connection_lost(None)

    async def call(self, method: str, params: Params | None = None, session: str = "") -> Params:
        """Send a command and wait for its result."""
        reply: asyncio.Future[Params] = asyncio.get_running_loop().create_future()
        number = self.send(method, params, session)
        if self.gone.done():
            raise Lost(ENDED)
        self._calls[number] = reply
        try:
            return await reply
        finally:
            self._calls.pop(number, None)

    def send(self, method: str, params: Params | None = None, session: str = "") -> int:
        """Send a command and ignore its reply. Returns the number of the command."""
        self._number += 1
        of_session = {"sessionId": session} if session else {}
        message = {"id": self._number, "method": method, "params": params or {}, **of_session}
        if not self.gone.done():
            self._write(json.dumps(message))
        return self._number

    def _write(self, message: str) -> None:
        self._writes.write(message.encode() + b"\0")

    def data_received(self, data: bytes) -> None:
        *whole, rest = data.split(b"\0")
        for part in whole:
            self._partial.append(part)
            self._receive(b"".join(self._partial).decode(errors="replace"))
            self._partial.clear()
        self._partial.append(rest)

    def _receive(self, text: str) -> None:
        message = json.loads(text)
        if "id" not in message:
            params = message.get("params", {})
            context = params.get("targetInfo", {}).get("browserContextId")
            listener = self.listeners.get(message.get("sessionId", context))
            if listener is not None:
                listener(message["method"], params)
            return
        reply = self._calls.get(message["id"])
        if reply is None or reply.done():
            return
        if "error" in message:
            reply.set_exception(CallFailed(message["error"]["message"]))
        else:
            reply.set_result(message["result"])

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        for reply in self._calls.values():
            if not reply.done():
                reply.set_exception(Lost(ENDED))

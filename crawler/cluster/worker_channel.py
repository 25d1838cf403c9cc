"""What the first process and its workers tell each other, on a socket that each worker inherits.

The first process sends ``Instructions`` once, and ``Halt`` when the worker is to stop. The worker sends lines for the
user, and at last how it ended. When it is to reload its settings, it sends ``Reread``, and gets ``Instructions`` again
or a ``Refusal``. Each message is a line of JSON. Settings go this way because they may hold secrets: the
words of a command line can be read by everybody on the machine.

When either end closes, the other process has ended.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec
from msgspec import Struct

from crawler.engine.lifecycle import Stop

MOST_BYTES = 64 * 2**20  # of a message: settings may name many patterns


class Instructions(Struct, frozen=True, tag="instructions"):
    """``tables``: the settings. ``places``: where each came from, see ``Settings``. ``urls`` and ``files``: the seeds,
    which the worker reads that has partition 0. ``expected``: how many workers begin together."""

    tables: dict[str, Any]
    places: list[list[str | int]]
    urls: list[str]
    files: list[str]
    expected: int


class Halt(Struct, frozen=True, tag="halt"):
    """Stop in order."""

    reason: Stop


class Reread(Struct, frozen=True, tag="reread"):
    """The worker wants the settings that the configuration has now."""


class Refusal(Struct, frozen=True, tag="refusal"):
    """They cannot be used, told in a line."""

    text: str


class Said(Struct, frozen=True, tag="said"):
    """A line for the user."""

    text: str


class Ended(Struct, frozen=True, tag="ended"):
    """The worker has ended in order: its part of ``Result``."""

    reason: Stop
    seeds_fetched: int
    last_seed_error: str | None


class Failed(Struct, frozen=True, tag="failed"):
    """The worker ends because of an error, told in a line. ``final``: another one would meet it too, because what the
    user gave cannot be used. ``damaged``: and so would any, until the crawl is repaired."""

    text: str
    final: bool
    damaged: bool = False


Message = Instructions | Halt | Reread | Refusal | Said | Ended | Failed
_DECODER = msgspec.json.Decoder(Message)


class Channel:
    """One end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """Take over one end of a pair of sockets."""
        return cls(*await asyncio.open_connection(sock=end, limit=MOST_BYTES))

    def tell(self, message: Message) -> None:
        """Send it, if the other process is still there."""
        if not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def heard(self) -> Message | None:
        """The next message; None if the other process has ended."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        # What a killed process began to say is no message.
        return _DECODER.decode(line) if line.endswith(b"\n") else None

    async def close(self) -> None:
        """Send what is left, and close."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

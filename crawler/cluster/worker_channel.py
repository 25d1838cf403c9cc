"""Messages between the first process and its workers, over a socket that each worker inherits.

The first process sends ``Instructions`` once, and ``Halt`` when the worker should stop. The worker sends lines for the
user, and finally how it ended. To reload its settings, it sends ``Reread``, and gets new ``Instructions`` or a
``Refusal``. Each message is a line of JSON. Settings are sent this way because they may hold secrets, and any user on
the machine can read command lines.

When one end closes, the process that held it has ended.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec
from msgspec import Struct

from crawler.engine.lifecycle import Stop

MOST_BYTES = 64 * 2**20  # maximum bytes of a message: settings may hold many patterns


class Instructions(Struct, frozen=True, tag="instructions"):
    """``tables``: the settings. ``places``: the origin of each setting, see ``Settings``. ``urls`` and ``files``: the
    seeds, read by the worker that owns partition 0. ``expected``: how many workers start together."""

    tables: dict[str, Any]
    places: list[list[str | int]]
    urls: list[str]
    files: list[str]
    expected: int


class Halt(Struct, frozen=True, tag="halt"):
    """Asks the worker to shut down cleanly."""

    reason: Stop


class Reread(Struct, frozen=True, tag="reread"):
    """Asks for the current settings of the configuration."""


class Refusal(Struct, frozen=True, tag="refusal"):
    """The settings cannot be used, for the reason given."""

    text: str


class Said(Struct, frozen=True, tag="said"):
    """A line for the user."""

    text: str


class Ended(Struct, frozen=True, tag="ended"):
    """The worker exited cleanly, with its part of the ``Result``."""

    reason: Stop
    seeds_fetched: int
    last_seed_error: str | None


class Failed(Struct, frozen=True, tag="failed"):
    """The worker ends with an error, described in one line. With ``final``, a replacement would also fail, because of
    the user's input. With ``damaged``, any worker would fail until the crawl is repaired."""

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
        """Wrap one end of a socket pair."""
        return cls(*await asyncio.open_connection(sock=end, limit=MOST_BYTES))

    def tell(self, message: Message) -> None:
        """Send the message, if the other process still runs."""
        if not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def heard(self) -> Message | None:
        """Return the next message; None if the other process has ended."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        # A killed process may leave an incomplete line.
        return _DECODER.decode(line) if line.endswith(b"\n") else None

    async def close(self) -> None:
        """Send pending messages, and close."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

"""Sends server-sent events to many listeners (https://html.spec.whatwg.org/multipage/server-sent-events.html).

A message is serialised once and shared. Each listener holds one message, which the next one replaces if it has not been
sent yet: a slow listener gets fewer messages and costs no more memory than a fast one.

Messages: ``history`` has the result of ``History.series``, and is sent on connecting and at intervals; ``tick`` has
``{"stats", "point", "trust", "working", "forecast", "log"}``; ``end`` is the last ``tick``, after which the server
stops.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MOST_LISTENERS = 256


def message(event: str, data: Any) -> bytes:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"event: {event}\ndata: {text}\n\n".encode()


class Listener:
    def __init__(self) -> None:
        self._message: bytes | None = None
        self._last = False
        self._news = asyncio.Event()

    def offer(self, message: bytes, last: bool = False) -> None:
        self._message, self._last = message, last
        self._news.set()

    async def take(self) -> tuple[bytes, bool]:
        """Wait for the newest message not taken yet. Returns it, and whether it is the last."""
        await self._news.wait()
        self._news.clear()
        assert self._message is not None
        return self._message, self._last


class Listeners:
    """The current listeners, at most ``MOST_LISTENERS``."""

    def __init__(self) -> None:
        self._all: set[Listener] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    @property
    def full(self) -> bool:
        return self._closed or len(self._all) >= MOST_LISTENERS

    @contextmanager
    def join(self) -> Iterator[Listener]:
        listener = Listener()
        self._all.add(listener)
        try:
            yield listener
        finally:
            self._all.discard(listener)

    def tell(self, message: bytes) -> None:
        for listener in self._all:
            listener.offer(message)

    def close(self, message: bytes) -> None:
        """Send the last message; no listeners can join afterwards."""
        self._closed = True
        for listener in self._all:
            listener.offer(message, last=True)

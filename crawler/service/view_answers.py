"""Turns answers and errors of a view into HTTP responses. An expensive answer is made once for all clients."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from aiohttp import web
from msgspec import Struct

from crawler.service.dashboard.guard import revalidated
from crawler.service.view_errors import Unavailable, Unreadable

T = TypeVar("T")


class Encoded(Struct, frozen=True):
    """JSON for several clients, with its entity tag."""

    body: bytes
    etag: str


def encoded(content: dict[str, Any]) -> Encoded:
    """Encode an answer for several clients."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
    return Encoded(body, f'"{hashlib.blake2b(body, digest_size=10).hexdigest()}"')


async def from_view(asked: Awaitable[T]) -> T:
    """Return the view's answer. Raises HTTP errors if it cannot answer."""
    try:
        return await asked
    except Unavailable as error:
        raise web.HTTPServiceUnavailable(text=str(error)) from error
    except Unreadable as error:
        raise web.HTTPInternalServerError(text=str(error)) from error


def answer_if_new(request: web.Request, found: Encoded) -> web.Response:
    """Return the encoded answer, or 304 if the client has it already."""
    return revalidated(request, web.Response(body=found.body, content_type="application/json"), found.etag)


class Reused(Generic[T]):
    """An answer that is made once for concurrent requests, and reused for ``fresh`` seconds, or for ``times`` as long
    as it took to make, if that is longer."""

    def __init__(self, make: Callable[[], Awaitable[T]], fresh: float, times: float) -> None:
        self._make = make
        self._fresh = fresh
        self._times = times
        self._made: tuple[float, T] | None = None  # expiry, and the answer
        self._making = asyncio.Lock()

    async def get(self) -> T:
        """Return the answer. Raises the exceptions of ``make``."""
        now = asyncio.get_running_loop().time
        async with self._making:
            began = now()
            if self._made is None or self._made[0] <= began:
                made = await self._make()
                self._made = now() + max(self._fresh, self._times * (now() - began)), made
            return self._made[1]

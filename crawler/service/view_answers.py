"""Turns answers and errors of a view into HTTP responses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable
from typing import Any, TypeVar

from aiohttp import web
from msgspec import Struct

from crawler.service.dashboard.guard import revalidated
from crawler.service.view import Unavailable, Unreadable

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

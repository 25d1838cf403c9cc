"""How the HTTP API answers with what a view says."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from aiohttp import web

from crawler.service.view import Unavailable, Unreadable

T = TypeVar("T")


async def from_view(asked: Awaitable[T]) -> T:
    """What the view says. Raises the HTTP errors for what it cannot say."""
    try:
        return await asked
    except Unavailable as error:
        raise web.HTTPServiceUnavailable(text=str(error)) from error
    except Unreadable as error:
        raise web.HTTPInternalServerError(text=str(error)) from error


def answer(content: dict[str, Any]) -> web.Response:
    """JSON that no cache keeps."""
    return web.json_response(content, headers={"Cache-Control": "no-store"})

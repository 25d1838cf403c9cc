"""Runs before every route: checks access, adds headers and limits bodies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from crawler.service.dashboard.access import LOOKING, PAGE, Access, cookie_name

# Enough for ten thousand URLs of a hundred characters; larger requests are sent in parts.
MOST_BODY = 2**20  # bytes
BODY_TIMEOUT = 20.0  # seconds for the complete body to arrive
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Replaces the library's header, which shows the versions of the library and of Python.
    "Server": "crawler",
}

NO_STORE = {"Cache-Control": "no-store"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_BODY_TIMEOUT = web.AppKey("body_timeout", float)


def guarded_application(access: Access, body_timeout: float = BODY_TIMEOUT) -> web.Application:
    """Return an application that answers only requests admitted by ``access``, with ``HEADERS``."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        response: web.StreamResponse
        route = _route(request)
        refusal = access.refusal(request.method, route, request.headers, request.cookies)
        if refusal is not None:
            response = refused(request, refusal.status, refusal.text)
            if refusal.status == web.HTTPUnauthorized.status_code:
                response.headers["WWW-Authenticate"] = "Bearer"
        elif route == PAGE and access.is_token(request.query.get("token")):
            response = _let_in(access, request.headers.get("Host", ""))
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = refused(request, error.status, error.text or error.reason)
                if isinstance(error, web.HTTPMethodNotAllowed):
                    response.headers["Allow"] = error.headers["Allow"]
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    app = web.Application(middlewares=[guard], client_max_size=MOST_BODY)
    app[_BODY_TIMEOUT] = body_timeout
    return app


def _let_in(access: Access, host: str) -> web.Response:
    """Respond to the printed link: set the cookie, and redirect to an address whose token the browser does not send."""
    response = web.Response(status=303, headers={"Location": f"./#{access.query()}", "Cache-Control": "no-store"})
    response.set_cookie(cookie_name(host), access.cookie, httponly=True, samesite="Strict")
    return response


def _route(request: web.Request) -> str:
    """Return the pattern that matches the path, without the prefix of a job in a list of jobs."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical.removeprefix("/jobs/{job}")


async def json_body(request: web.Request) -> Any:
    """Return the JSON in a request's body of at most ``MOST_BODY`` bytes.

    Raises an HTTP error with a one-line text for any other body: 413, 415, 408 or 400.
    """
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="The body must be JSON: send Content-Type: application/json.")
    try:
        async with asyncio.timeout(request.app[_BODY_TIMEOUT]):
            body = await request.read()
        return json.loads(body.decode("utf-8-sig"))  # json.loads would also accept bytes in UTF-16 or UTF-32
    except web.HTTPRequestEntityTooLarge:
        raise web.HTTPRequestEntityTooLarge(
            MOST_BODY, text=f"The body is larger than {MOST_BODY} bytes: send it in parts."
        ) from None
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="The body is incomplete.") from None
    except ConnectionError:
        raise web.HTTPBadRequest(text="The body is incomplete.") from None  # the client is gone
    except (ValueError, RecursionError, web.RequestPayloadError):
        raise web.HTTPBadRequest(text="The body is not JSON.") from None


def answer(content: Mapping[str, Any]) -> web.Response:
    """Return a JSON response that is not cached."""
    return web.json_response(content, headers=NO_STORE, dumps=_dumps)


def revalidated(request: web.Request, response: web.Response, etag: str) -> web.Response:
    """Return the response with its entity tag, or 304 if the client already has it. Clients revalidate before each
    use."""
    if request.headers.get("If-None-Match") == etag:
        response = web.Response(status=304)
    response.headers.update({"ETag": etag, "Cache-Control": "no-cache"})
    return response


_dumps = partial(json.dumps, allow_nan=False)


def refused(request: web.Request, status: int, text: str) -> web.Response:
    """Return a one-line error, as JSON for programs."""
    if "/api/" in request.path or request.method not in LOOKING:
        return web.json_response({"error": text}, status=status, headers=HEADERS)
    return web.Response(status=status, text=f"{text.rstrip()}\n", headers=HEADERS)

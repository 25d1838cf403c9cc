"""A web without sockets, for simulations: it answers from a table instead of a network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from crawler.url.urls.host_key import host_name
from crawler.web.fetch.fence import pass_fence
from crawler.web.fetch.fetcher import is_html
from crawler.web.fetch.outcome import Failure, Keeps, Response

Answer = Response | Failure | str
Answers = Answer | Callable[[Mapping[str, str]], Answer]


def page(html: str, *, status: int = 200) -> Response:
    """Return a complete HTML response."""
    body = html.encode()
    return Response(status, {}, "text/html", "utf-8", body, None, None, 0.0, len(body))


def redirect(location: str, *, status: int = 302) -> Response:
    """Return a redirect."""
    return Response(status, {"Location": location}, None, None, None, location, None, 0.0, 0)


class SimulatedWeb:
    """Answers like ``Fetcher``.

    ``pages`` maps an href to an answer, to a string for a page, or to a function of the request's headers. Any other
    href gets a 404. ``before`` is awaited with each href that is requested, and may raise. ``addresses`` maps host
    names to addresses. ``dial`` is awaited before a request is sent. ``asked`` records the requests."""

    def __init__(
        self,
        pages: Mapping[str, Answers],
        before: Callable[[str], Awaitable[None]] | None = None,
        addresses: Mapping[str, str] | None = None,
        dial: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._pages = pages
        self._before = before
        self._addresses = addresses or {}
        self._dial = dial
        self.asked: list[str] = []

    async def fetch(
        self,
        href: str,
        *,
        accept: Callable[[str | None], bool] = is_html,
        max_body: int | None = None,
        truncate: bool = False,
        headers: Mapping[str, str] | None = None,
        keep: Keeps | None = None,
    ) -> Response | Failure:
        """Answer like ``Fetcher.fetch``. The table decides about limits, types and captures."""
        self.asked.append(href)
        await asyncio.sleep(0)
        if self._dial is not None:
            await self._dial(href)
        await pass_fence()
        if self._before is not None:
            await self._before(href)
        return self.answer(href, headers)

    def answer(self, href: str, headers: Mapping[str, str] | None = None) -> Response | Failure:
        """Return the server's answer to a request."""
        answer = self._pages.get(href)
        if callable(answer):
            answer = answer(headers or {})
        if answer is None:
            return page("<p>no such page", status=404)
        return page(answer) if isinstance(answer, str) else answer

    def cookie_state(self, href: str) -> int | None:
        """Return None: no cookies are kept here."""
        return None

    def let_go(self) -> None:
        """Do nothing: memory is not bounded here."""

    def signs(self, host: str, *, known: bool) -> bool:
        """Return what is known: no host here asks for signatures."""
        return known

    async def resolve(self, href: str) -> str | None:
        """Return the address from ``addresses``, or None."""
        await asyncio.sleep(0)
        return self._addresses.get(host_name(href))

"""The browser of a worker, which all its runs share, and the line of pages that wait for a tab."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.web.browser.rendered import Answer, Ask, Budget, NotRendered, Rendered
from crawler.web.links.script_signs import signs_of

DIRECTORY = "browser"  # within the job's directory
_SCRIPTS = re.compile(rb"<script\b.*?</script\s*>", re.IGNORECASE | re.DOTALL)
TRIES = 3  # tries of a page if the browser crashes, which another page may have caused


class Renders(Protocol):
    """A browser."""

    async def render(self, url: str, raw: Answer, ask: Ask, budget: Budget) -> Rendered | NotRendered:
        """Render the page of a URL whose raw answer is known."""

    async def close(self) -> None:
        """Close the browser."""


class Renderer:
    """Renders pages, as many at a time as there are tabs. The browser starts with the first of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directory = Path(tempfile.gettempdir()) / f"crawler-{os.getpid()}"
        # A page that waits for a sub-request holds its tab, and the sub-request needs a slot at the gate like any
        # other.
        self._tabs = asyncio.Semaphore(max(1, min(settings.browser.tabs, (settings.crawl.concurrency - 1) // 2)))
        self._first = asyncio.Lock()  # held by the page whose turn is next
        self._browser: Renders | None = None

    def live_in(self, directory: Path) -> None:
        """Keep the browser's files in that directory, and remove those that a killed process left there."""
        self._directory = directory / DIRECTORY
        if self._directory.is_dir():
            from crawler.web.browser.process import remove_leftovers  # noqa: PLC0415, as below

            remove_leftovers(self._directory)
            self._leave()

    async def render(
        self, url: str, raw: Answer, ask: Ask, budget: Budget, *, in_turn: bool = True
    ) -> Rendered | NotRendered:
        """Render a page when a tab is free. A page that is not ``in_turn`` waits only for the first in the line."""
        async with self._first if in_turn else contextlib.nullcontext():
            await self._tabs.acquire()
        try:
            if self._browser is None:
                self._browser = browser_of(self._settings, self._directory)
            for _ in range(TRIES - 1):
                result = await self._browser.render(url, raw, ask, budget)
                if isinstance(result, Rendered) or not result.died:
                    return result
            return await self._browser.render(url, raw, ask, budget)
        finally:
            self._tabs.release()

    async def close(self) -> None:
        """Close the browser, if there is one."""
        if self._browser is not None:
            await self._browser.close()
            self._leave()

    def _leave(self) -> None:
        with contextlib.suppress(OSError):  # another worker has files there
            self._directory.rmdir()


def browser_of(settings: Settings, directory: Path) -> Renders:
    """Return the browser that the settings name."""
    from crawler.web.browser.browser import Browser  # noqa: PLC0415, few crawls start one

    chosen, agent = settings.browser, settings.fetch.user_agent
    first = Browser(chosen, agent, directory)
    if chosen.engine != "lightpanda":
        return first
    return WithNext(first, Browser(replace(chosen, engine="auto"), agent, directory))


class WithNext:
    """A browser, and another one for pages that the first cannot render."""

    def __init__(self, first: Renders, other: Renders) -> None:
        self._first, self._other = first, other

    async def render(self, url: str, raw: Answer, ask: Ask, budget: Budget) -> Rendered | NotRendered:
        result = await self._first.render(url, raw, ask, budget)
        if isinstance(result, Rendered) and result.cut != "time" and not _is_shell(raw, result):
            return result
        other = await self._other.render(url, raw, ask, budget)
        if isinstance(other, Rendered) or (isinstance(result, NotRendered) and other.engine):
            return other
        return result  # the only result, or the better one

    async def close(self) -> None:
        await self._first.close()
        await self._other.close()


def _is_shell(raw: Answer, result: Rendered) -> bool:
    """Return whether a rendered page still has the signs that it needs its scripts."""
    links, scripts = result.html.count(b"<a "), b"".join(_SCRIPTS.findall(raw.body))
    return bool(signs_of(result.html + scripts, links, moves=result.moved is not None))

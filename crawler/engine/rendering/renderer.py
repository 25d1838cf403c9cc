"""The browser of a worker, which all its runs share, and the line of pages that wait for a tab."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.web.browser.rendered import Answer, Ask, NotRendered, Rendered
from crawler.web.links.script_signs import signs_of

if TYPE_CHECKING:
    from crawler.web.browser.browser import Browser

DIRECTORY = "browser"  # within the job's directory
_SCRIPTS = re.compile(rb"<script\b.*?</script\s*>", re.IGNORECASE | re.DOTALL)
TRIES = 3  # maximum tries of a page: if the browser crashes, another page may be the cause


class Renderer:
    """Renders pages, as many at a time as there are tabs. The browser starts with the first of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directory = Path(tempfile.gettempdir()) / f"crawler-{os.getpid()}"
        # A page that waits for a sub-request holds its tab, and the sub-request needs a slot at the gate like any
        # other.
        self._tabs = asyncio.Semaphore(max(1, min(settings.browser.tabs, (settings.crawl.concurrency - 1) // 2)))
        self._first = asyncio.Lock()  # held by the page whose turn is next
        self._browsers: list[Browser] = []  # in order of preference

    def live_in(self, directory: Path) -> None:
        """Keep the browser's files in that directory."""
        self._directory = directory / DIRECTORY

    async def render(self, url: str, raw: Answer, ask: Ask, *, in_turn: bool = True) -> Rendered | NotRendered:
        """Render a page when a tab is free. A page that is not ``in_turn`` skips the line, except for the page at its
        head."""
        async with self._first if in_turn else contextlib.nullcontext():
            await self._tabs.acquire()
        try:
            self._browsers = self._browsers or browsers_of(self._settings, self._directory)
            for _ in range(TRIES):
                result = await self._rendered(url, raw, ask)
                if isinstance(result, Rendered) or not result.died:
                    break
            return result
        finally:
            self._tabs.release()

    async def _rendered(self, url: str, raw: Answer, ask: Ask) -> Rendered | NotRendered:
        """Render a page in the first browser that can render it."""
        first, *others = self._browsers
        best = await first.render(url, raw, ask)
        for browser in others:
            if isinstance(best, Rendered) and best.cut != "time" and not _is_shell(raw, best):
                break
            result = await browser.render(url, raw, ask)
            if isinstance(result, Rendered) or (isinstance(best, NotRendered) and result.engine):
                best = result
        return best

    async def close(self) -> None:
        """Close the browsers, if there are any, and remove what a killed process has left."""
        for browser in self._browsers:
            await browser.close()
        if self._directory.is_dir():
            from crawler.web.browser.process import remove_leftovers  # noqa: PLC0415, as below

            remove_leftovers(self._directory)


def browsers_of(settings: Settings, directory: Path) -> list[Browser]:
    """Return the browser that the settings name. After Lightpanda comes a second browser, for pages that Lightpanda
    cannot render."""
    from crawler.web.browser.browser import Browser  # noqa: PLC0415, few crawls start one

    engine = settings.browser.engine
    engines = (engine, "auto") if engine == "lightpanda" else (engine,)
    agent = settings.fetch.user_agent
    return [Browser(replace(settings.browser, engine=each), agent, directory) for each in engines]


def _is_shell(raw: Answer, result: Rendered) -> bool:
    """Return whether a rendered page still has the signs that it needs its scripts."""
    links, scripts = result.html.count(b"<a "), b"".join(_SCRIPTS.findall(raw.body))
    return bool(signs_of(result.html + scripts, links, moves=result.moved is not None))

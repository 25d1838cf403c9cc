"""Renders pages for a worker. The browser starts at the first page, and restarts if it ends or becomes unreliable."""

from __future__ import annotations

import asyncio
from pathlib import Path

from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import BrowserSettings
from crawler.web.browser.engines import LIGHTPANDA, find_engine
from crawler.web.browser.lightpanda import LightpandaProcess, LightpandaTab
from crawler.web.browser.pipe import CallFailed, Lost
from crawler.web.browser.process import BrowserProcess
from crawler.web.browser.rendered import Answer, Ask, Budget, NotRendered, Rendered
from crawler.web.browser.tab import Tab

PAGES_MOST = 500  # pages per process; memory leaks are small, and a start costs as much as a few pages
START_WAIT = 30.0  # seconds to wait for the browser to start


class Browser:
    """A browser for a worker. ``directory`` is for the profiles of browser processes. ``budget`` is that of each
    page."""

    budget = Budget()

    def __init__(self, settings: BrowserSettings, user_agent: str, directory: Path) -> None:
        self._settings, self._user_agent, self._directory = settings, user_agent, directory.absolute()
        self.process: BrowserProcess | None = None
        self._starting = asyncio.Lock()

    async def close(self) -> None:
        if self.process is not None:
            await self.process.close()
            self.process = None

    async def render(self, href: str, answer: Answer, ask: Ask) -> Rendered | NotRendered:
        """Render a page from its raw response; ``ask`` answers all further requests."""
        try:
            process = await self._ready()
        except (SettingsError, OSError) as error:
            return NotRendered(str(error), died=isinstance(error, OSError))
        process.pages += 1
        process.active += 1
        pipe, tab = process.pipe, None
        try:
            async with asyncio.timeout(START_WAIT):
                pipe = await process.connected()
                made = await pipe.call("Target.createBrowserContext", {"disposeOnDetach": True})
            kind = LightpandaTab if process.engine.name == LIGHTPANDA else Tab
            tab = kind(process, pipe, made["browserContextId"], href, answer, ask)
            return await tab.render(self.budget)
        except (CallFailed, Lost, TimeoutError) as error:
            died = not isinstance(error, CallFailed)
            process.worn |= died  # it may be broken, and fail the next page too
            return NotRendered(str(error) or "the browser hangs", process.engine.label, died)
        finally:
            if pipe is not process.pipe:
                pipe.close()
            process.active -= 1
            process.worn |= isinstance(tab, LightpandaTab) and tab.result.cut is not None  # its scripts may still run
            if process is not self.process and not process.active:
                await process.close()
            elif process.worn and not process.active:
                process.kill()

    async def _ready(self) -> BrowserProcess:
        """Return a live process that is not ``worn``, starting one if needed."""
        async with self._starting:
            process = self.process
            if process is not None and not process.worn and process.pages < PAGES_MOST:
                return process
            self.process = None
            if process is not None and not process.active:
                await process.close()
            engine = await asyncio.to_thread(find_engine, self._settings)
            kind = LightpandaProcess if engine.name == LIGHTPANDA else BrowserProcess
            self.process = await kind.start(engine, self._user_agent, self._directory, self._settings)
            return self.process

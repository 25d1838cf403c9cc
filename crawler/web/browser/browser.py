"""Renders pages for a worker. The browser starts at the first page, and restarts if it ends or becomes unreliable."""

from __future__ import annotations

import asyncio
from pathlib import Path

from crawler.base.settings.parts import BrowserSettings
from crawler.web.browser.engines import LIGHTPANDA, Engine, EngineFault, find_engine
from crawler.web.browser.lightpanda import LightpandaProcess
from crawler.web.browser.pipe import CallFailed, Lost
from crawler.web.browser.process import BrowserProcess
from crawler.web.browser.rendered import Answer, Ask, Budget, NotRendered, Rendered

PAGES_MOST = 500  # pages per process; memory leaks are small, and a start costs as much as a few pages
START_WAIT = 30.0  # seconds to wait for the browser to start


class Browser:
    """A browser for a worker. ``directory`` is for the profiles of browser processes. ``budget`` is that of each
    page."""

    budget = Budget()

    def __init__(self, settings: BrowserSettings, user_agent: str, directory: Path) -> None:
        self._settings, self._user_agent, self._directory = settings, user_agent, directory.absolute()
        self._engine: Engine | None = None
        self._process: BrowserProcess | None = None
        self._starting = asyncio.Lock()

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close()
            self._process = None

    @property
    def pid(self) -> int | None:
        """The PID of the rendering process, which leads its process group; None before the first page."""
        return None if self._process is None else self._process.pid

    async def render(self, href: str, answer: Answer, ask: Ask) -> Rendered | NotRendered:
        """Render a page from its raw response; ``ask`` answers all further requests."""
        try:
            process = await self._ready()
        except (EngineFault, OSError) as error:
            return NotRendered(str(error), died=isinstance(error, OSError))
        process.pages += 1
        process.active += 1
        pipe, tab = process.pipe, None
        try:
            async with asyncio.timeout(START_WAIT):
                pipe = await process.connected()
                made = await pipe.call("Target.createBrowserContext", {"disposeOnDetach": True})
            tab = process.tab(process, pipe, made["browserContextId"], href, answer, ask)
            return await tab.render(self.budget)
        except TimeoutError:
            process.kill()
            return NotRendered("the browser hangs", process.engine.label, died=True)
        except (CallFailed, Lost) as error:
            died = isinstance(error, Lost)
            process.worn |= died  # it may be broken, and fail the next page too
            return NotRendered(str(error), process.engine.label, died)
        finally:
            if pipe is not process.pipe:
                pipe.close()
            process.active -= 1
            process.worn |= tab is not None and tab.result.cut is not None  # the page's scripts may still run
            if process is not self._process and not process.active:
                await process.close()
            elif process.worn and not process.active:
                process.kill()

    async def _ready(self) -> BrowserProcess:
        """Return a live process that is not ``worn``, starting one if needed."""
        async with self._starting:
            if self._engine is None:
                self._engine = await asyncio.to_thread(find_engine, self._settings)
            process = self._process
            if process is not None and not process.worn and process.pages < PAGES_MOST:
                return process
            self._process = None
            if process is not None and not process.active:
                await process.close()
            kind = LightpandaProcess if self._engine.name == LIGHTPANDA else BrowserProcess
            self._process = await kind.start(self._engine, self._user_agent, self._directory, self._settings)
            return self._process

"""Renders pages for a worker. The browser starts at the first page, and restarts if it ends or becomes unreliable."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from crawler.base.settings.parts import BrowserSettings
from crawler.web.browser.engines import LIGHTPANDA, Engine, EngineFault, find_engine
from crawler.web.browser.lightpanda import LightpandaProcess
from crawler.web.browser.pipe import BrowserGone, CallFailed, Params, Pipe
from crawler.web.browser.process import BrowserProcess
from crawler.web.browser.rendered import Answer, Ask, Budget, NotRendered, Rendered
from crawler.web.browser.tab import Tab

PAGES_MOST = 500  # pages per process; memory leaks are small, and a start costs as much as a few pages
START_WAIT = 30.0  # seconds to wait for the browser to start
ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}  # new targets wait until they are set up


class Browser:
    """A browser for a worker. ``directory`` is for the profiles of browser processes."""

    def __init__(self, settings: BrowserSettings, user_agent: str, directory: Path) -> None:
        self._settings, self._user_agent, self._directory = settings, user_agent, directory.absolute()
        self._engine: Engine | None = None
        self._process: BrowserProcess | None = None
        self._starting = asyncio.Lock()
        self._tabs: dict[tuple[Pipe, str], Tab] = {}  # keys: connection and browser context

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close()
            self._process = None

    @property
    def pid(self) -> int | None:
        """The PID of the rendering process, which leads its process group; None before the first page."""
        return None if self._process is None else self._process.pid

    async def render(self, href: str, answer: Answer, ask: Ask, budget: Budget) -> Rendered | NotRendered:
        """Render a page from its raw response; ``ask`` answers all further requests."""
        try:
            process = await self._ready()
        except (EngineFault, OSError) as error:
            return NotRendered(str(error), died=isinstance(error, OSError))
        assert self._engine is not None
        process.pages += 1
        process.active += 1
        pipe, context = process.pipe, ""
        try:
            async with asyncio.timeout(START_WAIT):
                pipe = await process.connected()
                if "" not in pipe.listeners:
                    pipe.listeners[""] = partial(self._event, pipe)
                    await pipe.call("Target.setAutoAttach", ATTACH)
                made = await pipe.call("Target.createBrowserContext", {"disposeOnDetach": True})
            context = made["browserContextId"]
            pipe.send("Browser.setDownloadBehavior", {"behavior": "deny", "browserContextId": context})
            tab = self._tabs[pipe, context] = process.tab(pipe, context, href, answer, ask, budget)
            result = await tab.render(self._engine.label)
            if isinstance(result, NotRendered) and result.died:
                process.worn = True  # the process may be broken, and fail the next page too
            return result
        except TimeoutError:
            process.kill()
            return NotRendered("the browser hangs", self._engine.label, died=True)
        except (BrowserGone, CallFailed):
            return NotRendered("the browser has ended", self._engine.label, died=True)
        finally:
            if self._tabs.pop((pipe, context), None) is not None:
                pipe.send("Target.disposeBrowserContext", {"browserContextId": context})
            process.release(pipe)
            process.active -= 1
            if process is not self._process and not process.active:
                await process.close()
            elif process.worn and not process.active:
                process.kill()  # scripts of the page may still run in it

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

    def _event(self, pipe: Pipe, method: str, params: Params) -> None:
        if method == "Target.attachedToTarget":
            tab = self._tabs.get((pipe, params["targetInfo"].get("browserContextId", "")))
            if tab is not None:
                tab.attached(params["sessionId"], params["targetInfo"])

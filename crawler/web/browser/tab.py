"""One page in a browser: its requests are answered, its timers run in virtual time, and its document is taken."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from pathlib import Path
from urllib.parse import urldefrag

from crawler.web.browser.pipe import BrowserGone, CallFailed, Params, Pipe
from crawler.web.browser.rendered import (
    Answer,
    Ask,
    Budget,
    Kind,
    NotRendered,
    Refusal,
    Refused,
    Rendered,
    SubRequest,
)

KINDS = {
    "Document": Kind.DOCUMENT,
    "Script": Kind.SCRIPT,
    "Stylesheet": Kind.STYLESHEET,
    "XHR": Kind.DATA,
    "Fetch": Kind.DATA,
    "Image": Kind.IMAGE,
    "Font": Kind.FONT,
    "Media": Kind.MEDIA,
    "TextTrack": Kind.MEDIA,
    "Preflight": Kind.PREFLIGHT,
}
VIEWPORT = {"width": 1280, "height": 4000, "deviceScaleFactor": 1, "mobile": False}
BEFORE_SCROLL = 0.6  # of the time of the page's timers ...
LATER_ROUNDS = (0.1, 0.1, 0.1)  # ... and what is added for pages that load more at their ends
FRAME = 16  # milliseconds
FRAMES_MOST = 40  # that are waited for
LAST_WAIT = 5.0  # seconds for the document ...
CUT_WAIT = 2.0  # ... and for that of a page that was cut
LOOK = 5.0  # seconds after which a page that waits for answers is looked at
REFUSED_MOST = 1_000  # requests that are refused; the page is cut at more
FRAMES_DEEP = 3  # of another origin, one in the other
_STARTED = ("page", "worker", "shared_worker", "iframe")
_SERIALISE = (Path(__file__).parent / "serialise.js").read_text(encoding="utf-8")
_BOUNDS = '{"nodes": 300000, "characters": 33554432, "frames": 50}'
_SCROLL = """new Promise(done => {
  const frames = (n, next) => requestAnimationFrame(() => n ? frames(n - 1, next) : next());
  frames(1, () => { scrollTo(0, document.documentElement.scrollHeight); frames(1, done) });
})"""


class _Cut(Exception):
    """The page is ended before it is finished; the text says why."""


class Lost(Exception):
    """There is no page any more; the text says why."""


class Tab:
    def __init__(self, pipe: Pipe, context: str, href: str, answer: Answer, ask: Ask, budget: Budget) -> None:
        self._pipe, self._context, self._href, self._ask, self._budget = pipe, context, href, ask, budget
        self._page: Answer | None = answer  # until the browser has asked for it
        self._session = ""
        self._sessions: list[str] = []
        self._target = ""
        self._wake = asyncio.Event()  # something has happened that may let the page go on
        self._expired = False
        self._fault: BaseException | None = None
        self._asks: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._bytes = 0
        self._refused: list[Refused] = []
        self._moved: str | None = None
        self._url = href
        self._frames: dict[str, str] = {}  # URL of the document of each frame
        self._left = budget.seconds  # until ``_since``, from which time counts: not while an answer is awaited
        self._since: float | None = time.monotonic()

    # The page.

    async def render(self, engine: str) -> Rendered | NotRendered:
        """Raises what ``ask`` raises, and ``BrowserGone``. A renderer that hangs goes with its context."""
        cut = None
        self._pipe.when_gone.append(self._gone)
        try:
            try:
                async with asyncio.timeout(self._budget.seconds):
                    await self._open()
                await self._run()
            except _Cut as why:
                cut = str(why)
                self._send("Emulation.setVirtualTimePolicy", {"policy": "pause"})
                self._send("Runtime.terminateExecution")
                self._send("Runtime.evaluate", {"expression": "0"})  # ends instead of what follows, if no script ran
            async with asyncio.timeout(CUT_WAIT if cut else LAST_WAIT):
                html, cpu, short = await self._document()
        except TimeoutError:
            return NotRendered(f"the page hangs ({cut or 'time'})", engine)
        except (CallFailed, Lost) as error:
            return NotRendered(str(error), engine)
        finally:
            for task in self._asks:
                task.cancel()
            await asyncio.gather(*self._asks, return_exceptions=True)
            with contextlib.suppress(ValueError):
                self._pipe.when_gone.remove(self._gone)
            for session in self._sessions:
                self._pipe.listeners.pop(session, None)
        if not self._url.startswith(("http:", "https:")):
            return NotRendered(f"the page went to {self._url[:100]}", engine)
        return Rendered(
            html.encode(errors="replace"),
            urldefrag(self._url).url,
            engine,
            cpu,
            self._requests,
            tuple(self._refused),
            self._moved if self._moved != self._url else None,
            cut or ("size" if short else None),
        )

    async def _open(self) -> None:
        """Let the page be shown; its scripts run from then on."""
        target = await self._pipe.call("Target.createTarget", {"url": "about:blank", "browserContextId": self._context})
        self._target = target["targetId"]
        while not self._session:
            await self._woken()
        went = await self._call("Page.navigate", {"url": self._href})
        if "errorText" in went:
            raise Lost(f"the browser does not show it: {went['errorText']}")

    async def _run(self) -> None:
        """Let its timers run and frames be drawn; as long as it asks for more after that, go on for some rounds."""
        await self._run_timers(BEFORE_SCROLL * self._budget.timers)
        for share in (1 - BEFORE_SCROLL, *LATER_ROUNDS):
            asked = self._requests
            await self._draw()
            await self._run_timers(share * self._budget.timers)
            if asked == self._requests:
                return

    async def _draw(self) -> None:
        """Wait for frames, which observers and animations wait for, at the top and at the end of the page. They are
        drawn in real time, but nothing runs in the page while its clock is stopped: it goes on in small steps."""
        drawn = asyncio.ensure_future(self._call("Runtime.evaluate", {"expression": _SCROLL, "awaitPromise": True}))
        drawn.add_done_callback(lambda done: done.cancelled() or done.exception())  # a page may be gone before
        try:
            for _ in range(FRAMES_MOST):
                await self._run_timers(FRAME)
                if drawn.done():
                    return
                await asyncio.sleep(FRAME / 1000)
        finally:
            drawn.cancel()

    async def _run_timers(self, milliseconds: float) -> None:
        # The clock of the page stands still while it waits for an answer, and jumps to the next timer otherwise.
        self._expired = False
        self._send(
            "Emulation.setVirtualTimePolicy",
            {
                "policy": "pauseIfNetworkFetchesPending",
                "budget": milliseconds,
                "maxVirtualTimeTaskStarvationCount": 10**6,
            },
        )
        while self._asks or not self._expired:
            await self._woken()

    async def _woken(self) -> None:
        """Wait for an event, as long as the page has time."""
        left = LOOK if self._since is None else self._left - (time.monotonic() - self._since)
        self._wake.clear()
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            if self._since is not None or await self._busy():
                raise _Cut("time") from None
        if self._fault is not None:
            raise self._fault

    async def _busy(self) -> bool:
        """Whether a page that waits for answers uses too much time all the same."""
        try:
            async with asyncio.timeout(self._budget.seconds):
                return await self._cpu() > self._budget.seconds
        except TimeoutError:
            return True

    async def _cpu(self) -> float:
        """What the renderer, which is the page's own, has used with all its threads, workers too."""
        place = await self._call("Runtime.evaluate", {"expression": "location.href", "returnByValue": True})
        self._url = place["result"]["value"]  # of a ``pushState`` while the page begins there is no event
        metrics = await self._call("Performance.getMetrics")
        return next((float(each["value"]) for each in metrics["metrics"] if each["name"] == "ProcessTime"), 0.0)

    async def _document(self) -> tuple[str, float, bool]:
        """The HTML of the page with its frames, the CPU time of its process, and whether the HTML was cut."""
        html, cut = await self._html(self._target, FRAMES_DEEP)
        return html, await self._cpu(), cut

    async def _html(self, frame: str, depth: int) -> tuple[str, bool]:
        """The HTML of a frame with those in it, and whether it was cut. A frame that goes meanwhile is left out."""
        world = await self._call("Page.createIsolatedWorld", {"frameId": frame})
        context = world["executionContextId"]
        taken = await self._evaluate(
            f"({_SERIALISE})({_BOUNDS}, {str(frame == self._target).lower()})", context, by_value=True
        )
        if frame == self._target:
            self._url = taken["value"]["url"]
        first, *others = taken["value"]["parts"]
        html, cut = [first], taken["value"]["cut"]
        for number, part in enumerate(others):
            with contextlib.suppress(CallFailed):
                element = await self._evaluate(f"foreign[{number}]", context, by_value=False)
                node = await self._call("DOM.describeNode", {"objectId": element["objectId"]})
                if depth:
                    inner, cut_inside = await self._html(node["node"]["frameId"], depth - 1)
                    html.append(inner)
                    cut = cut or cut_inside
            html.append(part)
        return "".join(html), cut

    async def _evaluate(self, script: str, context: int, *, by_value: bool) -> Params:
        done = await self._call(
            "Runtime.evaluate", {"expression": script, "contextId": context, "returnByValue": by_value}
        )
        if "exceptionDetails" in done:
            raise CallFailed(str(done["result"].get("description", "a script failed")))
        result: Params = done["result"]
        return result

    # Events.

    def lose(self, fault: BaseException) -> None:
        """End the page by an exception, the first of several."""
        self._fault = self._fault or fault
        self._wake.set()

    def _gone(self) -> None:
        self.lose(BrowserGone())

    def detached(self, session: str) -> None:
        if session == self._session:
            self.lose(Lost("the page closed itself"))

    def attached(self, session: str, info: Params) -> None:
        """A target of the page's context waits for leave to start: the page, a pop-up, a worker, or of the browser's
        own, which wait for ever."""
        kind = info["type"]
        if kind == "service_worker" or (kind == "page" and self._session):
            self._pipe.send("Target.closeTarget", {"targetId": info["targetId"]})
        elif kind in _STARTED:
            self._pipe.listeners[session] = lambda method, params: self._event(session, method, params)
            self._sessions.append(session)
            self._pipe.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}, session)
            if kind == "page":
                self._session = session
                self._send("Page.enable")
                self._send("Performance.enable")
                self._send("Emulation.setDeviceMetricsOverride", VIEWPORT)
            self._pipe.send("Runtime.runIfWaitingForDebugger", {}, session)
            self._wake.set()

    def _event(self, session: str, method: str, params: Params) -> None:
        if method == "Fetch.requestPaused":
            self._paused(session, params)
        elif method == "Emulation.virtualTimeBudgetExpired":
            self._expired = True
            self._wake.set()
        elif method == "Page.frameNavigated":
            frame = params["frame"]
            self._frames[frame["id"]] = frame["url"]
        elif method == "Page.javascriptDialogOpening":
            self._send("Page.handleJavaScriptDialog", {"accept": False})
        elif method == "Inspector.targetCrashed" and session == self._session:
            self.lose(Lost("the page crashed"))

    def _paused(self, session: str, params: Params) -> None:
        number, asked = params["requestId"], params["request"]
        kind = KINDS.get(params["resourceType"], Kind.OTHER)
        url = urldefrag(asked["url"]).url
        if kind is Kind.DOCUMENT and params["frameId"] == self._target:
            if self._page is not None:
                self._fulfil(session, number, self._page)
                self._page = None
                return
            if url != self._url and asked["method"] == "GET":
                self._moved = url
            self._fail(session, number, "Aborted")
            return
        if asked["method"] == "OPTIONS" and "Access-Control-Request-Method" in asked["headers"]:
            kind = Kind.PREFLIGHT
        if self._requests >= self._budget.requests or self._bytes >= self._budget.bytes:
            self._refuse(session, number, Refused(Refusal.BUDGET, url))
            return
        self._requests += 1
        body = [base64.b64decode(each["bytes"]) for each in asked.get("postDataEntries", ()) if "bytes" in each]
        request = SubRequest(
            url,
            asked["method"],
            kind,
            asked["headers"],
            b"".join(body) if asked.get("hasPostData") else None,
            self._frames.get(params.get("frameId", ""), self._href),
        )
        if not self._asks and self._since is not None:
            self._left -= time.monotonic() - self._since
            self._since = None
        task = asyncio.create_task(self._answer(session, number, request))
        self._asks.add(task)
        task.add_done_callback(self._answered)

    async def _answer(self, session: str, number: str, request: SubRequest) -> None:
        answer = await self._ask(request)
        if isinstance(answer, Answer):
            self._bytes += len(answer.body)
            self._fulfil(session, number, answer)
        elif isinstance(answer, Refused):
            self._refuse(session, number, answer)
        else:
            self._fail(session, number, "Failed")

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._asks.discard(task)
        if not self._asks:
            self._since = time.monotonic()
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.lose(fault)
        self._wake.set()

    def _fulfil(self, session: str, number: str, answer: Answer) -> None:
        self._pipe.send(
            "Fetch.fulfillRequest",
            {
                "requestId": number,
                "responseCode": answer.status,
                "responseHeaders": [{"name": name, "value": value} for name, value in answer.headers],
                "body": base64.b64encode(answer.body).decode(),
            },
            session,
        )

    def _refuse(self, session: str, number: str, refused: Refused) -> None:
        if len(self._refused) < REFUSED_MOST:
            self._refused.append(refused)
        else:
            self.lose(_Cut("requests"))
        self._fail(session, number, "BlockedByClient")

    def _fail(self, session: str, number: str, reason: str) -> None:
        self._pipe.send("Fetch.failRequest", {"requestId": number, "errorReason": reason}, session)

    async def _call(self, method: str, params: Params | None = None) -> Params:
        return await self._pipe.call(method, params, self._session)

    def _send(self, method: str, params: Params | None = None) -> None:
        self._pipe.send(method, params, self._session)

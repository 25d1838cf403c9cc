"""One page in a browser: answers its requests, runs its timers in virtual time, and returns its document."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import string
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote, urldefrag

from msgspec import Struct
from msgspec.structs import replace

from crawler.web.browser.asked import of_script
from crawler.web.browser.pipe import ENDED, CallFailed, Lost, Params, Pipe
from crawler.web.browser.process import BrowserProcess
from crawler.web.browser.rendered import NEEDED, Answer, Ask, Budget, Kind, Refusal, Rendered, SubRequest

KINDS = {kind.title(): kind for kind in Kind} | {"XHR": Kind.DATA, "Fetch": Kind.DATA}
VIEWPORT = {"width": 1280, "height": 4000, "deviceScaleFactor": 1, "mobile": False}
BEFORE_SCROLL = 3_000  # milliseconds that the page's own clock runs for its timers before scrolling ...
ROUNDS = (2_000, 500, 500, 500)  # ... and after each scroll; the last ones are for pages that load more at their end
FRAME = 16  # milliseconds of one frame
ANIMATED = 100  # playback rate of animations, because frames are drawn in real time
FRAMES_MOST = 40  # maximum number of frames to wait for
OPEN_WAIT = 5.0  # minimum seconds for opening a page
LAST_WAIT = 5.0  # seconds to get the document ...
CUT_WAIT = 3.0  # ... and to get it after rendering was cut
WORKER_WAIT = 0.1  # seconds to wait after an answer to a worker, which may send a message or another request
LOOK = 5.0  # seconds between checks of a page that waits for answers
ROUTES_MOST = 100
REFUSED_MOST = 1_000  # refused requests; beyond this the page is cut
FRAMES_DEEP = 3  # maximum nesting of frames from other origins
_STARTED = ("page", "worker", "shared_worker", "iframe")
_BOUNDS = '{"nodes": 300000, "characters": 33554432, "frames": 50}'


def script(name: str) -> str:
    """Return a script of this package."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


GUARD, SCROLL, _SERIALISE = script("guard.js"), script("scroll.js"), script("serialise.js")
_CLOSED = re.compile(rb"""(<template\b[^>]*\bshadowrootmode\s*=\s*["']?)closed\b""", re.IGNORECASE)
_PASSING = (429, 502, 503, 504)  # statuses of temporary errors
_NOFOLLOW = re.compile(r"^x-robots-tag:(?:.*[\s,:])?(?:nofollow|none)\b", re.IGNORECASE)


class _Cut(Exception):
    """Rendering is stopped early. The message is the reason."""


class _Page(Struct):
    """The state of a page. ``raw`` is its response, until the browser has requested it. ``target`` is its own frame.
    Links of documents in ``unfollowed`` must not be followed. ``seconds`` are left of its budget at ``since``, which is
    None while the page opens or waits; ``bytes`` are used."""

    href: str
    raw: Answer | None
    target: str = ""
    unfollowed: set[str] = set()
    seconds: float = 0.0
    since: float | None = None
    bytes: int = 0


class Tab:
    first_script = GUARD
    _budget: Budget

    def __init__(self, process: BrowserProcess, pipe: Pipe, context: str, href: str, answer: Answer, ask: Ask) -> None:
        self.result = Rendered(b"", href, process.engine.label, 0.0)
        self._pipe, self._context, self._ask = pipe, context, ask
        self._page = _Page(href, answer)
        self._session = ""
        self._sessions: dict[str, str] = {}  # the type of each session's target
        self._wake = asyncio.Event()  # set at events that may let the page continue
        self._expired = False
        self._fault: BaseException | None = None
        self._asks: set[asyncio.Task[None]] = set()
        pipe.listeners[context] = partial(self._event, "")

    # -- the page

    async def render(self, budget: Budget) -> Rendered:
        """Render the page. Raises ``Lost``, ``CallFailed`` and the errors of ``ask``. A renderer that hangs ends with
        its browser context."""
        result, self._budget, self._page.seconds = self.result, budget, budget.seconds
        self._pipe.gone.add_done_callback(self._gone)
        try:
            try:
                async with asyncio.timeout(max(budget.seconds, OPEN_WAIT)):
                    await self._open()
                if not self._asks:
                    self._page.since = time.monotonic()
                await self._run()
            except _Cut as why:
                result.cut = str(why)
                self._send("Emulation.setVirtualTimePolicy", {"policy": "pause"})
                self._send("Emulation.setScriptExecutionDisabled", {"value": True})  # our scripts still run
                self._send("Runtime.terminateExecution")
                self._send("Runtime.evaluate", {"expression": "0"})  # terminated instead, if no script is running
            async with asyncio.timeout(CUT_WAIT if result.cut else LAST_WAIT):
                try:
                    html = await self._html(self._page.target, FRAMES_DEEP)
                except CallFailed:
                    if not result.cut:
                        raise
                    html = await self._html(self._page.target, FRAMES_DEEP)  # the first attempt was terminated
                result.cpu_seconds = await self._cpu()
        except TimeoutError:
            result.cut = result.cut or "time"
            if isinstance(self._fault, Lost):  # the page crashed while its document was read
                raise self._fault from None
            raise CallFailed(f"the page hangs ({result.cut})") from None
        finally:
            for task in self._asks:
                task.cancel()
            await asyncio.gather(*self._asks, return_exceptions=True)
            self._pipe.gone.remove_done_callback(self._gone)
            self._pipe.send("Target.disposeBrowserContext", {"browserContextId": self._context})
            for listener in (self._context, *self._sessions):
                self._pipe.listeners.pop(listener, None)
        if not result.url.startswith(("http:", "https:")):
            raise CallFailed(f"the page navigated to {result.url[:100]}")
        result.html, result.url = html.encode(errors="replace"), urldefrag(result.url).url
        result.moved = result.moved if result.moved != result.url else None
        return result

    async def _open(self) -> None:
        """Open the page; its scripts run from then on."""
        self._pipe.send("Browser.setDownloadBehavior", {"behavior": "deny", "browserContextId": self._context})
        target = await self._pipe.call("Target.createTarget", {"url": "about:blank", "browserContextId": self._context})
        self._page.target = target["targetId"]
        while not self._session:
            self._wake.clear()
            await self._wake.wait()
            if self._fault is not None:
                raise self._fault
        await self._call("Page.addScriptToEvaluateOnNewDocument", {"source": self.first_script})
        went = await self._call("Page.navigate", {"url": self._page.href})
        if "errorText" in went:
            kind = CallFailed if went["errorText"] == "net::ERR_ABORTED" else Lost  # ABORTED: for example a download
            raise kind(f"the browser does not display the page: {went['errorText']}")

    async def _run(self) -> None:
        """Run timers and draw frames; repeat both, for a few rounds, as long as they cause more requests."""
        await self._run_timers(BEFORE_SCROLL)
        for milliseconds in ROUNDS:
            asked = self.result.requests
            await self._draw()
            await self._run_timers(milliseconds)
            if asked == self.result.requests:
                return

    async def _draw(self) -> None:
        """Draw frames at the top and at the bottom of the page, because observers and animations wait for frames.
        Frames are drawn in real time, but nothing runs in the page while its clock is stopped, so the clock advances in
        small steps."""
        drawn = self._begun(SCROLL)
        try:
            for _ in range(FRAMES_MOST):
                await self._run_timers(FRAME)
                if drawn.done():
                    return
                await asyncio.sleep(FRAME / 1000)
        finally:
            drawn.cancel()

    def _begun(self, script: str) -> asyncio.Future[Params]:
        """Start a script of ours that returns a promise. Its end is an event for ``_woken``."""
        params = {"expression": script, "awaitPromise": True, "returnByValue": True}
        running = asyncio.ensure_future(self._call("Runtime.evaluate", params))
        running.add_done_callback(self._ended)
        return running

    def _ended(self, done: asyncio.Future[Params]) -> None:
        self._wake.set()
        done.cancelled() or done.exception()  # ignore the error: the page may be gone

    async def _run_timers(self, milliseconds: float) -> None:
        # The clock of the page stops while it waits for an answer, and otherwise jumps to the next timer.
        self._expired = False
        policy = {"policy": "pauseIfNetworkFetchesPending", "maxVirtualTimeTaskStarvationCount": 10**6}
        self._send("Emulation.setVirtualTimePolicy", policy | {"budget": milliseconds})
        while self._asks or not self._expired:
            await self._woken()

    async def _woken(self) -> None:
        """Wait for an event, within the page's time limit."""
        left = LOOK if self._page.since is None else self._page.seconds - (time.monotonic() - self._page.since)
        self._wake.clear()
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            if self._page.since is not None or await self._busy():
                raise _Cut("time") from None
        if self._fault is not None:
            raise self._fault

    async def _busy(self) -> bool:
        """Return True if a page that waits for answers uses too much CPU time."""
        try:
            async with asyncio.timeout(self._budget.seconds):
                return await self._cpu() > self._budget.seconds
        except TimeoutError:
            return True

    async def _cpu(self) -> float:
        """Return the CPU seconds of all threads of the page's renderer, including workers. A sandboxed renderer cannot
        report them; for such a renderer, return the busy time of its main thread."""
        metrics = await self._call("Performance.getMetrics")
        found = {each["name"]: float(each["value"]) for each in metrics["metrics"]}
        return found.get("ProcessTime") or found.get("TaskDuration", 0.0)

    async def _html(self, frame: str, depth: int) -> str:
        """Return the HTML of a frame and its inner frames. Frames that disappear are omitted."""
        world = await self._call("Page.createIsolatedWorld", {"frameId": frame, "worldName": "ours"})
        context, is_page = world["executionContextId"], frame == self._page.target
        options = json.dumps([is_page, sorted(self._page.unfollowed)])
        taken = (await self._evaluate(f"({_SERIALISE})({_BOUNDS}, {options})", context, by_value=True))["value"]
        if is_page:
            self.result.url = taken["url"]  # a ``pushState`` during loading causes no event
        if taken["cut"]:
            self.result.cut = self.result.cut or "size"
        first, *others = taken["parts"]
        html = [first]
        for number, part in enumerate(others):
            with contextlib.suppress(CallFailed):
                element = await self._evaluate(f"foreign[{number}]", context, by_value=False)
                node = await self._call("DOM.describeNode", {"objectId": element["objectId"]})
                if depth:
                    html.append(await self._html(node["node"]["frameId"], depth - 1))
            html.append(part)
        return "".join(html)

    async def _evaluate(self, script: str, context: int, *, by_value: bool) -> Params:
        done = await self._call(
            "Runtime.evaluate", {"expression": script, "contextId": context, "returnByValue": by_value}
        )
        if "exceptionDetails" in done:
            raise CallFailed(str(done["result"].get("description", "a script failed")))
        return dict(done["result"])

    # -- events

    def lose(self, fault: BaseException) -> None:
        """End the page with this exception, unless an earlier one has already ended it."""
        self._fault = self._fault or fault
        self._wake.set()

    def _gone(self, _: asyncio.Future[None]) -> None:
        self.lose(Lost(ENDED))

    def _attached(self, session: str, info: Params) -> None:
        """Set up a new target of the page's context (the page or a worker), which waits until it is set up. Pop-ups are
        closed, and the browser's own targets never start."""
        kind = info["type"]
        if kind == "service_worker" or (kind == "page" and self._session):
            self._pipe.send("Target.closeTarget", {"targetId": info["targetId"]})
        elif kind in _STARTED:
            self._pipe.listeners[session] = partial(self._event, session)
            self._sessions[session] = kind
            self._pipe.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}, session)
            if kind == "page":
                self._session = session
                self._send("Page.enable")
                self._send("Performance.enable")
                self._send("Animation.setPlaybackRate", {"playbackRate": ANIMATED})
                self._send("Emulation.setDeviceMetricsOverride", VIEWPORT)
            self._pipe.send("Runtime.runIfWaitingForDebugger", {}, session)
            self._wake.set()

    def _event(self, session: str, method: str, params: Params) -> None:
        if method == "Fetch.requestPaused":
            self._paused(session, params)
        elif method == "Target.attachedToTarget":
            self._attached(params["sessionId"], params["targetInfo"])
        elif method == "Emulation.virtualTimeBudgetExpired":
            self._expired = True
            self._wake.set()
        elif method == "Page.navigatedWithinDocument" and params["frameId"] == self._page.target:
            route = urldefrag(params["url"]).url
            if route not in self.result.routes and len(self.result.routes) < ROUTES_MOST:
                self.result.routes.append(route)
        elif method == "Page.javascriptDialogOpening":
            self._send("Page.handleJavaScriptDialog", {"accept": False})
        elif method == "Inspector.targetCrashed" and session == self._session:
            self.lose(Lost("the page crashed"))

    def _paused(self, session: str, params: Params) -> None:
        number, asked = params["requestId"], params["request"]
        kind = KINDS.get(params["resourceType"], Kind.OTHER)
        url = urldefrag(asked["url"]).url
        if kind is Kind.DOCUMENT and params["frameId"] == self._page.target:
            if self._page.raw is not None:
                self._fulfil(session, number, self._page.raw, is_document=True)
                self._page.raw = None
                return
            if url != self.result.url and asked["method"] == "GET" and self._navigates(asked["headers"]):
                self.result.moved = url
            self._stay(session, number)
            return
        if params["resourceType"] == "Other" and of_script(asked["headers"]):
            kind = Kind.SCRIPT
        if asked["method"] == "OPTIONS" and "Access-Control-Request-Method" in asked["headers"]:
            kind = Kind.PREFLIGHT
        if self.result.requests >= self._budget.requests or self._page.bytes >= self._budget.bytes:
            self._refuse(session, number, Refusal.BUDGET, kind)
            return
        self.result.requests += 1
        parts = (base64.b64decode(each["bytes"]) for each in asked.get("postDataEntries", ()) if "bytes" in each)
        body = b"".join(parts) if asked.get("hasPostData") else None
        request = SubRequest(url, asked["method"], kind, asked["headers"], body)
        if not self._asks and self._page.since is not None:
            self._page.seconds -= time.monotonic() - self._page.since
            self._page.since = None
        task = asyncio.create_task(self._answer(session, number, request))
        self._asks.add(task)
        task.add_done_callback(self._answered)

    def _navigates(self, headers: Mapping[str, str]) -> bool:
        """Return True if a request to replace the page's document is a navigation, not a download."""
        return "Upgrade-Insecure-Requests" in headers

    def _stay(self, session: str, number: str) -> None:
        """Stop a navigation away from the page."""
        self._fail(session, number, "Aborted", Kind.DOCUMENT)

    async def _answer(self, session: str, number: str, request: SubRequest) -> None:
        if origin_of(request.url) == origin_of(self._page.href):
            request = replace(request, cookies=await self._cookies(request))
        answer = await self._ask(request)
        if isinstance(answer, Answer):
            self._page.bytes += len(answer.body)
            self.result.failed |= request.kind in NEEDED and answer.status in _PASSING
            is_document = request.kind is Kind.DOCUMENT
            if is_document and any(_NOFOLLOW.search(f"{name}:{value}") for name, value in answer.headers):
                self._page.unfollowed.add(request.url)
            self._fulfil(session, number, answer, is_document=is_document)
        elif answer is not None:
            self._refuse(session, number, answer, request.kind)
        else:
            self.result.failed |= request.kind in NEEDED
            self._fail(session, number, "Failed", request.kind)
        if self._sessions[session].endswith("worker"):
            await asyncio.sleep(WORKER_WAIT)  # workers run in real time

    async def _cookies(self, request: SubRequest) -> str:
        found = await self._call("Network.getCookies", {"urls": [request.url]})
        return "; ".join(f"{each['name']}={each['value']}" for each in found["cookies"])

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._asks.discard(task)
        if not self._asks:
            self._page.since = time.monotonic()
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.lose(fault)
        self._wake.set()

    def _fulfil(self, session: str, number: str, answer: Answer, *, is_document: bool = False) -> None:
        body = _CLOSED.sub(rb"\1open", answer.body) if is_document else answer.body
        self._pipe.send(
            "Fetch.fulfillRequest",
            {
                "requestId": number,
                "responseCode": answer.status,
                "responsePhrase": "Unknown",  # required for unknown statuses
                "responseHeaders": [{"name": name, "value": _as_sent(name, value)} for name, value in answer.headers],
                "body": base64.b64encode(body).decode(),
            },
            session,
        )

    def _refuse(self, session: str, number: str, why: Refusal, kind: Kind) -> None:
        if len(self.result.refused) < REFUSED_MOST:
            self.result.refused.append((why, kind))
        else:
            self.lose(_Cut("requests"))
        self._fail(session, number, "BlockedByClient", kind)

    def _fail(self, session: str, number: str, reason: str, kind: Kind) -> None:
        self._pipe.send("Fetch.failRequest", {"requestId": number, "errorReason": reason}, session)

    async def _call(self, method: str, params: Params | None = None) -> Params:
        return await self._pipe.call(method, params, self._session)

    def _send(self, method: str, params: Params | None = None) -> None:
        self._pipe.send(method, params, self._session)


def origin_of(url: str) -> list[str]:
    return url.split("/")[:3]


def _as_sent(name: str, value: str) -> str:
    """Return a header for the browser. Non-ASCII bytes of a redirect's target are percent-encoded as received."""
    return quote(value, string.printable, errors="surrogateescape") if name.lower() == "location" else value

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
from pathlib import Path
from urllib.parse import quote, urldefrag

from msgspec import Struct
from msgspec.structs import replace

from crawler.web.browser.asked import of_script
from crawler.web.browser.pipe import BrowserGone, CallFailed, Params, Pipe
from crawler.web.browser.rendered import (
    NEEDED,
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

KINDS = {kind.title(): kind for kind in Kind} | {"XHR": Kind.DATA, "Fetch": Kind.DATA, "TextTrack": Kind.MEDIA}
VIEWPORT = {"width": 1280, "height": 4000, "deviceScaleFactor": 1, "mobile": False}
BEFORE_SCROLL = 3_000  # milliseconds that the page's own clock runs for its timers before scrolling ...
ROUNDS = (
    2_000,
    500,
    500,
    500,
)  # ... and afterwards; the last ones are for pages that load more when scrolled to the end
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


class Lost(Exception):
    """The page is gone. The message is the reason."""


class _Took(Struct):
    """The part of a page's budget that has been used, and the page's refused requests."""

    left: float  # seconds left at ``since``; ``since`` is None while the page opens or waits
    since: float | None = None
    requests: int = 0
    bytes: int = 0
    refused: list[Refused] = []
    failed: bool = False  # True if a request for a script, data or a frame failed
    short: bool = False  # True if the HTML was cut


class _Place(Struct):
    """The URLs of a page. ``target`` is its own frame; ``routes`` has the URLs set by scripts. Links of documents in
    ``unfollowed`` must not be followed."""

    href: str
    url: str
    target: str = ""
    moved: str | None = None
    routes: dict[str, None] = {}
    unfollowed: set[str] = set()


class Tab:
    first_script = GUARD

    def __init__(self, pipe: Pipe, context: str, href: str, answer: Answer, ask: Ask, budget: Budget) -> None:
        self._pipe, self._context, self._ask, self._budget = pipe, context, ask, budget
        self._page: Answer | None = answer  # the page's response, until the browser has requested it
        self._session = ""
        self._sessions: dict[str, str] = {}  # the type of each session's target
        self._wake = asyncio.Event()  # set at events that may let the page continue
        self._expired = False
        self._fault: BaseException | None = None
        self._asks: set[asyncio.Task[None]] = set()
        self._took = _Took(budget.seconds)
        self._place = _Place(href, href)

    # -- the page

    async def render(self, engine: str) -> Rendered | NotRendered:
        """Render the page. Raises ``BrowserGone`` and the errors of ``ask``. A renderer that hangs ends with its
        browser context."""
        cut = None
        self._pipe.gone.add_done_callback(self._gone)
        try:
            try:
                async with asyncio.timeout(max(self._budget.seconds, OPEN_WAIT)):
                    await self._open()
                if not self._asks:
                    self._took.since = time.monotonic()
                await self._run()
            except _Cut as why:
                cut = str(why)
                self._send("Emulation.setVirtualTimePolicy", {"policy": "pause"})
                self._send("Emulation.setScriptExecutionDisabled", {"value": True})  # our scripts still run
                self._send("Runtime.terminateExecution")
                self._send("Runtime.evaluate", {"expression": "0"})  # terminated instead, if no script is running
            async with asyncio.timeout(CUT_WAIT if cut else LAST_WAIT):
                try:
                    html = await self._html(self._place.target, FRAMES_DEEP)
                except CallFailed:
                    if not cut:
                        raise
                    html = await self._html(self._place.target, FRAMES_DEEP)  # the first attempt was terminated
                cpu = await self._cpu()
        except TimeoutError:
            crashed = isinstance(self._fault, Lost)  # the page crashed while its document was read
            return NotRendered("the page crashed" if crashed else f"the page hangs ({cut or 'time'})", engine, crashed)
        except (CallFailed, Lost) as error:
            return NotRendered(str(error), engine, died=isinstance(error, Lost))
        finally:
            for task in self._asks:
                task.cancel()
            await asyncio.gather(*self._asks, return_exceptions=True)
            self._pipe.gone.remove_done_callback(self._gone)
            for session in self._sessions:
                self._pipe.listeners.pop(session, None)
        if not self._place.url.startswith(("http:", "https:")):
            return NotRendered(f"the page navigated to {self._place.url[:100]}", engine)
        return Rendered(
            html.encode(errors="replace"),
            urldefrag(self._place.url).url,
            engine,
            cpu,
            self._took.requests,
            tuple(self._took.refused),
            self._place.moved if self._place.moved != self._place.url else None,
            tuple(self._place.routes),
            cut or ("size" if self._took.short else None),
            self._took.failed,
        )

    async def _open(self) -> None:
        """Open the page; its scripts run from then on."""
        target = await self._pipe.call("Target.createTarget", {"url": "about:blank", "browserContextId": self._context})
        self._place.target = target["targetId"]
        while not self._session:
            self._wake.clear()
            await self._wake.wait()
            if self._fault is not None:
                raise self._fault
        await self._call("Page.addScriptToEvaluateOnNewDocument", {"source": self.first_script})
        went = await self._call("Page.navigate", {"url": self._place.href})
        if "errorText" in went:
            kind = CallFailed if went["errorText"] == "net::ERR_ABORTED" else Lost  # ABORTED: for example a download
            raise kind(f"the browser does not display the page: {went['errorText']}")

    async def _run(self) -> None:
        """Run timers and draw frames; repeat both, for a few rounds, as long as they cause more requests."""
        await self._run_timers(BEFORE_SCROLL)
        for milliseconds in ROUNDS:
            asked = self._took.requests
            await self._draw()
            await self._run_timers(milliseconds)
            if asked == self._took.requests:
                return

    async def _draw(self) -> None:
        """Draw frames at the top and at the bottom of the page, because observers and animations wait for frames.
        Frames are drawn in real time, but nothing runs in the page while its clock is stopped, so the clock advances in
        small steps."""
        drawn = asyncio.ensure_future(self._call("Runtime.evaluate", {"expression": SCROLL, "awaitPromise": True}))
        drawn.add_done_callback(lambda done: done.cancelled() or done.exception())  # the page may be gone
        try:
            for _ in range(FRAMES_MOST):
                await self._run_timers(FRAME)
                if drawn.done():
                    return
                await asyncio.sleep(FRAME / 1000)
        finally:
            drawn.cancel()

    async def _run_timers(self, milliseconds: float) -> None:
        # The clock of the page stops while it waits for an answer, and otherwise jumps to the next timer.
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
        """Wait for an event, within the page's time limit."""
        left = LOOK if self._took.since is None else self._took.left - (time.monotonic() - self._took.since)
        self._wake.clear()
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            if self._took.since is not None or await self._busy():
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
        context, is_page = world["executionContextId"], frame == self._place.target
        options = json.dumps([is_page, sorted(self._place.unfollowed)])
        taken = (await self._evaluate(f"({_SERIALISE})({_BOUNDS}, {options})", context, by_value=True))["value"]
        if is_page:
            self._place.url = taken["url"]  # a ``pushState`` during loading causes no event
        self._took.short |= taken["cut"]
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
        result: Params = done["result"]
        return result

    # -- events

    def lose(self, fault: BaseException) -> None:
        """End the page with this exception, unless an earlier one has already ended it."""
        self._fault = self._fault or fault
        self._wake.set()

    def _gone(self, _: asyncio.Future[None]) -> None:
        self.lose(BrowserGone())

    def attached(self, session: str, info: Params) -> None:
        """Set up a new target of the page's context (the page or a worker), which waits until it is set up. Pop-ups are
        closed, and the browser's own targets never start."""
        kind = info["type"]
        if kind == "service_worker" or (kind == "page" and self._session):
            self._pipe.send("Target.closeTarget", {"targetId": info["targetId"]})
        elif kind in _STARTED:
            self._pipe.listeners[session] = lambda method, params: self._event(session, method, params)
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
        elif method == "Emulation.virtualTimeBudgetExpired":
            self._expired = True
            self._wake.set()
        elif method == "Page.navigatedWithinDocument" and params["frameId"] == self._place.target:
            if len(self._place.routes) < ROUTES_MOST:
                self._place.routes[urldefrag(params["url"]).url] = None
        elif method == "Page.javascriptDialogOpening":
            self._send("Page.handleJavaScriptDialog", {"accept": False})
        elif method == "Inspector.targetCrashed" and session == self._session:
            self.lose(Lost("the page crashed"))

    def _paused(self, session: str, params: Params) -> None:
        number, asked = params["requestId"], params["request"]
        kind = KINDS.get(params["resourceType"], Kind.OTHER)
        url = urldefrag(asked["url"]).url
        if kind is Kind.DOCUMENT and params["frameId"] == self._place.target:
            if self._page is not None:
                self._fulfil(session, number, self._page, is_document=True)
                self._page = None
                return
            if url != self._place.url and asked["method"] == "GET" and self._navigates(asked["headers"]):
                self._place.moved = url
            self._stay(session, number)
            return
        if params["resourceType"] == "Other" and of_script(asked["headers"]):
            kind = Kind.SCRIPT
        if asked["method"] == "OPTIONS" and "Access-Control-Request-Method" in asked["headers"]:
            kind = Kind.PREFLIGHT
        if self._took.requests >= self._budget.requests or self._took.bytes >= self._budget.bytes:
            self._refuse(session, number, Refused(Refusal.BUDGET, url, kind))
            return
        self._took.requests += 1
        body = [base64.b64decode(each["bytes"]) for each in asked.get("postDataEntries", ()) if "bytes" in each]
        request = SubRequest(
            url,
            asked["method"],
            kind,
            asked["headers"],
            b"".join(body) if asked.get("hasPostData") else None,
        )
        if not self._asks and self._took.since is not None:
            self._took.left -= time.monotonic() - self._took.since
            self._took.since = None
        task = asyncio.create_task(self._answer(session, number, request))
        self._asks.add(task)
        task.add_done_callback(self._answered)

    def _navigates(self, headers: Mapping[str, str]) -> bool:
        """Return True if a request to replace the page's document is a navigation, not a download."""
        return "Upgrade-Insecure-Requests" in headers

    def _stay(self, session: str, number: str) -> None:
        """Stop a navigation away from the page."""
        self._fail(session, number, "Aborted")

    async def _answer(self, session: str, number: str, request: SubRequest) -> None:
        if origin_of(request.url) == origin_of(self._place.href):
            request = replace(request, cookies=await self._cookies(request))
        answer = await self._ask(request)
        if isinstance(answer, Answer):
            self._took.bytes += len(answer.body)
            self._took.failed |= request.kind in NEEDED and answer.status in _PASSING
            is_document = request.kind is Kind.DOCUMENT
            if is_document and any(_NOFOLLOW.search(f"{name}:{value}") for name, value in answer.headers):
                self._place.unfollowed.add(request.url)
            self._fulfil(session, number, answer, is_document=is_document)
        elif isinstance(answer, Refused):
            self._refuse(session, number, replace(answer, kind=request.kind))
        else:
            self._took.failed |= request.kind in NEEDED
            self._fail(session, number, "Failed")
        if self._sessions[session].endswith("worker"):
            await asyncio.sleep(WORKER_WAIT)  # workers run in real time

    async def _cookies(self, request: SubRequest) -> str:
        found = await self._call("Network.getCookies", {"urls": [request.url]})
        return "; ".join(f"{each['name']}={each['value']}" for each in found["cookies"])

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._asks.discard(task)
        if not self._asks:
            self._took.since = time.monotonic()
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

    def _refuse(self, session: str, number: str, refused: Refused) -> None:
        if len(self._took.refused) < REFUSED_MOST:
            self._took.refused.append(refused)
        else:
            self.lose(_Cut("requests"))
        self._fail(session, number, "BlockedByClient")

    def _fail(self, session: str, number: str, reason: str) -> None:
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

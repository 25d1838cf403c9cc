"""Lightpanda: a small engine that supports a part of the DevTools protocol.

Like the other engines, it pauses the requests of a page, but not those of sockets and beacons. So it runs in its own
network namespace without any interface, not even loopback. It is controlled through a Unix socket, with one connection
per page. It does not support virtual time either, so a script controls the timers of a page.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urljoin

from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientWSTimeout, UnixConnector
from msgspec.structs import replace

from crawler.base.settings.parts import BrowserSettings
from crawler.web.browser.engines import NO_NETWORK
from crawler.web.browser.pipe import Params, Pipe
from crawler.web.browser.process import ATTACH, LAUNCH, BrowserProcess
from crawler.web.browser.rendered import Answer, Ask, Asked, Kind, Refusal, SubRequest
from crawler.web.browser.tab import FRAME, GUARD, SCROLL, Tab, origin_of, script

_SOCKET = "devtools"
_DIES = """
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != parent: sys.exit()
"""
_AT_ONCE = ClientWSTimeout(ws_close=0.0)
_COOKIES_WAIT = 0.2  # seconds to wait for the page's cookies
_LOOK = 0.01  # seconds between attempts to connect
_SWITCHES = f"""
serve --unix-socket /proc/self/cwd/{_SOCKET} --cdp-max-connections 256 --cdp-max-message-size 268435456
--load-resources iframe --load-resources worker --load-resources stylesheet --http-proxy http://127.0.0.1:9
--http-timeout 0 --v8-max-heap-mb 512 --watchdog-ms 10000 --log-level fatal
"""
_DRAWN = 16 * FRAME  # milliseconds for drawing
_SCROLLED = "document.dispatchEvent(new Event('scroll', {bubbles: true}))"
_REDIRECTS = (301, 302, 303, 307, 308)
_AHEAD = 100  # milliseconds of the page's clock between checks for new requests


class Connection(Pipe):
    """A WebSocket connection that controls one page. It is ``ready`` as soon as the process listens, or has ended."""

    def __init__(self, process: BrowserProcess) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self._carrying = asyncio.create_task(self._carry(process))

    async def _carry(self, process: BrowserProcess) -> None:
        # The path of a Unix socket has a limited length, so use a short one through the process's directory.
        connector = UnixConnector(f"/proc/{process.pid}/cwd/{_SOCKET}")
        try:
            async with ClientSession(connector=connector) as session:
                while not (self.ready.is_set() or process.worn):
                    with contextlib.suppress(ClientConnectorError):
                        async with (
                            session.ws_connect("http://localhost/", max_msg_size=0, timeout=_AT_ONCE) as self._socket,
                            asyncio.TaskGroup() as self._writing,
                        ):
                            self.ready.set()
                            async for message in self._socket:
                                self._receive(message.data)
                    await asyncio.sleep(_LOOK)
        except* ClientError:
            pass  # the browser has ended
        finally:
            self.connection_lost(None)
            self.ready.set()

    def close(self) -> None:
        self._carrying.cancel()
        self.connection_lost(None)

    def _write(self, message: str) -> None:
        self._writing.create_task(self._socket.send_str(message))


class LightpandaProcess(BrowserProcess):
    """One process for several pages, each of which is a separate browser inside it."""

    # Entering a new namespace may clear the parent-death signal, so it is set again.
    launch = LAUNCH.replace("os.execv", f"{NO_NETWORK}{_DIES}os.execv")

    @classmethod
    def switches(cls, user_agent: str, profile: Path, settings: BrowserSettings) -> list[str]:
        return [*_SWITCHES.split(), "--user-agent", user_agent]

    async def connected(self) -> Pipe:
        pipe = Connection(self)
        await pipe.ready.wait()
        pipe.send("Target.setAutoAttach", ATTACH)
        return pipe

    async def _ids(self) -> set[int]:
        return {self.pid}


class LightpandaTab(Tab):
    first_script = GUARD + script("clock.js")

    def __init__(self, process: BrowserProcess, pipe: Pipe, context: str, href: str, answer: Answer, ask: Ask) -> None:
        super().__init__(process, pipe, context, href, answer, self._followed)
        self._first_ask = ask
        self._process, self._cpu_before = process, self._cpu_of(process)
        self._frames: set[str] = set()
        self._clock = 0.0

    def _event(self, session: str, method: str, params: Params) -> None:
        if method == "Fetch.requestPaused" and self._page.raw is not None:
            self._keep_cookies(self._page.href, self._page.raw)
        elif method == "Fetch.requestPaused" and params["resourceType"] == "Document":
            if params["frameId"] not in {*self._frames, self._page.target}:  # a pop-up; ignore it
                return
        elif method == "Page.frameAttached":
            self._frames.add(params["frameId"])
        super()._event(session, method, params)

    async def _followed(self, request: SubRequest) -> Asked:
        """Follow the redirects of a request, which the engine would follow without pausing, and fail. Returns the last
        answer. Cookies are stored here, because the engine ignores those in our answers."""
        while True:
            answer = await self._first_ask(request)
            if not isinstance(answer, Answer):
                return answer
            self._keep_cookies(request.url, answer)
            to = next((value for name, value in answer.headers if name.lower() == "location"), None)
            if to is None or answer.status not in _REDIRECTS:
                return answer
            url = urljoin(request.url, to)
            if request.kind is Kind.DOCUMENT:  # relative links are resolved with the final URL
                script = "<script>location.replace({})</script>".format(json.dumps(url).replace("<", "\\u003c"))
                return Answer(200, (("Content-Type", "text/html"),), script.encode())
            if self.result.requests >= self._budget.requests:
                return Refusal.BUDGET
            self.result.requests += 1
            cookies = request.cookies if origin_of(url) == origin_of(request.url) else ""
            request = replace(request, url=url, cookies=cookies)
            if answer.status not in (307, 308):
                request = replace(request, method="GET", body=None)

    async def _cookies(self, request: SubRequest) -> str:
        # While the engine waits for a blocking script, it answers no commands.
        if request.kind in (Kind.SCRIPT, Kind.STYLESHEET):
            return ""
        try:
            async with asyncio.timeout(_COOKIES_WAIT):
                return await super()._cookies(request)
        except TimeoutError:
            return ""

    def _keep_cookies(self, url: str, answer: Answer) -> None:
        for name, value in answer.headers:
            if name.lower() == "set-cookie":
                for key, cookie in SimpleCookie(value).items():
                    path = {"path": cookie["path"]} if cookie["path"] else {}
                    only = {"httpOnly": bool(cookie["httponly"])}
                    self._send("Network.setCookie", {"url": url, "name": key, "value": cookie.value} | only | path)

    async def _run_timers(self, milliseconds: float) -> None:
        self._clock += milliseconds
        more = True
        while more or self._asks:
            while self._asks:
                await self._woken()
            asked = self.result.requests
            ran = self._begun(f"runTimers({self._clock}, {_AHEAD})")
            try:
                while not ran.done():
                    await self._woken()
            finally:
                ran.cancel()
            more = ran.result()["result"].get("value") is True or self.result.requests > asked

    async def _draw(self) -> None:
        self._send("Runtime.evaluate", {"expression": f"{SCROLL};{_SCROLLED}"})  # without layout there is no scrolling
        await self._run_timers(_DRAWN)

    async def _cpu(self) -> float:
        """Return the page's share of the process's CPU seconds, assuming equal shares for all its pages."""
        return (self._cpu_of(self._process) - self._cpu_before) / max(self._process.active, 1)

    def _cpu_of(self, process: BrowserProcess) -> float:
        return time.clock_gettime(~process.pid << 3 | 2)

    def _navigates(self, headers: Mapping[str, str]) -> bool:
        return True

    def _fail(self, session: str, number: str, reason: str, kind: Kind) -> None:
        if kind is Kind.DOCUMENT:  # an error page would be text of the page
            self._fulfil(session, number, Answer(200, (), b""))
        else:
            super()._fail(session, number, reason, kind)

    def _stay(self, session: str, number: str) -> None:
        """Stop reading the page. The navigation stays unanswered, because an error page would replace the page."""

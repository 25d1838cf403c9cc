"""A browser renders pages whose every request a test answers; what it would send by itself meets listeners."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import pytest_asyncio

from crawler.base.settings.parts import BrowserSettings
from crawler.web.browser.browser import Browser
from crawler.web.browser.rendered import (
    Answer,
    Budget,
    Failed,
    Kind,
    NotRendered,
    Refusal,
    Refused,
    Rendered,
    SubRequest,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

HREF = "http://127.0.0.1:1/page"  # nobody answers there but `Site`
AGENT = "our-crawler/1.0 (+http://example.test/)"
SETTINGS = BrowserSettings(no_sandbox=os.geteuid() == 0, memory=700 * 2**20)


class Site:
    """Answers what a page asks for, by path; refuses the rest."""

    def __init__(self, **files: str | Answer) -> None:
        self.files = files
        self.asked: list[SubRequest] = []
        self.wait = 0.0

    async def ask(self, request: SubRequest) -> Answer | Refused | Failed:
        self.asked.append(request)
        await asyncio.sleep(self.wait)
        file = self.files.get(request.url.split("?")[0].rpartition("/")[2].partition(".")[0])
        if file is None:
            return Refused(Refusal.TYPE, request.url)
        kind = "text/javascript" if request.url.endswith(".js") else "text/html"
        return file if isinstance(file, Answer) else page(file, ("Content-Type", kind))

    @property
    def paths(self) -> list[str]:
        return sorted(request.url.partition(":1/")[2] for request in self.asked)


def page(html: str, *headers: tuple[str, str]) -> Answer:
    return Answer(200, headers or (("Content-Type", "text/html; charset=utf-8"),), html.encode())


def script(code: str) -> str:
    return f"<!doctype html><title>t</title><body><div id=root></div><script>{code}</script>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with Browser(SETTINGS, AGENT, tmp_path_factory.mktemp("profiles")) as opened:
        yield opened


async def rendered(browser: Browser, html: str, site: Site | None = None, **budget: float) -> Rendered:
    done = await browser.render(HREF, page(html), (site or Site()).ask, Budget(**budget))  # type: ignore[arg-type]
    assert isinstance(done, Rendered), done
    return done


def text_of(html: bytes) -> str:
    parts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = parts.append  # type: ignore[method-assign]
    parser.feed(html.decode())
    return " ".join("".join(parts).split())


class Listener:
    """Hears whoever comes to a port of 127.0.0.1, by TCP or UDP."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def __aenter__(self) -> "Listener":
        self._server = await asyncio.start_server(lambda *_: self.heard.append("TCP"), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("127.0.0.1", self.port))
        asyncio.get_running_loop().add_reader(self._socket, lambda: self.heard.append(str(self._socket.recv(100))))
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._server.close()


# What a page does to be heard, and the path of the request that the crawler is asked for; "" if there is none.
CANARIES = {
    "websocket": ("new WebSocket('ws://HOST/websocket')", ""),
    "webtransport": ("new WebTransport('https://HOST/webtransport').ready.catch(()=>0)", ""),
    "webrtc": (
        "const p=new RTCPeerConnection({iceServers:[{urls:'stun:HOST'},"
        "{urls:'turn:HOST?transport=tcp',username:'u',credential:'c'}]});p.createDataChannel('d');"
        "p.createOffer().then(o=>p.setLocalDescription(o))",
        "",
    ),
    "serviceworker": (
        "navigator.serviceWorker.register('/serviceworker.js').catch(()=>document.body.append('no worker'))",
        "",
    ),
    "beacon": ("navigator.sendBeacon('/beacon','x')", "beacon"),
    "keepalive": ("fetch('/keepalive',{keepalive:true,method:'POST',body:'x'})", "keepalive"),
    "eventsource": ("new EventSource('/eventsource')", "eventsource"),
    "popup": ("window.open('/popup')", ""),
    "target": ("click('a',{href:'/target',target:'_blank'})", ""),
    "ping": ("click('a',{href:'#x',ping:'/ping'})", ""),
    "download": ("click('a',{href:'/download',download:'d'})", ""),
    "form": (
        "const f=add('form',{action:'/form',method:'post',target:'inner'});add('iframe',{name:'inner'});f.submit()",
        "form",
    ),
    "prefetch": ("add('link',{rel:'prefetch',href:'/prefetch'})", "prefetch"),
    "preload": ("add('link',{rel:'preload',as:'script',href:'/preload'})", "preload"),
    "preconnect": ("add('link',{rel:'preconnect',href:'//127.0.0.1:PORT'})", ""),
    "dns": ("add('link',{rel:'dns-prefetch',href:'//name.localhost:PORT'})", ""),
    "speculation": (
        """const s=add('script',{type:'speculationrules'});s.textContent='{"prefetch":[{"source":"list","urls":'
        +'["/speculation"],"eagerness":"immediate"}],"prerender":[{"source":"list","urls":["/prerender"]}]}'""",
        "",
    ),
    "import": ("add('style').textContent='@import \"/import\"'", "import"),
    "font": (
        "add('style').textContent='@font-face{font-family:f;src:url(/font)}p{font-family:f}';add('p').append('x')",
        "font",
    ),
    "manifest": ("add('link',{rel:'manifest',href:'/manifest'})", ""),
    "refresh": ("add('meta',{httpEquiv:'refresh',content:'1;url=/refresh'})", ""),
    "worker": ("new Worker('/worker.js')", "inworker"),
    "shared": ("new SharedWorker('/shared.js')", "inshared"),
    "blob": ("new Worker(URL.createObjectURL(new Blob(['fetch(\"http://HOST/inblob\")'])))", "inblob"),
    "csp": ("add('meta',{httpEquiv:'content-security-policy',content:'img-src none'});new Image().src='/csp'", ""),
}


@pytest.mark.parametrize("engine", ["headless-shell", "chromium"])
async def test_nothing_leaves_but_by_ask(engine: str, tmp_path: Path) -> None:
    add = "const add=(n,a={})=>{const e=Object.assign(document.createElement(n),a);document.body.append(e);return e};"
    click = "const click=(n,a)=>{const e=add(n,a);e.append('x');e.click()};"
    site = Site(worker="fetch('/inworker')", shared="fetch('/inshared')")
    settings = BrowserSettings(no_sandbox=SETTINGS.no_sandbox, engine=engine)
    async with Listener() as listener, Browser(settings, AGENT, tmp_path) as opened:
        tries = "".join(f"try{{(()=>{{{code}}})()}}catch(e){{}}" for code, _ in CANARIES.values())
        html = script(add + click + tries.replace("HOST", "127.0.0.1:PORT").replace("PORT", str(listener.port)))
        href = f"http://127.0.0.1:{listener.port}/page"
        done = await opened.render(href, page(html), site.ask, Budget())
        await asyncio.sleep(0.3)
        assert isinstance(done, Rendered), done
        assert listener.heard == []
    asked = {request.url.rpartition("/")[2] for request in site.asked}
    assert {path for _, path in CANARIES.values() if path} - asked == set()
    assert asked & {"popup", "target", "serviceworker.js", "refresh", "prerender"} == set()
    assert b"no worker" in done.html
    assert list(tmp_path.iterdir()) == []

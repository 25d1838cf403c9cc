"""A browser renders pages whose every request a test answers; what it would send by itself meets listeners."""

import asyncio
import contextlib
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import BrowserSettings
from crawler.web.browser import engines
from crawler.web.browser.browser import Browser
from crawler.web.browser.engines import find_engine
from crawler.web.browser.process import MEMORY_MOST, remove_leftovers
from crawler.web.browser.rendered import (
    Answer,
    Ask,
    Asked,
    Budget,
    Kind,
    NotRendered,
    Refusal,
    Rendered,
    SubRequest,
)
from tests.needs import need_version

pytestmark = pytest.mark.asyncio(loop_scope="module")

HREF = "http://127.0.0.1:1/page"  # nobody answers there but `Site`
AGENT = "our-crawler/1.0 (+http://example.test/)"
SETTINGS = BrowserSettings(no_sandbox=os.geteuid() == 0)


class Site:
    """Answers what a page asks for, by path; refuses the rest."""

    def __init__(self, **files: str | Answer) -> None:
        self.files = files
        self.asked: list[SubRequest] = []
        self.wait = 0.0

    async def ask(self, request: SubRequest) -> Asked:
        self.asked.append(request)
        await asyncio.sleep(self.wait)
        file = self.files.get(request.url.split("?")[0].rpartition("/")[2].partition(".")[0])
        if file is None:
            return Refusal.TYPE
        kind = "text/javascript" if request.url.endswith(".js") else "text/html"
        return file if isinstance(file, Answer) else page(file, ("Content-Type", kind))

    @property
    def paths(self) -> list[str]:
        return sorted(request.url.partition(":1/")[2] for request in self.asked)


def page(html: str, *headers: tuple[str, str]) -> Answer:
    return Answer(200, headers or (("Content-Type", "text/html; charset=utf-8"),), html.encode())


def script(code: str) -> str:
    return f"<!doctype html><title>t</title><body><div id=root></div><script>{code}</script>"


@contextlib.asynccontextmanager
async def browser_of(settings: BrowserSettings, directory: Path) -> AsyncIterator[Browser]:
    browser = Browser(settings, AGENT, directory)
    try:
        yield browser
    finally:
        await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browser_of(SETTINGS, tmp_path_factory.mktemp("profiles")) as opened:
        yield opened


async def within(browser: Browser, html: str, ask: Ask, **budget: float) -> Rendered | NotRendered:
    browser.budget = Budget(**budget)  # type: ignore[arg-type]
    try:
        return await browser.render(HREF, page(html), ask)
    finally:
        browser.budget = Budget()


async def rendered(browser: Browser, html: str, site: Site | None = None, **budget: float) -> Rendered:
    done = await within(browser, html, (site or Site()).ask, **budget)
    assert isinstance(done, Rendered), done
    return done


def text_of(html: bytes) -> str:
    parts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = parts.append  # type: ignore[method-assign]
    parser.feed(html.decode())
    return " ".join("".join(parts).split())


def of_engine(engine: str) -> BrowserSettings:
    if engine == "lightpanda":
        need_version(engine, 1)
    return replace(SETTINGS, engine=engine)


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
        "const p=new RTCPeerConnection({iceServers:[{urls:'stun:HOST'},{urls:'turn:HOST?transport=tcp',username:'u',"
        "credential:'c'}]});p.createDataChannel('d');p.createOffer().then(o=>p.setLocalDescription(o))", ""),
    "serviceworker": (
        "navigator.serviceWorker.register('/serviceworker.js').catch(()=>document.body.append('no worker'))", ""),
    "beacon": ("navigator.sendBeacon('/beacon','x')", "beacon"),
    "keepalive": ("fetch('/keepalive',{keepalive:true,method:'POST',body:'x'})", "keepalive"),
    "eventsource": ("new EventSource('/eventsource')", "eventsource"),
    "popup": ("window.open('/popup')", ""),
    "target": ("click('a',{href:'/target',target:'_blank'})", ""),
    "ping": ("click('a',{href:'#x',ping:'/ping'})", ""),
    "download": ("click('a',{href:'/download',download:'d'})", ""),
    "form": (
        "const f=add('form',{action:'/form',method:'post',target:'inner'});add('iframe',{name:'inner'});f.submit()",
        "form"),
    "prefetch": ("add('link',{rel:'prefetch',href:'/prefetch'})", "prefetch"),
    "preload": ("add('link',{rel:'preload',as:'script',href:'/preload'})", "preload"),
    "preconnect": ("add('link',{rel:'preconnect',href:'//127.0.0.1:PORT'})", ""),
    "dns": ("add('link',{rel:'dns-prefetch',href:'//name.localhost:PORT'})", ""),
    "speculation": (
        """const s=add('script',{type:'speculationrules'});s.textContent='{"prefetch":[{"source":"list","urls":'
        +'["/speculation"],"eagerness":"immediate"}],"prerender":[{"source":"list","urls":["/prerender"]}]}'""", ""),
    "import": ("add('style').textContent='@import \"/import\"'", "import"),
    "font": (
        "add('style').textContent='@font-face{font-family:f;src:url(/font)}p{font-family:f}';add('p').append('x')",
        "font"),
    "manifest": ("add('link',{rel:'manifest',href:'/manifest'})", ""),
    "refresh": ("add('meta',{httpEquiv:'refresh',content:'1;url=/refresh'})", ""),
    "worker": ("new Worker('/worker.js')", "inworker"),
    "shared": ("new SharedWorker('/shared.js')", "inshared"),
    "blob": ("new Worker(URL.createObjectURL(new Blob(['fetch(\"http://HOST/inblob\")'])))", "inblob"),
    "redirect": ("fetch('/hop')", "hopped"),
    "csp": ("add('meta',{httpEquiv:'content-security-policy',content:'img-src none'});new Image().src='/csp'", ""),
}  # fmt: skip


# Lightpanda does without these; a beacon it would send by itself.
NOT_ASKED = {"lightpanda": {"beacon", "font", "import", "prefetch"}}


@pytest.mark.parametrize("engine", ["headless-shell", "chromium", "lightpanda"])
async def test_nothing_leaves_but_by_ask(engine: str, tmp_path: Path) -> None:
    add = "const add=(n,a={})=>{const e=Object.assign(document.createElement(n),a);document.body.append(e);return e};"
    click = "const click=(n,a)=>{const e=add(n,a);e.append('x');e.click()};"
    hop = Answer(302, (("Location", "/hopped"),), b"")
    site = Site(worker="fetch('/inworker')", shared="fetch('/inshared')", hop=hop)
    async with Listener() as listener, browser_of(of_engine(engine), tmp_path) as opened:
        tries = "".join(f"try{{(()=>{{{code}}})()}}catch(e){{}}" for code, _ in CANARIES.values())
        html = script(add + click + tries.replace("HOST", "127.0.0.1:PORT").replace("PORT", str(listener.port)))
        href = f"http://127.0.0.1:{listener.port}/page"
        done = await opened.render(href, page(html), site.ask)
        await asyncio.sleep(0.3)
        assert isinstance(done, Rendered), done
        assert listener.heard == []
    asked = {request.url.rpartition("/")[2] for request in site.asked}
    assert {path for _, path in CANARIES.values() if path} - asked == NOT_ASKED.get(engine, set())
    assert asked & {"popup", "target", "serviceworker.js", "refresh", "prerender"} == set()
    assert b"no worker" in done.html or engine == "lightpanda"  # which knows none of that kind
    assert os.listdir(tmp_path) == []


SHADOW = """
customElements.define('x-card', class extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'open'}).innerHTML = 'before <slot name=t></slot><b><slot>default</slot></b> after' } });
root.innerHTML = '<x-card><i slot=t>title</i><a href=in>light</a></x-card><x-card></x-card>';
"""
DOCUMENTS = [  # HTML, what is in the document, what is not, its text
    ("<form><input name=attributes><input name=nodeType><input name=childNodes><input name=localName><a href=/f>in</a>"
     "</form><img name=body>", ["/f"], [], "in"),
    ("<body><script>document.body.append('x\\ud800y', 'z'.repeat(70000))</script>",
     ["y" + "z" * 9], ["\\ud800"], "x?y" + "z" * 70000),
    ("<p>a &amp;lt; b &amp;&amp; c > d &quot;&nbsp;e", ["a &amp;lt; b"], [], 'a &lt; b && c > d " e'),
    ("<pre>\n\nx</pre><textarea>&lt;/textarea>", [], [], "x</textarea>"),
    ("<base href=//b.test/d/><a href=x>1</a><img srcset='y 1x, z 2x'><form action=f></form>",
     ['href="http://b.test/d/x"', 'srcset="http://b.test/d/y 1x, http://b.test/d/z 2x"', '="http://b.test/d/f"'],
     ["<base"], "1"),
    ("<a href=#f>1</a><a href=mailto:a@b.test>2</a><a href='http://['>3</a><svg><a xlink:href=s>4</a></svg>",
     ['"http://127.0.0.1:1/page#f"', '"mailto:a@b.test"', '"http://["', ' href="http://127.0.0.1:1/s"'], [], "1234"),
    ("<div id=d></div><script>d.attachShadow({mode:'closed'}).innerHTML='<a href=shut>shut</a>'</script>",
     ['href="http://127.0.0.1:1/shut"'], [], "shut"),
    ("<script>1</script><style>a{}</style><noscript>no</noscript><template>t</template><!--c--><meta charset=latin1>"
     "<script type=application/ld+json>{\"a\":\"<\\/script><!--\"}</script>x",
     ['<script type="application/ld+json">{', "<meta charset=\"utf-8\">"], ["no", "<!--", "latin1", "style"], None),
    ("<iframe srcdoc='<title>n</title><p>inner <a href=i>1</a>'></iframe><iframe src=http://127.0.0.5:1/frame></iframe>",
     ['href="http://127.0.0.1:1/i"', 'href="http://127.0.0.5:1/far"'], ["<title>n"], "inner 1far"),
    ("<frameset><frame src=frame></frameset>", ['href="http://127.0.0.1:1/far"', 'src="http://127.0.0.1:1/frame"'],
     ["frameset"], "far"),
    ("shown<iframe src=/refused></iframe>", ["/refused"], [], "shown"),
    (f"<div id=root></div><script>{SHADOW}</script>", ['href="http://127.0.0.1:1/in"'], ["template"],
     "before titlelight afterbefore default after"),
    ("<script>for (const p of [Element, Node, Array, String, Map]) for (const k of Object"
     ".getOwnPropertyNames(p.prototype)) try { p.prototype[k] = () => 'bad' } catch {}</script>whole", [], ["bad"],
     "whole"),
    ("<script>document.documentElement.remove()</script>", [], ["html><"], ""),
]  # fmt: skip

ODD_DOCUMENTS: list[tuple[str, list[str], list[str], str | None]] = [  # which Lightpanda shows otherwise
    (
        "<div><template shadowrootmode=closed><a href=/c>in</a></template></div>",
        ['href="http://127.0.0.1:1/c"'],
        [],
        "in",
    ),
    ("<object data=/frame>else</object>", ["127.0.0.1:1/far"], ["else"], None),
    ("<iframe src=/latin></iframe>", ['/q?%C3%A9"'], ["%83"], None),
    ("<iframe src=/shut></iframe><iframe src=/closed></iframe>", ["shut", "closed"], ["<a"], None),
]


@pytest.mark.parametrize(("html", "there", "gone", "text"), DOCUMENTS + ODD_DOCUMENTS)
async def test_documents_are_taken_as_they_are_seen(
    browser: Browser, html: str, there: list[str], gone: list[str], text: str | None
) -> None:
    latin = "<meta charset=windows-1252><a href='/q?\u00e9'>x</a>"
    shut = page("<a href=/x>shut</a>", ("Content-Type", "text/html"), ("X-Robots-Tag", "noindex, nofollow"))
    closed = "<meta name=robots content=none><a href=/x>closed</a>"
    site = Site(frame="<title>n</title><a href=/far>far</a>", latin=latin, shut=shut, closed=closed)
    done = await rendered(browser, html, site)
    assert [each for each in there if each not in done.html.decode()] == []
    assert [each for each in gone if each in done.html.decode()] == []
    assert text is None or text_of(done.html) == text
    assert done.cut is None


LATER = "const say=t=>{const e=document.createElement('p');e.textContent=t;document.body.append(e)};"
SCRIPTS = [  # what a page does, its text, the paths that it asked for
    ("fetch('/api').then(r=>r.text()).then(t=>say(t))", "API", ["api"]),
    ("setTimeout(()=>say('late'),4500);setTimeout(()=>say('too late'),9000)", "late", []),
    ("let n=0;setInterval(()=>n++<4&&fetch('/api?'+n),900);(function f(){requestAnimationFrame(f)})()",
     "", ["api?1", "api?2", "api?3", "api?4"]),
    ("new IntersectionObserver(e=>e[0].isIntersecting&&say('seen')).observe(document.body.appendChild("
     "Object.assign(document.createElement('p'),{style:'margin-top:90000px'})))", "seen", []),
    ("onscroll=()=>{onscroll=null;fetch('/api').then(r=>r.text()).then(say)};root.style.height='1e5px'", "API",
     ["api"]),
    ("fetch('/set').then(()=>say(document.cookie))", "c=1", ["set"]),
    ("say(document.cookie+localStorage.a);document.cookie='c=2';localStorage.a=1", "undefined", []),
    ("say(document.cookie+localStorage.a)", "undefined", []),
    ("say(navigator.userAgent+navigator.webdriver)", AGENT + "true", []),
    ("fetch('http://127.0.0.5:1/cors',{headers:{'x-a':'b'}}).then(r=>r.text()).then(say)", "CORS", ["cors", "cors"]),
    ("fetch('/hop').then(r=>r.text()).then(say)", "API", ["api", "hop"]),
    ("let n=0;const o=indexedDB.open('d');o.onupgradeneeded=()=>o.result.createObjectStore('s');"
     "o.onsuccess=function more(){n++<9?o.result.transaction('s','readwrite').objectStore('s').put(n,n)"
     ".transaction.oncomplete=more:say(n)}",
     "10", []),
    ("alert(1);say(confirm('x'));say(prompt('x'))", "false", []),
    ("</script><link rel=stylesheet href=/a.css><script src=/ext.js></script><script>", "EXT", ["a.css", "ext.js"]),
    ("const x=new XMLHttpRequest();x.open('GET','/api',false);x.send();say(x.responseText)", "API", ["api"]),
    ("fetch('/none').catch(e=>say('failed'))", "failed", ["none"]),
    ("let n=0;requestAnimationFrame(function f(){root.append(n++);n<10&&requestAnimationFrame(f)})", "0123456789", []),
    ("new Worker('/worker.js').onmessage=e=>say(e.data)", "API", ["api", "worker.js"]),
    ("new Worker('/module.js',{type:'module'}).onmessage=e=>say(e.data)", "MOD", ["dep.js", "module.js"]),
    ("new SharedWorker('/shared.js').port.onmessage=e=>say(e.data)", "API", ["api", "shared.js"]),
    ("close();setTimeout(()=>{open('/pop');say('late')},100)", "late", []),
]  # fmt: skip

ODD_SCRIPTS = [  # which Lightpanda does not know
    ("fetch('/odd').then(r=>say(r.status))", "520", ["odd"]),
    ("import('/json',{with:{type:'json'}}).then(m=>say(m.default.x))", "7", ["json"]),
    ("root.animate([{opacity:0},{opacity:1}],900).onfinish=()=>say('shown')", "shown", []),
    ("say(fetchLater('/later',{activateAfter:0}).activated)", "false", []),
    ("fetch('/away').catch(()=>say('no'))", "no", ["away", "caf%E9"]),
]


def api() -> Site:
    cors = (("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Headers", "*"))
    return Site(
        api="API",
        worker="fetch('/api').then(r=>r.text()).then(t=>postMessage(t))",
        module="import('/dep.js').then(m=>postMessage(m.x))",
        dep="export const x='MOD'",
        shared="onconnect=e=>fetch('/api').then(r=>r.text()).then(t=>e.ports[0].postMessage(t))",
        ext="say('EXT')",
        set=page("", ("Set-Cookie", "c=1")),
        cors=page("CORS", *cors),
        hop=Answer(302, (("Location", "/api"),), b""),
        odd=Answer(520, (), b""),
        json=page('{"x": 7}', ("Content-Type", "application/json")),
        away=Answer(302, (("Location", "/caf\udce9"),), b""),
    )


@pytest.mark.parametrize(("code", "text", "paths"), SCRIPTS + ODD_SCRIPTS)
async def test_scripts_run_and_are_answered(browser: Browser, code: str, text: str, paths: list[str]) -> None:
    site = api()
    done = await rendered(browser, script(LATER + code), site)
    assert text_of(done.html).removeprefix("t").strip() == text
    assert site.paths == paths
    assert (done.cut, done.requests) == (None, len(paths))
    assert all((request.kind is Kind.PREFLIGHT) == (request.method == "OPTIONS") for request in site.asked)


async def test_lightpanda_shows_what_others_show_and_survives_hostile_pages(tmp_path: Path) -> None:
    frame = Site(frame="<title>n</title><a href=/far>far</a>")
    async with browser_of(of_engine("lightpanda"), tmp_path) as opened:
        for code, text, paths in SCRIPTS:
            site = api()
            done = await rendered(opened, script(LATER + code), site)
            assert text_of(done.html).removeprefix("t").strip() == text
            assert site.paths == paths or (site.paths, paths) == (["cors"], ["cors", "cors"])  # without a preflight
        for html, there, *_, seen in DOCUMENTS:
            done = await rendered(opened, html, frame)
            assert [each for each in there if each not in done.html.decode()] == [] or "<frameset>" in html
            assert seen is None or text_of(done.html).replace("\ufffd", "?") == seen or "<frameset>" in html
        for code, url, moved in MOVES[:7]:
            done = await rendered(opened, script(code))
            assert (done.url, bool(done.moved)) == (f"http://127.0.0.1:1/{url}", bool(moved))
        for code in ("while(true);", HOSTILE[2], HOSTILE[5]):
            await within(opened, script(code), Site().ask, seconds=0.5)
            await rendered(opened, "next")


async def test_a_request_has_the_cookies_of_its_page_if_it_goes_to_the_same_origin(browser: Browser) -> None:
    site, other = (
        Site(a=page("", ("Set-Cookie", "d=3")), b="", x=page("", ("Access-Control-Allow-Origin", "*"))),
        "http://127.0.0.5:1/x",
    )
    code = f"document.cookie='c=2;path=/';fetch('/a').then(()=>fetch('{other}')).then(()=>fetch('/b'))"
    raw = page(script(code), ("Content-Type", "text/html"), ("Set-Cookie", "raw=1"))
    assert isinstance(await browser.render(HREF, raw, site.ask), Rendered)
    sent = {request.url.rpartition("/")[2]: set(request.cookies.split("; ")) for request in site.asked}
    assert sent == {"a": {"c=2", "raw=1"}, "x": {""}, "b": {"c=2", "raw=1", "d=3"}}


MOVES = [  # what a page does, where it is then, where it would have gone
    ("location='/there'", "page", "there"),
    ("location.replace('http://127.0.0.5:1/other#x')", "page", "http://127.0.0.5:1/other"),
    ("setTimeout(()=>location.reload(),1)", "page", None),
    ("history.pushState(0,'','/pushed?q#f')", "pushed?q", None),
    ("const a=document.createElement('a');a.href='/file';a.download='d';root.append(a);a.click()", "page", None),
    ("history.replaceState(0,'','/replaced');location.hash='x'", "replaced", None),
    ("document.body.innerHTML='<form method=post action=/posted></form>';document.forms[0].submit()", "page", None),
    ("document.head.append(Object.assign(document.createElement('meta'),{httpEquiv:'refresh',content:'1;url=/r'}))",
     "page", "r"),
    ("document.body.innerHTML='<iframe srcdoc=\"<script>top.location=`/top`<\\/script>\">'", "page", "top"),
]  # fmt: skip


async def test_all_routes_are_known(browser: Browser) -> None:
    code = "for(const to of ['/a','/b#x','/b','/c'])history.pushState(0,'',to);history.back();location.hash='y'"
    assert {url.rpartition("/")[2] for url in (await rendered(browser, script(code))).routes} >= {"a", "b", "c"}


@pytest.mark.parametrize(("code", "url", "moved"), MOVES)
async def test_pages_do_not_move(browser: Browser, code: str, url: str, moved: str | None) -> None:
    site = Site(there="there", r="r", posted="posted")
    done = await rendered(browser, script(code), site)
    assert (done.url, site.paths, done.cut) == (f"http://127.0.0.1:1/{url}", [], None)
    assert done.moved == (moved and (moved if ":" in moved else f"http://127.0.0.1:1/{moved}"))


@pytest.mark.parametrize("code", ["location='about:blank'", "location=URL.createObjectURL(new Blob(['x']))"])
async def test_pages_that_leave_their_document_are_not_rendered(browser: Browser, code: str) -> None:
    assert isinstance(await browser.render(HREF, page(script(code)), Site().ask), NotRendered)


async def test_waiting_for_answers_takes_no_time_of_the_page(browser: Browser) -> None:
    site = Site(api="API")
    site.wait = 1.0
    code = LATER + "setTimeout(()=>say('early'),2000);fetch('/api').then(r=>r.text()).then(say)"
    done = await rendered(browser, script(code), site, seconds=0.9)
    assert (text_of(done.html), done.cut) == ("tAPIearly", None)  # its clock stands still meanwhile


LACKS = [  # what a page does, what its requests come to, its budget, whether something that it needs is missing
    ("fetch('/api')", Refusal.HELD, {}, True),
    ("fetch('/api')", Refusal.THIRD_PARTY, {}, False),
    ("fetch('/api')", None, {}, True),
    ("fetch('/api')", Answer(503, (), b""), {}, True),
    ("fetch('/api')", Answer(404, (), b""), {}, False),
    ("fetch('/api')", Answer(200, (), b""), {"requests": 0}, True),
    ("new Image().src='/api'", None, {}, False),
    ("", None, {"seconds": 0.001}, True),
]


@pytest.mark.parametrize(("code", "answer", "budget", "lacks"), LACKS)
async def test_pages_say_what_they_lack(
    browser: Browser, code: str, answer: Asked, budget: dict[str, float], lacks: bool
) -> None:
    async def ask(request: SubRequest) -> Asked:
        return answer

    done = await within(browser, script(code), ask, **budget)
    assert isinstance(done, Rendered), done
    assert done.partly is lacks


@pytest.mark.parametrize(("budget", "asked"), [({"requests": 3}, 3), ({"bytes": 5}, 2)])
async def test_requests_beyond_the_budget_are_refused(browser: Browser, budget: dict[str, int], asked: int) -> None:
    site = Site(api="API")
    asks = script("(async()=>{for(let i=0;i<9;i++)await fetch('/api').catch(e=>0)})()")
    done = await rendered(browser, asks, site, **budget)
    assert len(site.asked) == asked == done.requests
    assert [why for why, _ in done.refused] == [Refusal.BUDGET] * (9 - asked)


async def test_a_fault_of_ask_is_raised(browser: Browser) -> None:
    async def ask(request: SubRequest) -> Answer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await browser.render(HREF, page(script("fetch('/api')")), ask)


HOSTILE = [
    "setInterval(()=>location.reload(),1)",
    "setInterval(()=>open('/popup'),1)",
    "const a=[];for(let i=0;i<100;i++)a.push(new Uint8Array(1e8).fill(i))",
    "while(true)alert(1)",
    "for(let i=0;i<100000;i++)fetch('/f'+i).catch(()=>0)",
    "for(let i=0;i<50;i++){const c=document.createElement('canvas');c.width=c.height=16000;const x=c.getContext('2d');"
    "x.fillRect(0,0,9,9);x.getImageData(0,0,16000,16000)}",
    "for(;;)document.body.append('x',document.createElement('p'))",
    "let e=root;for(let i=0;i<200000;i++){const d=document.createElement('div');e.append(d);e=d}",
    "const m=[];for(let i=0;;i++){m[i]=new WebAssembly.Memory({initial:16000});new Uint8Array(m[i].buffer).fill(1)}",
    "for(let i=0;i<10000;i++)root.append(document.createElement('iframe'))",
    "(function f(){document.open();document.write('<p>');document.close();setTimeout(f,0)})()",
    "for(let i=0;;i++)history.pushState(i,'','/'+i)",
    "(function f(){Promise.resolve().then(f)})()",
]


@pytest.mark.parametrize("code", HOSTILE)
async def test_hostile_pages_end(browser: Browser, code: str) -> None:
    site = Site(api="API")
    async with asyncio.timeout(20):  # a second of its own, two for its document; the machine may be busy
        await within(browser, script(code), site.ask, seconds=1.0)
        done = await rendered(browser, script(LATER + "fetch('/api').then(r=>r.text()).then(say)"), site)
    assert text_of(done.html) == "tAPI"
    assert len(site.asked) <= Budget().requests + 1
    assert data_limit(pid_of(browser)) == MEMORY_MOST, "a page may take more than that before anything looks at it"


def pid_of(browser: Browser) -> int:
    """The leader of the group of the browser's processes."""
    assert browser.process is not None
    return browser.process.pid


def processes_of(group: int) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == group and fields[0] != "Z":
                found.append(int(pid))
    return found


def words_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def data_limit(process: int) -> int:
    return int(re.findall(r"^Max data size +(\d+)", Path(f"/proc/{process}/limits").read_text(), re.MULTILINE)[0])


async def until_gone(group: int) -> None:
    async with asyncio.timeout(10):
        while processes_of(group):  # noqa: ASYNC110 -- they are not ours to wait for
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("word", [b"--user-data-dir", b"--type=renderer"])
async def test_a_page_whose_browser_loses_a_process_is_tried_again_in_another(browser: Browser, word: bytes) -> None:
    asked, killed = asyncio.Event(), asyncio.Event()

    async def ask(request: SubRequest) -> Answer:
        asked.set()
        await killed.wait()
        return Answer(200, (), b"")

    page_of_it = asyncio.create_task(browser.render(HREF, page(script("fetch('/x').then(say)")), ask))
    await asked.wait()
    before = pid_of(browser)
    os.kill(next(pid for pid in sorted(processes_of(before)) if word in words_of(pid)), 9)
    if word != b"--user-data-dir":
        killed.set()
    done = await page_of_it
    assert isinstance(done, NotRendered)
    assert done.died
    await rendered(browser, "next")
    await until_gone(before)
    assert pid_of(browser) != before


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.web.browser.test_browser import AGENT, HREF, Browser, of_engine, page, pid_of, script
async def ask(request):
    print(pid_of(browser), flush=True)
    await asyncio.Future()
browser = Browser(of_engine(sys.argv[2]), AGENT, Path(sys.argv[1]))
asyncio.run(browser.render(HREF, page(script("fetch('/x')")), ask))
"""


@pytest.mark.parametrize(("engine", "processes"), [("auto", 3), ("lightpanda", 1)])
async def test_nothing_is_left_of_a_killed_crawler(engine: str, processes: int, tmp_path: Path) -> None:
    of_engine(engine)
    profiles = tmp_path / "browser"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(profiles), engine, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    group = int(await child.stdout.readline())
    assert len(processes_of(group)) >= processes
    remove_leftovers(profiles)
    assert len(os.listdir(profiles)) == 1  # of a crawler that lives
    child.kill()
    await child.wait()
    await until_gone(group)
    remove_leftovers(profiles)
    assert not profiles.exists()


@pytest.mark.parametrize(
    ("on_path", "settings", "fault"),
    [
        ([], {}, "install"),
        (["chromium"], {"engine": "headless-shell"}, "chromium-headless-shell"),
        (["chromium"], {"no_sandbox": False}, "no_sandbox"),
        (["chromium"], {"engine": "lightpanda"}, "pip install lightpanda"),
        (["lightpanda"], {}, "install"),
        (["chromium", "chromium-headless-shell"], {}, None),
    ],
)
async def test_engines(
    on_path: list[str], settings: dict[str, Any], fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in on_path:
        (tmp_path / name).write_text("#!/bin/sh\necho Chromium 156.0.1 built on Debian")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engines, "BEHIND", ())
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    chosen = BrowserSettings(**{"no_sandbox": True, **settings})
    if fault is None:
        assert find_engine(chosen).label == "headless-shell 156.0.1"
    else:
        with pytest.raises(SettingsError, match=rf"^.*{fault}.*$"):
            find_engine(chosen)

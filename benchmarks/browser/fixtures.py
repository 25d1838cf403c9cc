"""Small pages whose links only scripts make: how many of them one crawl finds, and what it asks for that it may not.

    python benchmarks/browser/fixtures.py [--raw] [--delay 0.05] [--only NAME ...] [--settings TOML] [--keep DIR]

Each fixture is a page with ten links that its HTML does not have. Around them are traps: what robots.txt disallows,
other hosts, ports and names that nobody may ask. Ends with 1 if less than 0.97 of the links are found or a trap was
asked. With --raw no browser is used.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ground import (
    PORT,
    RESOLUTION,
    WHEN,
    Asked,
    Canaries,
    Reply,
    Servers,
    command,
    header,
    isolate,
    measured,
    npm_file,
    page,
    path_of,
    records,
)

LINKS = 10
ENOUGH = 0.97
SITE, DATA, FRAMES, CDN, ADS = "site.test", "data.site.test", "frames.site.test", "cdn.test", "ads.test"
NAMES = {SITE: "127.0.0.2", DATA: "127.0.0.3", FRAMES: "127.0.0.4", CDN: "127.0.0.5", ADS: "127.0.0.9"}
LIBRARIES = {
    "preact.js": ("preact@10", "package/dist/preact.umd.js"),
    "hooks.js": ("preact@10", "package/hooks/dist/hooks.umd.js"),
    "alpine.js": ("alpinejs@3", "package/dist/cdn.js"),
    "jquery.js": ("jquery@3", "package/dist/jquery.js"),
}
CANARY_TCP = [("127.0.0.2", PORT + number) for number in range(1, 9)]
CANARY_UDP = [("127.0.0.2", PORT + 9)]
ROBOTS = "User-agent: *\nDisallow: /private/\n"
_SITE, _DATA, _FRAMES, _CDN, _ADS = (f"http://{name}:{PORT}" for name in (SITE, DATA, FRAMES, CDN, ADS))
_ADD = (
    "const root=document.querySelector('#root');function add(u){const a=document.createElement('a');a.href=u;"
    "a.textContent='link '+u;root.append(a,' ')}"
)


def _scripted(text: str, body: str = "<div id=root></div>", head: str = "") -> str:
    return f"<!doctype html><title>fixture</title>{head}<body>{body}<script>{_ADD}{text}</script>"


def _each(name: str, how: str, begin: int = 0, end: int = LINKS) -> str:
    return f"for(let i={begin};i<{end};i++){{const u='/{name}/'+i;{how}}}"


FIXTURES = {
    "preact": "<div id=root></div><script src=/lib/preact.js></script><script src=/lib/hooks.js></script><script>"
    "const h=preact.h;function List(){const[s,set]=preactHooks.useState(null);preactHooks.useEffect(()=>{"
    "fetch('/api/preact').then(r=>r.json()).then(set)},[]);return s?h('ul',null,s.map(u=>h('li',{key:u},"
    "h('a',{href:u},u)))):h('p',null,'loading')}preact.render(h(List),document.querySelector('#root'))</script>",
    "alpine": "<script defer src=/lib/alpine.js></script><div x-data='{items:[]}' x-init=\"items=await (await "
    "fetch('/api/alpine')).json()\"><template x-for='u in items'><a :href=u x-text=u></a></template></div>",
    "jquery": f"<div id=root></div><script src={_CDN}/lib/jquery.js></script><script>$(function(){{$.getJSON("
    "'/api/jquery',function(l){$.each(l,function(i,u){$('<a>').attr('href',u).text(u).appendTo('#root')})})})</script>",
    "xhr": _scripted(
        "const x=new XMLHttpRequest();x.open('GET','/api/xhr');x.responseType='json';"
        "x.onload=()=>x.response.forEach(add);x.send()"
    ),
    "mutation": _scripted(
        "new MutationObserver(l=>l.forEach(m=>m.addedNodes.forEach(n=>{if(n.dataset&&n.dataset.to)add(n.dataset.to)})))"
        ".observe(document.body,{childList:true,subtree:true});setTimeout(()=>{"
        + _each("mutation", "const s=document.createElement('i');s.dataset.to=u;document.body.append(s)")
        + "},50)"
    ),
    "visible": _scripted(
        "const o=new IntersectionObserver(l=>l.forEach(e=>{if(e.isIntersecting){o.unobserve(e.target);"
        "const a=document.createElement('a');a.href=e.target.dataset.to;a.textContent='x';e.target.append(a)}}));"
        + _each(
            "visible",
            "const d=document.createElement('div');d.style.height='280px';d.dataset.to=u;root.append(d);o.observe(d)",
        )
    ),
    "builtin": _scripted(
        "customElements.define('link-list',class extends HTMLUListElement{connectedCallback(){"
        + _each("builtin", "this.insertAdjacentHTML('beforeend',`<li><a href=${u}>x</a>`)")
        + "}},{extends:'ul'})",
        "<div id=root></div><ul is=link-list></ul>",
    ),
    "closed": _scripted(
        "const host=document.querySelector('#host'),s=host.attachShadow({mode:'closed'});"
        "s.innerHTML='<nav></nav><slot name=more></slot><div id=inner></div>';"
        + _each("closed", "s.querySelector('nav').insertAdjacentHTML('beforeend',`<a href=${u}>x</a>`)", 0, 4)
        + "const t=s.querySelector('#inner').attachShadow({mode:'open'});"
        + _each("closed", "t.innerHTML+=`<a href=${u}>x</a>`", 4, 8)
        + _each("closed", "host.insertAdjacentHTML('beforeend',`<a slot=more href=${u}>x</a>`)", 8, 10),
        "<div id=root></div><div id=host></div>",
    ),
    "write": _scripted(_each("write", "document.write('<a href='+u+'>written</a> ')")),
    "import": "<div id=root></div><script type=module>const m=await import('/lib/import.js');m.fill()</script>",
    "router": _scripted(
        "const b=document.createElement('base');b.href='/router/';document.head.append(b);"
        "history.pushState({},'','/router/deep/start');history.replaceState({},'','/router/deep/er/start');"
        + _each("router", "i%2?(add('./'+i)):add('deep/../'+i)")
    ),
    "path": _scripted("history.pushState({},'','/path/of/start');" + _each("path", "add('../'+i)")),
    "frames": _scripted(
        "const f=document.createElement('iframe');f.srcdoc='"
        + "".join(f"<a href=/frames/{number}>x</a>" for number in range(3))
        + "';root.append(f);for(const u of ['/part/frames',"
        + f"'{_FRAMES}/part/frames']){{const g=document.createElement('iframe');g.src=u;root.append(g)}}"
    ),
    "worker": _scripted(
        "const w=new Worker('/lib/worker.js');w.onmessage=e=>e.data.forEach(add);w.postMessage('worker')"
    ),
    "module-worker": _scripted(
        "const w=new Worker('/lib/module-worker.js',{type:'module'});w.onmessage=e=>e.data.forEach(add)"
    ),
    "blob-worker": _scripted(
        "const w=new Worker(URL.createObjectURL(new Blob([`fetch('"
        + f"{_SITE}/api/blob-worker').then(r=>r.json()).then(l=>postMessage(l))`])));w.onmessage=e=>e.data.forEach(add)"
    ),
    "timers": _scripted("let n=0;(function next(){add('/timers/'+n++);if(n<10)setTimeout(next,110)})()"),
    "animation": _scripted("let n=0;(function next(){add('/animation/'+n++);if(n<10)requestAnimationFrame(next)})()"),
    "template": _scripted(
        "const t=document.querySelector('template').content;fetch('/api/template').then(r=>r.json()).then(l=>"
        "l.forEach(u=>{const c=t.cloneNode(true);c.querySelector('a').href=u;root.append(c)}))",
        "<div id=root></div><template><p><a>cloned</a></p></template>",
    ),
    "post": _scripted(
        "fetch('/post/take',{method:'POST',body:'x'}).catch(()=>0).then(()=>{" + _each("post", "add(u)") + "})"
    ),
    "cors": _scripted(
        f"fetch('{_DATA}/api/cors',{{headers:{{'X-Asked-By':'page'}}}}).then(r=>r.json()).then(l=>l.forEach(add))"
    ),
    "stream": _scripted(
        "fetch('/api/stream').then(async r=>{const d=r.body.pipeThrough(new TextDecoderStream()).getReader();let t='';"
        "for(;;){const{done,value}=await d.read();if(done)break;t+=value;let i;while((i=t.indexOf('\\n'))>=0){"
        "add(t.slice(0,i));t=t.slice(i+1)}}})"
    ),
    "storage": _scripted(
        "document.cookie='mine=storage';localStorage.setItem('name','storage');sessionStorage.setItem('n',5);"
        "const c=Object.fromEntries(document.cookie.split('; ').map(p=>p.split('=')));"
        "for(let i=0;i<+sessionStorage.getItem('n');i++)add('/'+c.mine+'/'+i);"
        "fetch('/api/cookie').then(r=>r.json()).then(l=>l.slice(5).forEach(add))"
    ),
    "redirected": _scripted(
        "fetch('/moved/redirected').then(r=>r.json()).then(l=>l.slice(0,5).forEach(add));"
        "fetch('/zipped/redirected').then(r=>r.json()).then(l=>l.slice(5).forEach(add))"
    ),
    "svg": _scripted(
        "const N='http://www.w3.org/2000/svg',s=document.createElementNS(N,'svg');root.append(s);"
        + _each(
            "svg",
            "const a=document.createElementNS(N,'a');i%2?a.setAttribute('href',u):a.setAttributeNS("
            "'http://www.w3.org/1999/xlink','xlink:href',u);a.append(document.createElementNS(N,'rect'));s.append(a)",
        )
    ),
    "scroll": _scripted(
        "let n=0;function more(){"
        + _each("scroll", "add('/scroll/'+n++)", 0, 5)
        + "}root.style.height='5000px';more();"
        "addEventListener('scroll',()=>{if(n<10&&scrollY+innerHeight>document.body.scrollHeight-2000)more()})"
    ),
    "refresh": _scripted(
        "const m=document.createElement('meta');m.httpEquiv='refresh';m.content='0;url=/part/refresh';"
        "document.head.append(m)"
    ),
    "rules": _scripted(
        _each("rules", "add(u)")
        + "add('/private/page');fetch('/private/data').catch(()=>0);"
        + f"fetch('{_DATA}/private/data').catch(()=>0);fetch('/moved/private').catch(()=>0);"
        + f"fetch('{_CDN}/private/data').catch(()=>0);new Image().src='{_ADS}/pixel.png';"
        + f"navigator.sendBeacon('{_ADS}/beacon','x');navigator.sendBeacon('/beacon','x');"
        + "for(const k of ['iframe','embed','img','video'])"
        + f"{{const e=document.createElement(k);e.src='{_ADS}/'+k;root.append(e)}}"
        + "for(const k of ['prefetch','preload','preconnect','dns-prefetch','icon','manifest','prerender'])"
        + "{const l=document.createElement('link');l.rel=k;l.as='image';"
        + f"l.href=k=='dns-prefetch'?'http://canary-of-names.test/':k=='preconnect'?'http://{SITE}:{PORT + 2}/':"
        + f"'{_ADS}/'+k;document.head.append(l)}}"
        + "const s=document.createElement('style');s.textContent="
        + f"`@import url({_CDN}/private/style.css);@font-face{{font-family:f;src:url({_ADS}/font)}}"
        + f"body{{font-family:f;background:url({_ADS}/back.png)}}`;document.head.append(s);"
    ),
    "canaries": _scripted(
        "function attempt(f){try{const p=f();if(p&&p.catch)p.catch(()=>0)}catch(e){}}"
        + f"const at=n=>'{SITE}:'+({PORT}+n);attempt(()=>new WebSocket('ws://'+at(1)+'/'));"
        + "attempt(()=>new EventSource('http://'+at(3)+'/'));attempt(()=>navigator.sendBeacon('http://'+at(4)+'/','x'));"
        + "attempt(()=>{const p=new RTCPeerConnection({iceServers:[{urls:'stun:'+at(9)},{urls:'turn:'+at(5)+"
        + "'?transport=tcp',username:'u',credential:'p'}]});p.createDataChannel('x');"
        + "return p.createOffer().then(o=>p.setLocalDescription(o))});"
        + "attempt(()=>new WebTransport('https://'+at(9)+'/'));"
        + "attempt(()=>navigator.serviceWorker.register('/lib/service.js'));"
        + "attempt(()=>open('http://'+at(6)+'/popup'));attempt(()=>{const a=document.createElement('a');"
        + "a.href='#here';a.ping='http://'+at(8)+'/ping';a.click();a.href='/download';a.download='file';a.click()});"
        + "attempt(()=>fetch('http://another-canary-of-names.test/',{mode:'no-cors'}));"
        + "attempt(()=>fetch('/beacon',{method:'POST',keepalive:true}));"
        + "attempt(()=>{const f=document.createElement('form');f.method='post';f.action='/beacon';f.target='_blank';"
        + "root.append(f);f.submit()});"
        + _each("canaries", "add(u)")
    ),
}
_TRAPS = ("/beacon", "/download", "/post/take", "/lib/service.js")


def truth() -> set[str]:
    """The links of all fixtures."""
    return {f"/{name}/{number}" for name in FIXTURES for number in range(LINKS)}


def _links(name: str) -> list[str]:
    return [f"/{name}/{number}" for number in range(LINKS)]


def _streamed() -> Iterator[bytes]:
    for link in _links("stream"):
        yield link.encode()
        time.sleep(0.02)
        yield b"\n"


def _part(asked: Asked, name: str) -> Reply:
    begin, end = (0, LINKS) if name == "refresh" else (6, 10) if asked.host.startswith(FRAMES) else (3, 6)
    links = "".join(f"<a href={_SITE}{link}>x</a>" for link in _links(name)[begin:end])
    # A page alone has none of the links of a frame: they are made in it.
    return page(f"<div id=root></div><script>document.querySelector('#root').innerHTML=`{links}`</script>")


def _script(name: str, libraries: dict[str, bytes]) -> bytes:
    return {
        **libraries,
        "import.js": b"import {list} from '/lib/imported.js';export function fill(){for(const u of list)"
        b"document.querySelector('#root').insertAdjacentHTML('beforeend',`<a href=${u}>x</a>`)}",
        "imported.js": b"export const list=await (await fetch('/api/import')).json()",
        "worker.js": b"onmessage=e=>fetch('/api/'+e.data).then(r=>r.json()).then(l=>postMessage(l))",
        "module-worker.js": b"import {list} from '/lib/of-worker.js';postMessage(list)",
        "of-worker.js": b"export const list=await (await fetch('/api/module-worker')).json()",
        "service.js": b"onfetch=e=>0",
    }[name]


def answer_of(libraries: dict[str, bytes]):
    def answer(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        _, first, *rest = path.split("/")
        name = rest[0] if rest else ""
        cors = {"Access-Control-Allow-Origin": _SITE, "Access-Control-Allow-Headers": "X-Asked-By"}
        if path == "/robots.txt":
            return Reply(ROBOTS, "text/plain")
        if path == "/":
            return page("".join(f"<a href=/{each}>{each}</a> " for each in FIXTURES))
        if first in FIXTURES and not name:
            return Reply(FIXTURES[first], headers={"Set-Cookie": "given=yes; Path=/"})
        if first == "part":
            return _part(asked, name)
        if first == "lib":
            return Reply(_script(name, libraries), "text/javascript", headers={"Access-Control-Allow-Origin": "*"})
        if first == "moved" and name == "private":
            return Reply(status=302, headers={"Location": "/private/moved"})
        if first == "moved":
            return Reply(status=308, headers={"Location": f"/moved-again/{name}"})
        if first == "moved-again":
            return Reply(status=302, headers={"Location": f"/api/{name}"})
        if first == "zipped":
            body = gzip.compress(json.dumps(_links(name)).encode())
            return Reply(body, "application/json", headers={"Content-Encoding": "gzip"})
        if path == "/api/stream":
            return Reply(_streamed(), "text/plain")
        if path == "/api/cookie":
            mine = "mine=storage" in asked.headers.get("Cookie", "")
            return Reply(json.dumps(_links("storage") if mine else []), "application/json")
        if first == "api":
            return Reply(json.dumps(_links(name)), "application/json", headers=cors)
        return page(f"<p>The end of {path}, where a person finds some words and no link at all to go on with.</p>" * 5)

    return answer


def judge(job: Path, servers: Servers, canaries: Canaries, delay: float) -> bool:
    """Print what was found and what was asked; return whether all is well."""
    rows = records(job)
    fetched = {path_of(str(row["url"])) for row in rows if row["outcome"] == "fetched"}
    of_page = {path_of(str(row["url"])): row for row in rows}
    print(f"{'fixture':<16}{'links':>8}  rendered, error")
    for name in FIXTURES:
        row = of_page.get(f"/{name}", {})
        found = len(fetched & set(_links(name)))
        print(f"{name:<16}{found:>5}/{LINKS}  {row.get('rendered', '-')} {row.get('error') or ''}")
    found = len(fetched & truth())
    past = [asked.url for asked in servers.log if asked.path.startswith("/private/")]
    early = [asked.url for asked in servers.log if _before_robots(asked, servers)]
    gaps = list(itertools.chain.from_iterable(servers.gaps().values()))
    short = sum(gap < delay - RESOLUTION for gap in gaps)
    trapped = [f"{asked.method} {asked.url}" for asked in servers.log if asked.path in _TRAPS]
    trapped += [asked.url for asked in servers.log if asked.host.startswith(ADS)] + canaries.sung
    methods = [f"{asked.method} {asked.url}" for asked in servers.log if asked.method != "GET"]
    print(f"\nlinks found              {found} of {len(truth())} ({found / len(truth()):.3f})")
    print(f"pages that rendered      {sum(bool(row.get('rendered')) for row in rows)} of {len(rows)} records")
    print(f"requests                 {len(servers.log)}, methods but GET: {methods or 0}")
    print(f"past robots.txt          {past or 0}")
    print(f"before robots.txt        {early or 0}")
    print(f"gaps below {delay} s       {short} of {len(gaps)}, the shortest {min(gaps, default=0):.3f} s")
    print(f"asked of traps           {trapped or 0}")
    return found >= ENOUGH * len(truth()) and not past and not early and not short and not trapped and not methods


def _before_robots(asked: Asked, servers: Servers) -> bool:
    """Whether its host had not been asked for robots.txt."""
    rows = servers.by_host()[asked.host]
    return rows[0].path != "/robots.txt" and rows[0] is asked


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--raw", action="store_true", help="without a browser")
    parser.add_argument("--delay", type=float, default=0.05, help="seconds between two requests to a host (0.05)")
    parser.add_argument("--only", nargs="+", choices=list(FIXTURES), default=list(FIXTURES), metavar="NAME")
    parser.add_argument("--settings", default="", metavar="TOML", help="more settings of [browser]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the job is kept")
    chosen = parser.parse_args()
    libraries = {name: npm_file(*where) for name, where in LIBRARIES.items()}
    isolate(NAMES)
    for name in FIXTURES.keys() - set(chosen.only):
        del FIXTURES[name]
    header()
    when = "never" if chosen.raw else WHEN
    settings = f'[browser]\nwhen = "{when}"\nno_sandbox = true\n{chosen.settings}\n'
    canaries = Canaries(CANARY_TCP, CANARY_UDP)
    with tempfile.TemporaryDirectory() as name, Servers(NAMES.values(), answer_of(libraries)) as servers:
        job = Path(name) / "job"
        flags = ["--scope", "domain", "--delay", str(chosen.delay)]
        ran = measured(command(job, [_SITE + "/"], settings, flags), limit=600)
        well = judge(job, servers, canaries, chosen.delay)
        print(f"\nexit {ran.code}, {ran.seconds:.1f} s, {ran.cpu:.1f} s of CPU, processes left: {list(ran.left) or 0}")
        print(ran.output[-2_000:])
        if chosen.keep:
            shutil.copytree(name, chosen.keep, dirs_exist_ok=True)
    return int(not well or ran.code != 0 or bool(ran.left))


if __name__ == "__main__":
    sys.exit(main())

"""Pages that would take all that a browser has, each on a host of its own, beside a host that means well.

    python benchmarks/browser/hostile.py [--only NAME ...] [--settings TOML]

Crawls the good host alone, then with the hostile ones. Prints what came of each hostile page, how long it was in the
crawl, the peak memory of all processes and the pace of the good host. Ends with 1 if a page has no outcome, a hostile
page was asked for more than its budget, memory was not bounded, or the good host lost its pace.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ground import PORT, WHEN, Asked, Crawled, Reply, Servers, command, header, isolate, measured, page, records

GOOD = "127.0.16.1"
GOOD_PAGES, DELAY, REQUESTS, SECONDS = 150, 0.2, 50, 20.0
MEMORY = 2048  # MB that the browser may have
_MORE = MEMORY + 500  # MB more: the crawler, its parsers, and what pages take until they are looked at again
_SLOWER = 1.25  # times the pace alone, from which on the good host has lost it
_MADE = "for(let i=0;i<3;i++)document.body.insertAdjacentHTML('beforeend',`<a href=/made${i}>made</a>`);"
HOSTILE = {
    "endless reload": "location.reload()",
    "reload by a timer": "setInterval(()=>location.reload(),5)",
    "navigation storm": "setInterval(()=>{location.href='/storm?'+Math.random()},1)",
    "pushState storm": "for(let i=0;;i++)history.pushState({},'','/state'+i)",
    "pop-up storm": "for(let i=0;i<10000;i++)window.open('/popup'+i)",
    "10 GB of arrays": "const kept=[];for(let i=0;i<1300;i++)kept.push(new Float64Array(1048576).fill(i))",
    "10 GB in a worker": "new Worker(URL.createObjectURL(new Blob([`const k=[];for(;;)"
    "k.push(new Array(1e6).fill({}))`])))",
    "objects without end": "const kept=[];for(;;)kept.push({a:new Array(1000).fill('x'+kept.length)})",
    "a string without end": "let s='x'.repeat(1000);const k=[];for(;;){k.push(s+k.length);s=s.length<1e8?s+s:s}",
    "blobs of 10 GB": "const k=[];for(let i=0;i<100;i++)k.push(new Blob([new Uint8Array(1e8).fill(i)]))",
    "alerts": "for(;;){alert(1);confirm(2);prompt(3)}",
    "print and unload": "onbeforeunload=()=>'stay';for(let i=0;i<100;i++)print();location.href='/elsewhere'",
    "100,000 requests": "for(let i=0;i<100000;i++)fetch('/request/'+i).catch(()=>0)",
    "requests one by one": "(async()=>{for(let i=0;;i++)await fetch('/request/'+i).catch(()=>0)})()",
    "giant canvas": "for(let i=0;i<50;i++){const c=document.createElement('canvas');c.width=c.height=16000;"
    "document.body.append(c);const g=c.getContext('2d');g.fillRect(0,0,16000,16000);g.getImageData(0,0,16000,16000)}",
    "infinite DOM": "for(;;)document.body.append(document.createElement('p'))",
    "infinite DOM by timers": "setInterval(()=>{for(let i=0;i<5000;i++)document.body.insertAdjacentHTML('beforeend',"
    "'<p>'+'x'.repeat(500)+'<a href=/n'+Math.random()+'>x</a>')},1)",
    "infinite depth": "let e=document.body;for(;;){const d=document.createElement('div');e.append(d);e=d}",
    "while(true)": "while(true);",
    "promises without end": "(function next(){Promise.resolve().then(next)})()",
    "wasm memory": "const k=[];for(;;){const m=new WebAssembly.Memory({initial:16384,maximum:65536});"
    "new Uint8Array(m.buffer).fill(1);k.push(m)}",
    "10,000 iframes": "for(let i=0;i<10000;i++){const f=document.createElement('iframe');"
    "f.srcdoc='<a href=/f'+i+'>x</a>';document.body.append(f)}",
    "iframes in iframes": "const own='<body>'+document.currentScript.outerHTML;for(let i=0;i<2;i++){"
    "const f=document.createElement('iframe');f.srcdoc=own;document.body.append(f)}",
    "1,000 workers": "for(let i=0;i<1000;i++)new Worker(URL.createObjectURL(new Blob(['for(;;);'])))",
    "downloads": "for(let i=0;i<1000;i++){const a=document.createElement('a');a.download='x';"
    "a.href=URL.createObjectURL(new Blob(['x'.repeat(1e6)]));a.click()}",
    "forms": "for(let i=0;i<1000;i++){const f=document.createElement('form');f.method='post';f.action='/form'+i;"
    "document.body.append(f);f.submit()}",
    "a slow pattern": "/^(a+)+$/.test('a'.repeat(64)+'!')",
    "debugger": "for(;;){debugger}",
    "document.write without end": "for(;;)document.write('<p>x</p>')",
    "a title of 300 MB": "document.title='x'.repeat(3e8);document.body.dataset.x='y'.repeat(3e8)",
    "storage": "for(let i=0;;i++){try{localStorage.setItem(i,'x'.repeat(1e5))}catch(e){break}}"
    "const o=indexedDB.open('x');o.onupgradeneeded=()=>o.result.createObjectStore('s');o.onsuccess=()=>{"
    "for(let i=0;i<500;i++)o.result.transaction('s','readwrite').objectStore('s').put('x'.repeat(1e7),i)}",
    "native functions replaced": "Object.defineProperty=()=>{throw 1};JSON.stringify=()=>{for(;;);};"
    "Array.prototype.push=Array.from=()=>{for(;;);};document.querySelectorAll=Element.prototype.getAttribute=()=>{for(;;);};"
    "XMLSerializer.prototype.serializeToString=()=>'';",
}


def host(number: int) -> str:
    return f"127.0.15.{number + 1}"


def answer(asked: Asked) -> Reply:
    path, address = asked.path.partition("?")[0], asked.host.split(":")[0]
    if path == "/robots.txt":
        return Reply("User-agent: *\nDisallow:\n", "text/plain")
    if address == GOOD:
        links = "".join(f"<a href=/{number}>{number}</a> " for number in range(1, GOOD_PAGES)) if path == "/" else ""
        return page(f"<p>{'Words of the good host. ' * 20}</p>{links}")
    number = int(address.rpartition(".")[2]) - 1
    if path != "/":
        return page("<p>" + "Another page of a hostile host, with words and without links. " * 10)
    return page(f"<div id=root></div><a href=/raw>raw</a><script>{_MADE}{list(HOSTILE.values())[number]}</script>")


def crawl(hosts: list[str], settings: str) -> tuple[Crawled, Servers, list[dict[str, object]]]:
    """Crawl these hosts; how it ran, what the servers saw, and the records."""
    text = f'[browser]\nwhen = "{WHEN}"\nno_sandbox = true\n{settings}\n[budget]\nhost_pages = {2 * GOOD_PAGES}\n'
    with tempfile.TemporaryDirectory() as name, Servers(hosts, answer) as servers:
        job = Path(name) / "job"
        flags = ["--delay", str(DELAY), "--max-depth", "1"]
        words = command(job, [f"http://{each}:{PORT}/" for each in hosts], text, flags)
        return measured(words, limit=1_800, memory=True), servers, records(job)


def pace(servers: Servers) -> float:
    """Seconds from one request of the good host to the next: the mean."""
    log = servers.by_host()[f"{GOOD}:{PORT}"]
    return (log[-1].began - log[0].began) / (len(log) - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(HOSTILE), default=list(HOSTILE), metavar="NAME")
    parser.add_argument("--settings", default="", metavar="TOML", help="more settings of [browser]")
    chosen = parser.parse_args()
    isolate({})
    header(f"hosts     {len(chosen.only)} hostile, 1 good; budget {SECONDS} s, {REQUESTS} requests, {MEMORY} MB")
    ran, servers, _ = crawl([GOOD], chosen.settings)
    alone = pace(servers)
    numbers = [list(HOSTILE).index(name) for name in chosen.only]
    ran, servers, rows = crawl([GOOD, *(host(number) for number in numbers)], chosen.settings)
    beside, log = pace(servers), servers.by_host()
    wrong = []
    print(f"{'page':<28}{'outcome':>9}{'rendered':>10}{'engine ms':>10}{'asked':>7}{'made':>6}  error")
    for number in numbers:
        name, mine = list(HOSTILE)[number], [row for row in rows if f"//{host(number)}:" in str(row["url"])]
        first = next((row for row in mine if row["url"] == f"http://{host(number)}:{PORT}/"), {})
        asked = log.get(f"{host(number)}:{PORT}", [])
        made = sum("/made" in str(row["url"]) for row in mine)
        figures = (
            f"{first.get('outcome', 'none')!s:>9}{first.get('rendered') or '-'!s:>10}{first.get('engine_ms') or 0:>10}"
        )
        print(f"{name:<28}{figures}{len(asked):>7}{made:>5}/3  {first.get('error') or ''}")
        if not first or not any("/raw" in str(row["url"]) for row in mine):
            wrong.append(f"{name}: no outcome, or its link was lost")
        if len(asked) > REQUESTS * max(1, sum(bool(row.get("rendered")) for row in mine)) + len(mine) + 1:
            wrong.append(f"{name}: {len(asked)} requests")
        if any(one.method != "GET" for one in asked):
            wrong.append(f"{name}: asked by another method")
    good = sum(f"//{GOOD}:" in str(row["url"]) for row in rows)
    print(f"\n{ran.seconds:.0f} s, {ran.cpu:.0f} s of CPU, exit {ran.code}; processes left: {list(ran.left) or 0}")
    print(f"peak memory of all processes {ran.peak / 2**20:.0f} MB (browser: {MEMORY})")
    print(f"good host: {good} pages of {GOOD_PAGES}, a request every {alone:.3f} s alone, {beside:.3f} s now")
    if ran.code != 0 or ran.left:
        wrong.append(f"exit {ran.code}: {ran.output[-2_000:]}")
    if ran.peak > (MEMORY + _MORE) * 2**20:
        wrong.append("memory was not bounded")
    if beside > _SLOWER * alone or good != GOOD_PAGES:
        wrong.append("the good host lost its pace or a page")
    for each in wrong:
        print(f"wrong: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

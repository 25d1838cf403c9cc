"""A site of React, React Router and Vite with 200 routes, crawled by this program and by Crawlee with Chromium.

    python benchmarks/browser/framework.py [--rounds 1] [--tabs 4] [--only NAME ...] [--settings TOML]

The site is built once from npm: each route is a piece of code of its own or shared by its kind, and gets its data by
fetch. HTML has no link. Crawlee (npm) runs twice as it would be used: with `networkidle`, which knows nothing of the
site, and with a selector that the site's author would know. Prints pages, links, CPU and requests at the server.
"""

from __future__ import annotations

import argparse
import json
import mimetypes
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ground import (
    CACHE,
    PORT,
    WHEN,
    Asked,
    Crawled,
    Reply,
    Servers,
    command,
    header,
    isolate,
    links_of,
    measured,
    path_of,
    records,
)

SECTIONS, ITEMS = 9, 190  # with the front page 200 routes
HOST = f"127.0.0.1:{PORT}"
FRONT = f"http://{HOST}/"
_SITE, _PEER = CACHE / "framework", CACHE / "peer"
_PACKAGES = {"react": "19", "react-dom": "19", "react-router": "7", "vite": "7"}
_PEERS = {"crawlee": "3", "playwright": "1"}
_SOURCES = {
    "index.html": "<!doctype html><html lang=en><head><meta charset=utf-8><title>Shop</title></head>"
    "<body><div id=root></div><script type=module src=/main.jsx></script></body></html>",
    "main.jsx": """
import { lazy, StrictMode, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { createBrowserRouter, RouterProvider } from 'react-router'
const page = (load) => { const Page = lazy(load); return <Suspense fallback={<p>loading</p>}><Page /></Suspense> }
const router = createBrowserRouter([
  { path: '/', element: page(() => import('./pages/Front.jsx')) },
  SECTION_ROUTES
  { path: '/item/:id', element: page(() => import('./pages/Item.jsx')) },
])
createRoot(document.querySelector('#root')).render(<StrictMode><RouterProvider router={router} /></StrictMode>)
""",
    "data.js": """
import { useEffect, useState } from 'react'
export function useData(path) {
  const [data, set] = useState(null)
  useEffect(() => { fetch(path).then((r) => r.json()).then((j) => { document.title = j.title; set(j) }) }, [path])
  return data
}
""",
    "pages/List.jsx": """
import { Link } from 'react-router'
import { useData } from '../data.js'
export default function List({ path }) {
  const data = useData(path)
  if (!data) return <p>loading</p>
  return <main><h1>{data.title}</h1><p>{data.text}</p>
    <ul>{data.links.map((to) => <li key={to}><Link to={to}>{to}</Link></li>)}</ul></main>
}
""",
    "pages/Front.jsx": "import List from './List.jsx'\nexport default () => <List path='/api/front.json' />\n",
    "pages/Item.jsx": """
import { useParams } from 'react-router'
import List from './List.jsx'
export default () => <List path={`/api/item/${useParams().id}.json`} />
""",
    **{
        f"pages/Section{number}.jsx": f"import List from './List.jsx'\n"
        f"export default () => <List path='/api/section/{number}.json' />\n"
        for number in range(SECTIONS)
    },
}
_CRAWLEE = """
import { createRequire } from 'module'
import { writeFileSync } from 'fs'
const require = createRequire(process.argv[2] + '/')
const { PlaywrightCrawler, Configuration, log } = require('crawlee')
const [, , , start, out, executablePath, tabs, how] = process.argv
const pages = []
log.setLevel(log.LEVELS.WARNING)
const crawler = new PlaywrightCrawler({
  respectRobotsTxtFile: true, minConcurrency: +tabs, maxConcurrency: +tabs,
  launchContext: { launchOptions: { executablePath, args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, '
    + 'EXCLUDE 127.0.0.1'] } },
  async requestHandler({ page, request, enqueueLinks }) {
    if (how == 'networkidle') await page.waitForLoadState('networkidle')
    else await page.waitForSelector(how)
    const links = await page.$$eval('a[href]', (list) => list.map((a) => a.href))
    pages.push({ url: request.loadedUrl, title: await page.title(), links })
    await enqueueLinks({ strategy: 'same-hostname' })
  },
}, new Configuration({ persistStorage: false, purgeOnStart: true }))
await crawler.run([start])
writeFileSync(out, JSON.stringify(pages))
"""


@dataclass(frozen=True)
class Figures:
    """One row of the table."""

    pages: int
    links: int
    ran: Crawled
    requests: int
    documents: int


def build() -> None:
    """Build the site, and install Crawlee, unless both are there."""
    if not (_SITE / "dist").exists():
        routes = "".join(
            f"  {{ path: '/section/{number}', element: page(() => import('./pages/Section{number}.jsx')) }},\n"
            for number in range(SECTIONS)
        )
        for name, text in _SOURCES.items():
            (_SITE / name).parent.mkdir(parents=True, exist_ok=True)
            (_SITE / name).write_text(text.replace("  SECTION_ROUTES\n", routes))
        (_SITE / "vite.config.js").write_text("export default { esbuild: { jsx: 'automatic' } }\n")
        _install(_SITE, _PACKAGES)
        subprocess.run(["npx", "vite", "build"], cwd=_SITE, check=True)
    if not (_PEER / "node_modules" / "crawlee").exists():
        _install(_PEER, _PEERS)


def _install(folder: Path, packages: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"{name}@{version}" for name, version in packages.items()]
    subprocess.run(["npm", "init", "-y"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *words], cwd=folder, check=True)


def routes() -> dict[str, list[str]]:
    """Each route and the links on its page."""
    sections = [f"/section/{number}" for number in range(SECTIONS)]
    listed = {path: [f"/item/{i}" for i in range(ITEMS) if i % SECTIONS == n] for n, path in enumerate(sections)}
    items = {f"/item/{i}": ["/", f"/section/{i % SECTIONS}", f"/item/{(i + 1) % ITEMS}"] for i in range(ITEMS)}
    return {"/": sections, **listed, **items}


def answer(asked: Asked) -> Reply:
    """A server of files that gives the same document for every route."""
    path = asked.path.partition("?")[0]
    if path == "/robots.txt":
        return Reply("User-agent: *\nDisallow: /private/\n", "text/plain")
    if path.startswith("/api/"):
        route = path.removeprefix("/api").removesuffix(".json")
        links = routes().get("/" if route == "/front" else route)
        if links is None:
            return Reply(status=404)
        text = (
            f"What is to be said about {route}, in some words that no other page has: {zlib.crc32(route.encode()):x}."
        )
        return Reply(json.dumps({"title": f"Page {route}", "text": text, "links": links}), "application/json")
    file = _SITE / "dist" / path.lstrip("/")
    if file.is_file() and file.suffix:
        return Reply(file.read_bytes(), mimetypes.guess_type(file.name)[0] or "text/plain")
    if path.startswith("/assets/") or path == "/favicon.ico":
        return Reply(status=404)
    return Reply((_SITE / "dist" / "index.html").read_bytes())


def ours(home: Path, tabs: int, settings: str, when: str = WHEN) -> tuple[Crawled, set[str], int]:
    """This program: how it ran, the URLs it has, and the links it found on them."""
    job = home / "job"
    text = f'[browser]\nwhen = "{when}"\nno_sandbox = true\ntabs = {tabs}\n{settings}\n'
    ran = measured(command(job, [FRONT], text, ["--delay", "0", "--per-host", "8", "--output", "links"]), limit=900)
    urls = {path_of(str(row["url"])) for row in records(job) if row["outcome"] == "fetched"}
    return ran, urls, len(links_of(job))


def crawlee(home: Path, tabs: int, executable: str, how: str) -> tuple[Crawled, set[str], int]:
    """Crawlee with Playwright and this browser."""
    script, out = home / "crawlee.mjs", home / "pages.json"
    script.write_text(_CRAWLEE)
    ran = measured(["node", str(script), str(_PEER), FRONT, str(out), executable, str(tabs), how], limit=900)
    pages = json.loads(out.read_text()) if out.exists() else []
    return (
        ran,
        {path_of(page["url"]) for page in pages if page["links"]},
        sum(len(set(page["links"])) for page in pages),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tabs", type=int, default=4, help="pages at a time, of both (4)")
    parser.add_argument("--settings", default="", metavar="TOML", help="more settings of [browser]")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names of the first column")
    chosen = parser.parse_args()
    build()
    isolate({})
    versions = json.loads((_PEER / "node_modules" / "crawlee" / "package.json").read_text())["version"]
    header(
        f"site      {1 + SECTIONS + ITEMS} routes of React and React Router; {chosen.tabs} tabs",
        f"crawlee   {versions}",
    )
    shell = shutil.which("chromium-headless-shell")
    chromium = shutil.which("chromium") or sys.exit("chromium is not installed")
    runs = {
        "crawler, no browser": lambda home: ours(home, chosen.tabs, "", "never"),
        "crawler, chromium": lambda home: ours(home, chosen.tabs, f'engine = "chromium"\n{chosen.settings}'),
        "crawlee, chromium, networkidle": lambda home: crawlee(home, chosen.tabs, chromium, "networkidle"),
        "crawlee, chromium, selector": lambda home: crawlee(home, chosen.tabs, chromium, "main a"),
    }
    if shell:
        runs["crawler, headless-shell"] = lambda home: ours(home, chosen.tabs, chosen.settings)
        runs["crawlee, headless-shell, selector"] = lambda home: crawlee(home, chosen.tabs, shell, "main a")
    figures: dict[str, list[Figures]] = {name: [] for name in runs if not chosen.only or name in chosen.only}
    print(" " * 34 + "  pages  links   CPU s  ms/page  wall s  requests  documents  exit")
    for _ in range(chosen.rounds):
        for name, rows in figures.items():
            with tempfile.TemporaryDirectory() as folder, Servers(["127.0.0.1"], answer) as servers:
                ran, urls, links = runs[name](Path(folder))
                kinds = Counter(path_of(asked.url) in routes() for asked in servers.log)
                rows.append(Figures(len(urls & routes().keys()), links, ran, len(servers.log), kinds[True]))
            _show(name, rows[-1])
    if chosen.rounds > 1:
        print("\nmedians:")
        for name, rows in figures.items():
            _show(name, sorted(rows, key=lambda row: row.ran.cpu)[len(rows) // 2])
    print(f"\ntruth: {len(routes())} routes, {sum(map(len, routes().values()))} links")
    whole = [row.pages == len(routes()) for name, rows in figures.items() if "no browser" not in name for row in rows]
    return int(not all(whole))


def _show(name: str, row: Figures) -> None:
    each = 1000 * row.ran.cpu / max(row.pages, 1)
    print(
        f"{name:<34}{row.pages:>7}{row.links:>7}{row.ran.cpu:>8.1f}{each:>9.0f}{row.ran.seconds:>8.1f}"
        f"{row.requests:>10}{row.documents:>11}  {row.ran.code}",
        flush=True,
    )
    if row.ran.code:
        print(row.ran.output[-1_000:])


if __name__ == "__main__":
    sys.exit(main())

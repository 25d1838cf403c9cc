"""What a page costs by engine, beside pages that are taken as they are.

    python benchmarks/browser/engines.py [--pages 200] [--tabs 1 4] [--rounds 1] [--only ENGINE ...]

Every page has a script of its host, a style sheet, and two requests for data; all pages are seeds, so that each row has
the same. The costs of a run of one page are taken off: they are those of a start. Engines that are not installed are
left out. CPU is that of all processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from ground import PORT, Asked, Crawled, Reply, Servers, command, header, isolate, links_of, measured, page, records

from crawler.web.browser.engines import installed

HOSTS = [f"127.0.17.{number}" for number in range(1, 9)]
ENGINES = ("headless-shell", "chromium", "lightpanda")
_APP = """
const number = +location.pathname.slice(1)
const ask = (url) => fetch(url).then((answer) => answer.json())
Promise.all([ask('/data/' + number), ask('/more/' + number)]).then(([data, more]) => {
  document.querySelector('#root').innerHTML = data.map((n) => `<p class=row>${n} ${'words of it '.repeat(10)}
    <a href=/made/${number}/${n}>${n}</a></p>`).join('') + more.join(' ')
})
"""


def answer(asked: Asked) -> Reply:
    if asked.path == "/robots.txt":
        return Reply("User-agent: *\nDisallow:\n", "text/plain")
    kept = {"Cache-Control": "max-age=600"}
    if asked.path == "/app.js":
        return Reply(_APP, "text/javascript", headers=kept)
    if asked.path == "/app.css":
        return Reply(".row{margin:1em}", "text/css", headers=kept)
    if asked.path.startswith(("/data/", "/more/")):
        return Reply(json.dumps(list(range(30))), "application/json")
    return page("<div id=root></div><script src=/app.js></script>", "<link rel=stylesheet href=/app.css>")


def crawl(when: str, engine: str, tabs: int, pages: int) -> tuple[Crawled, int, int, int]:
    """Crawl so many pages: how it ran, the pages that were rendered, their links, and the requests."""
    text = f'[browser]\nwhen = "{when}"\nengine = "{engine}"\nno_sandbox = true\ntabs = {tabs}\n'
    seeds = [f"http://{HOSTS[number % len(HOSTS)]}:{PORT}/{number}" for number in range(pages)]
    with tempfile.TemporaryDirectory() as name, Servers(HOSTS, answer) as servers:
        job = Path(name) / "job"
        flags = ["--delay", "0", "--per-host", "4", "--max-depth", "0", "--output", "links"]
        ran = measured(command(job, seeds, text, flags), limit=900, memory=True)
        if ran.code:
            print(ran.output[-1_000:])
        rows = records(job)
        links = len(links_of(job))
        return ran, sum(bool(row.get("rendered")) for row in rows), links, len(servers.log)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=200, help="(200)")
    parser.add_argument("--tabs", type=int, nargs="+", default=[1, 4], help="pages at a time (1 4)")
    parser.add_argument("--rounds", type=int, default=1, help="of which the one with the median CPU is shown (1)")
    parser.add_argument("--only", nargs="+", choices=[*ENGINES, "raw"], default=["raw", *ENGINES], metavar="ENGINE")
    chosen = parser.parse_args()
    isolate({})
    header(f"pages     {chosen.pages} on {len(HOSTS)} hosts")
    rows = [("raw", "never", "auto", 4)]
    rows += [(f"{each.name}, {n} tabs", "always", each.name, n) for each in installed() for n in chosen.tabs]
    print(" " * 26 + " rendered  links  CPU ms/page  pages/s  peak MB  requests  start CPU s")
    for name, when, engine, tabs in rows:
        if name.split(",")[0] not in chosen.only:
            continue
        start, *_ = crawl(when, engine, tabs, 1)
        runs = [crawl(when, engine, tabs, chosen.pages) for _ in range(chosen.rounds)]
        ran, rendered, links, asked = sorted(runs, key=lambda run: run[0].cpu)[len(runs) // 2]
        each = 1000 * (ran.cpu - start.cpu) / (chosen.pages - 1)
        speed = (chosen.pages - 1) / max(ran.seconds - start.seconds, 0.001)
        figures = (
            f"{rendered:>9}{links:>7}{each:>13.1f}{speed:>9.1f}{ran.peak / 2**20:>9.0f}{asked:>10}{start.cpu:>13.1f}"
        )
        print(f"{name:<26}{figures}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

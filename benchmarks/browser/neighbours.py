"""Hosts whose pages render beside hosts whose pages do not: the servers' log says whether the rules held and whether
the plain hosts kept their pace.

    python benchmarks/browser/neighbours.py [--hosts 20] [--pages 20] [--delay 0.2] [--settings TOML]

Crawls the plain hosts alone, then with as many hosts whose pages are made by scripts that ask their own host, their
neighbour among these and a host of nobody. Ends with 1 if a rule was broken or a plain host lost its pace. All pages of
the plain hosts are seeds, so these hosts always have a page to ask for: the links of an audited page are known only
when it has been rendered, and a host without known URLs has no pace.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from pathlib import Path

from ground import (
    PORT,
    RESOLUTION,
    WHEN,
    Asked,
    Canaries,
    Crawled,
    Reply,
    Servers,
    command,
    header,
    isolate,
    measured,
    page,
    path_of,
    records,
)

ROBOTS = "User-agent: *\nDisallow: /private/\n"
OUTSIDE, FORBIDDEN = "127.0.12.1", "127.0.14.1"  # not in scope; not among the addresses that may be asked
_SLOWER = 1.25  # times the pace alone, from which on a plain host has lost it
_WORDS = "Words that a person reads on a page which is served as it is, with its links in its HTML. " * 8


def rendered_host(number: int) -> str:
    return f"127.0.10.{number + 1}:{PORT}"


def plain_host(number: int) -> str:
    return f"127.0.11.{number + 1}:{PORT}"


class Web:
    """What the servers answer: trees of pages, each with two children."""

    def __init__(self, hosts: int, pages: int) -> None:
        self.hosts, self.pages = hosts, pages

    def children(self, path: str) -> list[str]:
        own = int(path.strip("/") or 1)
        return [f"/{child}" for child in (2 * own, 2 * own + 1) if child <= self.pages]

    def answer(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        cors = {"Access-Control-Allow-Origin": "*"}
        if path == "/robots.txt":
            return Reply(ROBOTS, "text/plain")
        if path == "/app.js":
            return Reply(_APP, "text/javascript", headers={"Cache-Control": "no-store"})
        if path.startswith("/data/"):
            return Reply(json.dumps(self.children(path.removeprefix("/data"))), "application/json", headers=cors)
        if path.startswith(("/neighbour/", "/private/", "/outside")):
            return Reply("[]", "application/json", headers=cors)
        if asked.host.startswith("127.0.11."):
            return page(f"<p>{_WORDS}" + "".join(f"<a href={link}>{link}</a> " for link in self.children(path)))
        number = int(asked.host.split(":")[0].rpartition(".")[2])
        neighbour = rendered_host(number % self.hosts)
        return page(
            f"<div id=root></div><script>const neighbour='http://{neighbour}',outside='http://{OUTSIDE}:{PORT}',"
            f"forbidden='http://{FORBIDDEN}:{PORT}'</script><script src=/app.js></script>"
        )


_APP = """
const own = location.pathname == '/' ? '/1' : location.pathname
const ask = (url) => fetch(url).then((answer) => answer.json()).catch(() => [])
ask(neighbour + '/neighbour' + own).then(() => ask('/data' + own)).then((links) => {
  document.querySelector('#root').innerHTML = '<p>' + 'Words that a script wrote. '.repeat(20) +
    links.map((link) => `<a href=${link}>${link}</a>`).join(' ')
})
ask('/private/data'); ask(neighbour + '/private/data'); ask(forbidden + '/outside')
new Image().src = outside + '/outside.png'; navigator.sendBeacon(outside + '/outside')
const script = document.createElement('script'); script.src = forbidden + '/outside.js'; document.head.append(script)
"""


def pages_of(hosts: list[str], pages: int) -> list[str]:
    """The URLs of all pages of these hosts."""
    return [f"http://{host}/{n if n > 1 else ''}" for host in hosts for n in range(1, pages + 1)]


def crawl(web: Web, seeds: list[str], delay: float, settings: str) -> tuple[Crawled, Servers, set[str]]:
    """Crawl from these seeds; how it ran, what the servers saw, and the URLs that were fetched."""
    addresses = {seed.split("/")[2].split(":")[0] for seed in seeds}
    with tempfile.TemporaryDirectory() as name, Servers([*addresses, OUTSIDE], web.answer) as servers:
        job = Path(name) / "job"
        text = f'[browser]\nwhen = "{WHEN}"\nno_sandbox = true\n{settings}\n'
        words = command(job, seeds, text, ["--delay", str(delay)])
        where = words.index("127.0.0.0/8")
        words[where : where + 1] = ["127.0.10.0/23", "--allow-network", f"{OUTSIDE}/32"]
        ran = measured(words, limit=1_800)
        rows = [row for row in records(job) if row["outcome"] == "fetched"]
        print(f"  {len(rows)} pages, {sum(bool(row.get('rendered')) for row in rows)} rendered, exit {ran.code}")
        if ran.code:
            print(ran.output[-1_000:])
        return ran, servers, {str(row["url"]) for row in rows}


def pace(servers: Servers, hosts: list[str]) -> dict[str, float]:
    """Seconds from one request to the next, of each host: the mean from its first page to its last."""
    log = servers.by_host()
    return {host: (log[host][-1].began - log[host][0].began) / (len(log[host]) - 1) for host in hosts}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=20, help="of each kind (20)")
    parser.add_argument("--pages", type=int, default=20, help="of each host (20)")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds between two requests to a host (0.2)")
    parser.add_argument("--settings", default="", metavar="TOML", help="more settings of [browser]")
    chosen = parser.parse_args()
    isolate({})
    header(f"hosts     {chosen.hosts} of each kind, {chosen.pages} pages each, delay {chosen.delay} s")
    web = Web(chosen.hosts, chosen.pages)
    plain = [plain_host(number) for number in range(chosen.hosts)]
    rendered = [rendered_host(number) for number in range(chosen.hosts)]
    print("plain hosts alone:")
    canaries = Canaries(tcp=[(FORBIDDEN, PORT)])
    ran, servers, _ = crawl(web, pages_of(plain, chosen.pages), chosen.delay, chosen.settings)
    alone = pace(servers, plain)
    print("with the hosts whose pages render:")
    ran, servers, fetched = crawl(
        web, [*pages_of(plain, chosen.pages), *pages_of(rendered, 1)], chosen.delay, chosen.settings
    )
    beside = pace(servers, plain)
    wanted = set(pages_of([*plain, *rendered], chosen.pages))
    gaps = list(itertools.chain.from_iterable(servers.gaps().values()))
    slowest = max(beside[host] / alone[host] for host in plain)
    wrong = {
        "pages missing": len(wanted - fetched),
        "pages that there are not": len(fetched - wanted),
        "past robots.txt": sum(path_of(asked.url).startswith("/private/") for asked in servers.log),
        f"gaps below {chosen.delay} s": sum(gap < chosen.delay - RESOLUTION for gap in gaps),
        "out of scope": sum(asked.path.startswith("/outside") for asked in servers.log),
        "of an address that may not be asked": len(canaries.sung),
        "methods but GET": sum(asked.method != "GET" for asked in servers.log),
        "plain hosts slower than before": sum(beside[host] > _SLOWER * alone[host] for host in plain),
    }
    print(f"\n{len(servers.log)} requests in {ran.seconds:.1f} s, {ran.cpu:.1f} s of CPU; left: {list(ran.left) or 0}")
    before, after = statistics.mean(alone.values()), statistics.mean(beside.values())
    print(f"a request of a plain host every {before:.3f} s alone, {after:.3f} s beside the others")
    print(f"the slowest host took {slowest:.2f} times as long as alone")
    print(f"the shortest gap {min(gaps):.3f} s, {len(gaps)} gaps")
    for each in canaries.sung[:5]:
        print(f"asked: {each}")
    for name, count in wrong.items():
        print(f"{name:<38}{count:>6}")
    return int(any(wrong.values()) or ran.code != 0 or bool(ran.left))


if __name__ == "__main__":
    sys.exit(main())

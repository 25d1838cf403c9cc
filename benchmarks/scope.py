"""The cost of rules about links: patterns, traps, copies and sitemaps, compared with alternatives.

    python benchmarks/scope.py [--links N] [--rounds N]

One process, CPU time, the median of several rounds. ``hostile`` is a URL of 2,048 characters that nearly matches.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import statistics
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.kit.machine import describe_machine
from crawler.base.kv import Batch
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import LinkSettings, TrapSettings
from crawler.frontier.traps.copies import Copies, content_digest, driven, remember, simhash
from crawler.frontier.traps.traps import Traps
from crawler.job.store.rocks import RocksStore
from crawler.url.robots.parse import parse_robots
from crawler.url.scope.boundary import Boundary
from crawler.url.scope.modes import Scope
from crawler.url.scope.patterns import Pattern
from crawler.web.links.extract import extract_links
from crawler.web.links.sitemap import Sitemap

PATTERNS = ("*.pdf", "*/print/*", "*?*sort=*")


@dataclass(frozen=True)
class Link:
    href: str


def links(count: int) -> list[Link]:
    """A fourth of them numbered, a fourth with a query."""
    forms = ("/docs/words/of-it/{n:x}ly.html", "/news/a-word/", "/item/{n}", "/list?page={n}&sort=up")
    return [Link(f"http://h{n % 50}.test" + forms[n % 4].format(n=n)) for n in range(count)]


def page(links: int = 150) -> bytes:
    text = "".join(
        f"<p>Some <b>words</b> of page {n}, and a <a href='/item/{n}'>link</a> to more.</p>\n" for n in range(links)
    )
    return f"<!doctype html><title>page</title>{text * 3}".encode()


def sitemap(urls: int = 50_000) -> bytes:
    rows = "".join(f"<url><loc>http://h.test/item/{n}</loc><priority>0.5</priority></url>\n" for n in range(urls))
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'.encode()


def measured(work: Callable[[], object], rounds: int, each: int) -> float:
    """Microseconds of CPU for each of ``each`` things that one call of ``work`` does."""
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return statistics.median(times) / each * 1e6


def of_patterns(count: int, rounds: int) -> Iterator[tuple[str, float]]:
    found = links(count)
    scope = Scope("host")
    for number in range(50):
        scope.widen(f"http://h{number}.test/")
    for name, tables in (("scope alone", {}), ("and three exclude patterns", {"exclude": list(PATTERNS)})):
        boundary = Boundary(scope, settings_from({"scope": tables}))
        yield f"a link, {name}", measured(lambda b=boundary: b.inside(found, 1, Counter()), rounds, count)  # type: ignore[misc]
    compiled = [re.compile(".*".join(map(re.escape, pattern.split("*")))) for pattern in PATTERNS]
    work = [link.href for link in found]
    yield (
        "the three as regular expressions (re.fullmatch)",
        measured(lambda: [any(one.fullmatch(href) for one in compiled) for href in work], rounds, count),
    )
    lines = "User-agent: *\n" + "\n".join(f"Disallow: {pattern}" for pattern in PATTERNS)
    robots = parse_robots(lines.encode(), "crawler", 512_000)
    yield "the three as robots.txt", measured(lambda: [robots.allowed(href) for href in work], rounds, count)
    hostile = "http://h.test/" + "a" * 2_034
    pattern = Pattern("*" + "a*" * 3 + "b")
    backtracking = re.compile(".*a.*a.*a.*b")
    yield "hostile, *a*a*a*b", measured(lambda: pattern.matches(hostile), rounds, 1)
    short = hostile[:300]
    yield "hostile, its first 300 characters, as re", measured(lambda: backtracking.fullmatch(short), rounds, 1)


def of_traps(count: int, rounds: int, directory: Path) -> Iterator[tuple[str, float]]:
    with_store = RocksStore(directory / "traps")
    made = iter(range(1_000_000))
    hrefs = [link.href for link in links(count)]

    def admit() -> None:
        traps = Traps(TrapSettings(), with_store)
        number = next(made)
        for at in range(0, count, 100):
            batch = Batch()
            traps.refusals([f"{href}{number}" for href in hrefs[at : at + 100]], batch)
            with_store.write(batch)

    yield "a new URL, counted and stored", measured(admit, rounds, count)
    traps = Traps(TrapSettings(max_variants=10), with_store)
    calendar = [Link(f"http://trap.test/day/{n}") for n in range(count)]
    batch = Batch()
    traps.refusals([link.href for link in calendar[:20]], batch)
    with_store.write(batch)
    yield "a link into a closed trap", measured(lambda: traps.open_links(calendar, Counter()), rounds, count)
    yield (
        "a link elsewhere, with one trap closed",
        measured(lambda: traps.open_links(links(count), Counter()), rounds, count),
    )
    with_store.close()


def of_copies(rounds: int, directory: Path) -> Iterator[tuple[str, float]]:
    body = page()
    size = f"{len(body) / 1000:.0f} KB"
    store = RocksStore(directory / "copies")
    copies = Copies(TrapSettings(), store)
    numbers = iter(range(1_000_000))

    def finish() -> None:
        for _ in range(100):
            number = next(numbers)
            href = f"http://h.test/{number}"
            content = driven(copies.measure(body + str(number).encode()))
            assert content is not None
            batch = Batch()
            remember(href, copies.compare(href, content), batch)
            store.write(batch)

    yield f"a page of {size}: digest, looked up and stored", measured(finish, rounds, 100)
    yield "its digest alone", measured(lambda: content_digest(body), rounds, 1)
    yield "its SHA-256, white space and all", measured(lambda: hashlib.sha256(body).digest(), rounds, 1)
    yield "its simhash", measured(lambda: driven(simhash(body)), rounds, 1)
    yield "its links (Lexbor), to compare", measured(lambda: extract_links(body, "utf-8", LinkSettings()), rounds, 1)
    store.close()


def of_sitemaps(rounds: int) -> Iterator[tuple[str, float]]:
    body = sitemap()
    packed = gzip.compress(body)

    def listed(data: bytes) -> int:
        found = Sitemap(data, LinkSettings())
        return sum(map(len, found))

    def iterparse() -> int:
        locs = 0
        for _, element in ET.iterparse(BytesIO(body)):
            locs += element.tag.endswith("loc")
            element.clear()
        return locs

    assert listed(body) == listed(packed) == iterparse() == 50_000
    yield "a URL of a sitemap of 50,000", measured(lambda: listed(body), rounds, 50_000)
    yield "the same, gzipped", measured(lambda: listed(packed), rounds, 50_000)
    yield "the same by ElementTree.iterparse, without its bounds", measured(iterparse, rounds, 50_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(*describe_machine(("selectolax", "mmh3", "rocksdict")), sep="\n")
    print(f"rounds    {given.rounds} of {given.links} links, medians of CPU time in microseconds\n")
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        for rows in (
            of_patterns(given.links, given.rounds),
            of_traps(given.links, given.rounds, directory),
            of_copies(given.rounds, directory),
            of_sitemaps(given.rounds),
        ):
            for name, cost in rows:
                print(f"{cost:12,.2f}  {name}")
            print()


if __name__ == "__main__":
    main()

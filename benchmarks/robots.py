"""What robots.txt costs: parsing, memory, and matching, with hostile files and an ordinary one.

    python benchmarks/robots.py [--protego]

One run, one process, CPU time. With ``--protego`` that library, which must be installed, parses and matches the same
files (``can_fetch`` alone: which group applies is found for each match).
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.kit.machine import describe_machine
from crawler.url.robots.parse import parse_robots

AGENT, LIMIT = "crawler/0.1", 512_000
SHORT = [f"http://h.test/some/path/page{n}.html?x=1" for n in range(100)]
LONG = ["http://h.test/" + "a" * 2_030 + str(n) for n in range(10)]
WORDS = "admin login cart checkout search private tmp cgi-bin account api ajax print feed user messages settings"


def fill(line: Callable[[int], str]) -> bytes:
    """A file of nearly the limit."""
    text, number = ["User-agent: *\n"], 0
    left = LIMIT - len(text[0]) - 1
    while (left := left - len(made := line(number))) > 0:
        text.append(made)
        number += 1
    return "".join(text).encode()


FILES = {
    "ordinary": (
        "User-agent: *\n"
        + "".join(f"Disallow: /{word}/\n" for word in WORDS.split())
        + "Disallow: /*?sort=\nDisallow: /*.pdf$\nAllow: /api/open\nCrawl-delay: 2\nSitemap: https://h.test/s.xml\n"
    ).encode(),
    "paths": fill(lambda n: f"Disallow: /{n:x}\n"),
    "paths, other agents": fill(lambda n: f"User-agent: b{n}\nDisallow: /{n:x}\n"),
    "one star": fill(lambda n: f"Disallow: /*{n:x}\n"),
    "many stars": fill(lambda n: f"Disallow: /*{n}*a*a*a$\n"),
    "stars that repeat": fill(lambda n: f"Disallow: /*{'a' * 400}b{'a' * 400}{n}\n"),
    "each in the next": "".join(["User-agent: *\n", *(f"Disallow: /{'a' * n}\n" for n in range(980))]).encode(),
    "to be quoted": fill(lambda n: f"Disallow: /{'%61%ff' * 10}{n}\n"),
    "sitemaps": fill(lambda n: f"Sitemap: /{n:x}\n"),
}


def measured(work: Callable[[], object], times: int = 1) -> float:
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times


def show(name: str, parse: Callable[[bytes], Callable[[str], bool]]) -> None:
    print(f"\n{name:22} parse ms   kept MB   peak MB   match us, short   match us, long")
    for kind, body in FILES.items():
        seconds = measured(lambda body=body: parse(body), 200 if kind == "ordinary" else 1)  # type: ignore[misc]
        tracemalloc.start()
        allowed = parse(body)
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        short = measured(lambda allowed=allowed: [allowed(url) for url in SHORT]) / len(SHORT)  # type: ignore[misc]
        long = measured(lambda allowed=allowed: [allowed(url) for url in LONG]) / len(LONG)  # type: ignore[misc]
        row = (kind, seconds * 1e3, kept / 1e6, peak / 1e6, short * 1e6, long * 1e6)
        print("{:22} {:8.2f} {:9.3f} {:9.2f} {:17.1f} {:16.0f}".format(*row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--protego", action="store_true")
    given = parser.parse_args()
    print(*describe_machine(("protego",) if given.protego else ()), sep="\n")
    show("crawler", lambda body: parse_robots(body, AGENT, LIMIT).allowed)
    if given.protego:
        from protego import Protego  # noqa: PLC0415, not a dependency

        def parse(body: bytes) -> Callable[[str], bool]:
            rules = Protego.parse(body.decode("utf-8", "replace"))
            return lambda url: bool(rules.can_fetch(url, AGENT))

        show("Protego", parse)


if __name__ == "__main__":
    main()

"""The cost of resolving and canonicalising a page's links, compared with urljoin and with the parser alone.

    python benchmarks/canonicalise.py [URLS]

Two made webs and, if a file of absolute URLs is given (one a line, .gz or not), pages made of those. One run, one
process, CPU time, the best of several rounds, in nanoseconds a link as found on the page, repeats included.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import urljoin

from ada_url import join_url

from crawler.url.scope.modes import Scope
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.host_key import host_key

Page = tuple[str, list[str]]
Method = Callable[[str, list[str]], object]

_ROUNDS = 7
_LINKS = 200


def documentation(pages: int = 60) -> list[Page]:
    """Like a manual: two thirds relative links to other pages, many fragments, a few foreign sites."""
    pick = random.Random(1)
    books = ["library", "reference", "howto", "c-api", "whatsnew"]

    def link() -> str:
        name = pick.choice(["json", "functions", "stdtypes", "asyncio-task"])
        target = f"{pick.choice(books)}/{name}{pick.randrange(90)}.html"
        start = pick.choice(["../", "../", "../", "", "/3/"])
        mark = pick.choice(["", f"#section-{pick.randrange(30)}"])
        return pick.choices(
            [start + target + mark, f"#id{pick.randrange(40)}", f"https://site{pick.randrange(9)}.example/{target}"],
            [8, 3, 1],
        )[0]

    return [
        (f"https://docs.example/3/{pick.choice(books)}/page{number}.html", [link() for _ in range(_LINKS)])
        for number in range(pages)
    ]


def modules(pages: int = 60) -> list[Page]:
    """Like generated pages of modules: short names in one directory, mostly fragments of them."""
    pick = random.Random(2)
    names = [
        f"{a}.{b}" for a in ("json", "email", "xml", "asyncio") for b in ("tool", "parser", "events", "base", "dom")
    ]

    def link() -> str:
        return f"{pick.choice(names)}.html" + pick.choice(["", "#Parser", "#-run"])

    return [(f"http://127.0.0.1:8001/{pick.choice(names)}.html", [link() for _ in range(_LINKS)]) for _ in range(pages)]


def pages_of(lines: Iterable[str], most: int = 20_000) -> list[Page]:
    links = [line.strip() for line in itertools.islice(lines, most)]
    return [("https://example.com/a/b", links[i : i + _LINKS]) for i in range(0, len(links), _LINKS)]


def each(join: Callable[[str, str], str]) -> Method:
    """Call ``join`` for each distinct text of a page."""

    def page(base: str, hrefs: list[str]) -> None:
        for text in dict.fromkeys(hrefs):
            try:
                join(base, text)
            except ValueError:
                continue

    return page


def for_each(ask: Callable[[str], object]) -> Method:
    def page(_: str, hrefs: list[str]) -> object:
        return [ask(href) for href in hrefs]

    return page


def nanoseconds(pages: Sequence[Page], method: Method) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time_ns()
        for base, hrefs in pages:
            method(base, hrefs)
        best = min(best, time.process_time_ns() - began)
    return best / sum(len(hrefs) for _, hrefs in pages)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("urls", nargs="?", type=Path, help="absolute URLs, one a line")
    chosen = parser.parse_args(arguments)

    webs = {"documentation": documentation(), "modules": modules()}
    if chosen.urls is not None:
        reading = gzip.open if chosen.urls.suffix == ".gz" else open
        with reading(chosen.urls, "rt") as lines:
            webs[chosen.urls.name] = pages_of(lines)

    canonicaliser = Canonicaliser()
    methods: dict[str, Method] = {
        "outlinks": canonicaliser.outlinks,
        "  with all heuristics": Canonicaliser(["drop-tracking", "drop-session-ids", "sort-query"]).outlinks,
        "ada alone": each(join_url),
        "urljoin": each(urljoin),
    }
    print(f"{'ns a link':<24}" + "".join(f"{name:>20}" for name in webs))
    for name, method in methods.items():
        print(f"{name:<24}" + "".join(f"{nanoseconds(pages, method):>20.0f}" for pages in webs.values()))

    found = [(base, canonicaliser.outlinks(base, hrefs)[0]) for base, hrefs in webs["documentation"]]
    hrefs = [(base, [link.href for link in links]) for base, links in found]
    print(f"\n{'ns a distinct href':<24}{'documentation':>20}")
    for mode in ("host", "domain", "prefix"):
        scope = Scope(mode)
        scope.widen(hrefs[0][0])
        print(f"{'scope ' + mode:<24}{nanoseconds(hrefs, for_each(scope.contains)):>20.0f}")
    print(f"{'host key':<24}{nanoseconds(hrefs, for_each(host_key)):>20.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])

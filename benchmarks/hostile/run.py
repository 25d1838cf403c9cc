"""Crawl twenty hostile hosts and an innocent one in one run of the program.

    python benchmarks/hostile/run.py [--pages 400] [--only TRAP ...]

Prints what came of each host, the peak memory of the program and its children, the longest stall of its event loop, and
whether the innocent site came in whole and at its pace. Ends with 1 if one of these is not as docs/security.md says.
Loopback only: the resolver of the program knows the hosts here, and nothing else can be dialled.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.hostile.traps import TRAPS
from benchmarks.kit.machine import describe_machine
from tests.hostile.web import INNOCENT, MEMORY_MOST, STALL_MOST, Crawled, Hostile

_DELAY = 0.1  # seconds between two requests to a host
_SETTINGS = {
    "crawl.concurrency": 64,
    "politeness.delay": _DELAY,
    "politeness.backoff_first": 0.2,
    "politeness.patience": "short",
    "fetch.headers_timeout": 3.0,
    "fetch.body_timeout": 5.0,
    "traps.max_variants": 300,
}
_PATIENCE = 1800.0  # seconds


def crawl(directory: Path, pages: int, names: Sequence[str]) -> Crawled:
    """Crawl hosts with these traps until nothing is left."""
    with Hostile(directory, pages) as web:
        hosts = {f"t{number}.test": name for number, name in enumerate(names)}
        for host, name in hosts.items():
            begin = web.host(host, {})
            web.pages[host] = TRAPS[name](begin)
        seeds = [web.url("/", host) for host in hosts]
        with web.running(seeds=seeds, settings=_SETTINGS) as program:
            crawled = program.end(_PATIENCE)
        print(f"\n{'host':<30}{'requests':>9}  records")
        for host, name in hosts.items():
            outcomes = Counter(str(row["outcome"]) for row in crawled.rows if f"//{host}:" in row["url"])
            told = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(outcomes.items()))
            print(f"{name:<30}{web.server.by_host()[host]:>9,}  {told}")
        return crawled


def judge(crawled: Crawled, pages: int) -> list[str]:
    """Print the figures; return what is wrong."""
    gaps = sorted(crawled.innocent_gaps())
    fetched = crawled.outcomes(INNOCENT)["fetched"]
    print(f"\ntime            {crawled.seconds:.0f} s, exit {crawled.ran.code}")
    print(f"peak memory     {crawled.peak / 2**20:.0f} MB, with children (limit {MEMORY_MOST / 2**20:.0f})")
    print(f"longest stall   {1000 * crawled.stall:.0f} ms computed (limit {1000 * STALL_MOST:.0f})")
    every = statistics.median(gaps)
    print(f"innocent site   {fetched} of {pages} pages, a request every {every:.3f} s (asked for {_DELAY})")
    print(f"                99% of the gaps below {gaps[int(0.99 * len(gaps))]:.3f} s, the longest {gaps[-1]:.3f} s")
    wrong = []
    try:
        crawled.hold()
    except AssertionError as error:
        wrong.append(str(error).partition("\n")[0] or "the innocent site lost something")
    if crawled.ran.code != 0:
        wrong.append(f"exit {crawled.ran.code}: {crawled.ran.err[-500:]}")
    return wrong


def main(words: Sequence[str]) -> int:
    """Crawl, tell, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=400, help="of the innocent site (400)")
    parser.add_argument("--only", nargs="+", choices=list(TRAPS), default=list(TRAPS), metavar="TRAP")
    chosen = parser.parse_args(words)
    print(time.strftime("date      %Y-%m-%d", time.gmtime()))
    for line in describe_machine():
        print(line)
    with tempfile.TemporaryDirectory() as name:
        crawled = crawl(Path(name), chosen.pages, chosen.only)
        wrong = judge(crawled, chosen.pages)
    for each in wrong:
        print(f"wrong: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

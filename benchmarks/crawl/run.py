"""CPU seconds for 1,000 pages: this crawler, Scrapy with and without JOBDIR, and the floor, in one run.

    python benchmarks/crawl/run.py --peer-python PYTHON-WITH-SCRAPY [--seeds FILE]

Without --seeds the script makes a web of its own and serves it with nginx for the time of the run. All crawl the
same pages with 64 connections, 16 a host, without delay; all but the floor ask for robots.txt first. The figures are
user and system time of the crawler's process, without the server's; medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from crawls import ROOT, Crawler, floor, ours, peer_versions, scrapy
from web import served

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import MADE_PAGES, make_files, make_small_files
from crawler.tools.bench.process_cost import Cost, run

PACKAGES = ("aiohttp", "ada-url", "selectolax", "mmh3", "numpy", "bitarray", "rocksdict")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--peer-python", type=Path, help="interpreter that has Scrapy; without it only ours and the floor"
    )
    parser.add_argument(
        "--seeds", type=Path, help="URLs of a web that is up, one a line; every page of their hosts counts"
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of this crawler and of the floor (3)")
    parser.add_argument("--peer-rounds", type=int, default=1, help="runs of Scrapy, each some minutes (1)")
    parser.add_argument("--pages", type=int, default=MADE_PAGES, help=f"of the made web ({MADE_PAGES})")
    parser.add_argument("--small", action="store_true", help="the made web has pages of 2 kB with 20 links")
    chosen = parser.parse_args(words)

    for line in describe_machine(PACKAGES):
        print(line)
    crawlers = [(floor(), chosen.rounds), (ours(), chosen.rounds)]
    if chosen.peer_python is not None:
        print(f"peer      {peer_versions(chosen.peer_python)}")
        crawlers += [(scrapy(chosen.peer_python, job=job), chosen.peer_rounds) for job in (False, True)]
    with tempfile.TemporaryDirectory() as name, _seeds(chosen, Path(name)) as seeds:
        hosts = seeds.read_text().split()
        size = " of 2 kB" if chosen.small else ""
        web = f"a made web of {chosen.pages} pages{size}" if chosen.seeds is None else "a web that was up already"
        print(f"web       {web}, {len(hosts)} seeds, from {hosts[0]} on\n", flush=True)
        results = _measure(crawlers, seeds, Path(name))
    print(f"load      {', '.join(f'{value:.2f}' for value in os.getloadavg())} (after the run)\n")
    _table(results)


@contextlib.contextmanager
def _seeds(chosen: argparse.Namespace, home: Path) -> Iterator[Path]:
    """A file of seeds without comments, of a web that is up meanwhile."""
    path = home / "seeds.txt"
    if chosen.seeds is not None:
        lines = [line.strip() for line in chosen.seeds.read_text().splitlines()]
        path.write_text("".join(f"{line}\n" for line in lines if line and not line.startswith("#")))
        yield path
        return
    make = make_small_files if chosen.small else make_files
    with served(make(home / "files", pages=chosen.pages), home / "nginx") as web:
        path.write_text("".join(f"{url}\n" for url in web.seeds))
        yield path


def _measure(crawlers: Sequence[tuple[Crawler, int]], seeds: Path, home: Path) -> dict[str, list[tuple[Cost, int]]]:
    """Rounds interleaved, so that what else the machine does meets all alike."""
    results: dict[str, list[tuple[Cost, int]]] = {crawler.name: [] for crawler, _ in crawlers}
    for number in range(max(rounds for _, rounds in crawlers)):
        for crawler, rounds in crawlers:
            if number >= rounds:
                continue
            own = home / f"{crawler.name}-{number}"
            own.mkdir()
            cost = run(crawler.command(seeds, own), own / "log", ROOT)
            if cost.code:
                raise SystemExit(f"{crawler.name} ended with {cost.code}:\n{(own / 'log').read_text()[-2000:]}")
            pages = len(set(crawler.pages(own)))
            results[crawler.name].append((cost, pages))
            print(f"round {number + 1}  {crawler.name:<20}{cost.cpu:8.2f} s CPU, {pages} pages", flush=True)
    return results


def _table(results: dict[str, list[tuple[Cost, int]]]) -> None:
    """Medians; pages are the HTML pages that the output holds, each once."""
    each = {name: statistics.median(1000 * cost.cpu / pages for cost, pages in runs) for name, runs in results.items()}
    mine = each["crawler"]
    heads = (("CPU s/1,000", 12), ("spread", 17), ("x ours", 8), ("wall s", 8), ("pages/s", 9), ("RSS MiB", 9))
    print(" " * 20 + "".join(f"{head:>{width}}" for head, width in (*heads, ("pages", 7), ("runs", 6))))
    for name, runs in results.items():
        all_cpu = [1000 * cost.cpu / pages for cost, pages in runs]
        wall = statistics.median(cost.wall for cost, _ in runs)
        rss = statistics.median(cost.rss for cost, _ in runs)
        found = statistics.median_low(pages for _, pages in runs)
        print(
            f"{name:<20}{each[name]:>12.2f}{f'{min(all_cpu):.2f} - {max(all_cpu):.2f}':>17}{each[name] / mine:>8.2f}"
            f"{wall:>8.1f}{found / wall:>9.0f}{rss:>9.0f}{found:>7}{len(runs):>6}"
        )
    found_by_ours = max(pages for _, pages in results["crawler"])
    print()
    for name, runs in results.items():
        found = min(pages for _, pages in runs)
        if found < 0.99 * found_by_ours:
            raise SystemExit(f"{name} found {found} pages of {found_by_ours}: its cost cannot be compared")
        if name.startswith("Scrapy"):
            print(f"ours / {name}: {mine / each[name]:.3f} (1/{each[name] / mine:.1f})")


if __name__ == "__main__":
    main(sys.argv[1:])

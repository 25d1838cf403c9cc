"""One spider, three ways to keep its requests on the disk: Scrapy's queues, its SQLite queues, and this project's job.

    python benchmarks/scrapy/schedulers.py kill [--serve DIR[=PATH] ...] [--after N]
    python benchmarks/scrapy/schedulers.py cpu [--serve DIR[=PATH] ...] [--rounds N] [--only NAME ...]

``kill``: SIGKILL when the server has sent so many pages, then the same command until it ends by itself. ``cpu``: the
whole crawl, the schedulers in turn, and the medians. The web is nginx over made files, or over the given directories,
each a host whose first page is PATH. Needs the extra ``scrapy``, and SQLite queues need a Scrapy that has them.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1] / "crawl")]

from crawls import ROOT, SCHEDULERS, Crawler, peer_versions, scrapy_with, undisturbed
from kill import killed, table
from web import Web, given_root, served

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import MADE_PAGES, make_files
from crawler.tools.bench.process_cost import run

PYTHON = Path(sys.executable)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("kill", "cpu"))
    parser.add_argument("--serve", nargs="+", metavar="DIR[=PATH]", default=[], help="in place of made files")
    parser.add_argument("--after", type=int, default=1_200, help="pages served before the kill (1200)")
    parser.add_argument("--rounds", type=int, default=3, help="crawls by each scheduler (3)")
    parser.add_argument("--only", nargs="+", choices=SCHEDULERS, default=list(SCHEDULERS), help="these schedulers")
    parser.add_argument("--pages", type=int, default=MADE_PAGES, help=f"of the made web ({MADE_PAGES})")
    chosen = parser.parse_args(words)

    for line in describe_machine(("rocksdict", "numpy", "mmh3", "ada-url")):
        print(line)
    print(f"peer      {peer_versions(PYTHON)}")
    crawlers = [scrapy_with(PYTHON, name) for name in chosen.only if _exists(name)]
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        roots = [given_root(word) for word in chosen.serve] or make_files(home / "files", pages=chosen.pages)
        with served(roots, home / "nginx") as web:
            seeds = home / "seeds.txt"
            seeds.write_text("".join(f"{url}\n" for url in web.seeds))
            wanted = undisturbed(seeds, home)
            kind = "given directories" if chosen.serve else "made files"
            print(f"web       {kind}, {len(web.seeds)} hosts, {len(wanted)} HTML pages")
            if chosen.what == "kill":
                print(f"kill      SIGKILL after {chosen.after} pages, then the same command until it ends by itself\n")
                table({each.name: killed(each, chosen.after, web, seeds, home, wanted) for each in crawlers})
            else:
                print(f"rounds    {chosen.rounds}, the schedulers in turn\n")
                _cpu(crawlers, chosen.rounds, web, seeds, home)


def _exists(name: str) -> bool:
    """Whether this version of Scrapy has the queues."""
    queues = importlib.import_module("scrapy.squeues")
    classes = [value.rpartition(".")[2] for value in SCHEDULERS[name].values() if "squeues" in value]
    return all(hasattr(queues, each) for each in classes)


def _cpu(crawlers: list[Crawler], rounds: int, web: Web, seeds: Path, home: Path) -> None:
    cpu: dict[str, list[float]] = {each.name: [] for each in crawlers}
    memory: dict[str, list[float]] = {each.name: [] for each in crawlers}
    pages: dict[str, int] = {}
    for number in range(rounds):
        for each in crawlers:
            own = home / f"{each.name}-{number}"
            own.mkdir()
            cost = run(each.command(seeds, own), own / "log", ROOT)
            if cost.code:
                raise SystemExit(f"{each.name} ended with {cost.code}:\n{(own / 'log').read_text()[-2000:]}")
            print(f"round {number + 1}   {each.name}: {cost.cpu:.1f} s of CPU", flush=True)
            cpu[each.name].append(cost.cpu)
            memory[each.name].append(cost.rss)
            pages[each.name] = len(set(each.pages(own)))
    yardstick = statistics.median(cpu["Scrapy with JOBDIR"])
    print(f"{'':<20}{'CPU s':>8}{'of JOBDIR':>11}{'MiB':>6}{'pages':>7}  each round")
    for name, seconds in cpu.items():
        median = statistics.median(seconds)
        each_round = ", ".join(f"{value:.1f}" for value in seconds)
        most = max(memory[name])
        print(f"{name:<20}{median:>8.1f}{median / yardstick:>11.2f}{most:>6.0f}{pages[name]:>7}  {each_round}")


if __name__ == "__main__":
    main(sys.argv[1:])

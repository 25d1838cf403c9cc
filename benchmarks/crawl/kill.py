"""The cost of SIGKILL: this crawler and Scrapy with JOBDIR, killed and restarted with the same command.

    python benchmarks/crawl/kill.py --peer-python PYTHON-WITH-SCRAPY [--serve DIR[=PATH] ...]

Serves a web with an nginx of its own (made files, or the given directories, each a host whose first page is PATH),
whose access log shows what was requested, whatever the crawlers report. Each crawler is killed when a number of pages
has been served; then the same command runs until it ends by itself. The yardstick is what the floor finds on the same
web when it is not killed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from crawls import ROOT, Crawler, ours, peer_versions, scrapy, undisturbed
from run import PACKAGES
from web import Web, given_root, served

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import MADE_PAGES, make_files
from crawler.tools.bench.process_cost import run

_MOST_RUNS = 5
_POLL = 0.005  # seconds between two looks at a crawl that is to be killed
_SETTLE = 0.2  # seconds: nginx writes its line a moment after the answer


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of one crawl that was killed."""

    served: int  # requests answered when it was killed
    codes: list[int]  # how each run ended
    never_asked: int  # pages that the server was never asked for
    missing: int  # pages that the output does not hold
    again: int  # requests beyond the first for a URL
    twice: int  # lines of the output beyond the first for a page


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", type=Path, help="interpreter that has Scrapy; without it only ours")
    parser.add_argument(
        "--serve", nargs="+", metavar="DIR[=PATH]", default=[], help="directories, in place of made files"
    )
    parser.add_argument("--after", type=int, default=1_200, help="pages served before the kill (1200)")
    parser.add_argument("--pages", type=int, default=MADE_PAGES, help=f"of the made web ({MADE_PAGES})")
    chosen = parser.parse_args(words)

    for line in describe_machine(PACKAGES):
        print(line)
    crawlers = [ours()]
    if chosen.peer_python is not None:
        print(f"peer      {peer_versions(chosen.peer_python)}")
        crawlers.append(scrapy(chosen.peer_python, job=True))
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        roots = [given_root(word) for word in chosen.serve] or make_files(home / "files", pages=chosen.pages)
        with served(roots, home / "nginx") as web:
            seeds = home / "seeds.txt"
            seeds.write_text("".join(f"{url}\n" for url in web.seeds))
            wanted = undisturbed(seeds, home)
            kind = "given directories" if chosen.serve else "made files"
            print(f"web       {kind}, {len(web.seeds)} hosts, {len(wanted)} HTML pages")
            print(f"kill      SIGKILL after {chosen.after} pages, then the same command until it ends by itself\n")
            losses = {crawler.name: killed(crawler, chosen.after, web, seeds, home, wanted) for crawler in crawlers}
    table(losses)


def killed(crawler: Crawler, after: int, web: Web, seeds: Path, home: Path, wanted: set[str]) -> Loss:
    """Kill the crawler after so many pages, and run it again until it ends by itself."""
    own = home / crawler.name
    own.mkdir()
    command, log = crawler.command(seeds, own), own / "log"
    time.sleep(_SETTLE)
    _, start = web.asked(0)
    position, count = start, 0

    def enough() -> bool:
        nonlocal position, count
        asked, position = web.asked(position)
        count += sum(entry.status == 200 and entry.html for entry in asked)
        return count >= after

    codes = [killed_when(enough, command, log)]
    while codes[-1] < 0 and len(codes) < _MOST_RUNS:
        codes.append(run(command, log, ROOT).code)
    if codes[-1]:
        raise SystemExit(f"{crawler.name} ended with {codes}:\n{log.read_text()[-2000:]}")
    time.sleep(_SETTLE)
    requests = Counter(entry.url for entry in web.asked(start)[0])
    lines = Counter(crawler.pages(own))
    return Loss(
        served=count,
        codes=codes,
        never_asked=len(wanted - requests.keys()),
        missing=len(wanted - lines.keys()),
        again=requests.total() - len(requests),
        twice=lines.total() - len(lines),
    )


def killed_when(enough: Callable[[], bool], command: list[str], log: Path) -> int:
    """The exit code of a crawl that SIGKILL ends as soon as ``enough`` holds."""
    with log.open("ab") as sink:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        while process.poll() is None and not enough():
            time.sleep(_POLL)
        process.kill()
        return process.wait()


def table(losses: dict[str, Loss]) -> None:
    """Print what was lost."""
    heads = ("killed after", "never asked", "missing", "asked again", "twice")
    print(f"{'pages':<20}" + "".join(f"{head:>14}" for head in heads) + "  exit codes")
    for name, loss in losses.items():
        figures = (loss.served, loss.never_asked, loss.missing, loss.again, loss.twice)
        print(f"{name:<20}" + "".join(f"{figure:>14}" for figure in figures) + f"  {loss.codes}")
    print(
        "\nnever asked: of the server, in all runs together; missing, twice: in the output; asked again: all URLs,\n"
        "robots.txt left out"
    )


if __name__ == "__main__":
    main(sys.argv[1:])

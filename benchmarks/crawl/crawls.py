"""The crawlers that are compared, each as the command that its user would type."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crawler.tools.bench.process_cost import run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

SPIDER = HERE / "peer_scrapy.py"

Command = Callable[[Path, Path], list[str]]
Pages = Callable[[Path], list[str]]


@dataclass(frozen=True, slots=True)
class Crawler:
    """``command`` makes the command line from the seeds file and a directory of its own, ``pages`` reads the HTML
    pages out of its output there, repeated ones as often as they stand there."""

    name: str
    command: Command
    pages: Pages


def ours() -> Crawler:
    def command(seeds: Path, home: Path) -> list[str]:
        flags = "--allow-private --delay 0 --per-host 16 --concurrency 64 --quiet"
        return [sys.executable, "-m", "crawler", str(seeds), "--job", str(home / "job"), *flags.split()]

    return Crawler("crawler", command, lambda home: _html_rows(home / "job" / "pages.jsonl"))


def floor() -> Crawler:
    def command(seeds: Path, home: Path) -> list[str]:
        return [sys.executable, "-m", "benchmarks.crawl.floor", str(seeds), str(home / "pages.txt")]

    return Crawler(
        "floor", command, lambda home: [line.split()[0] for line in (home / "pages.txt").read_text().splitlines()]
    )


def undisturbed(seeds: Path, home: Path) -> set[str]:
    """The pages that the floor finds when nobody kills it."""
    own = home / "floor"
    own.mkdir()
    crawler = floor()
    run(crawler.command(seeds, own), own / "log", ROOT)
    return set(crawler.pages(own))


SCHEDULERS = {
    "Scrapy with JOBDIR": {},
    "Scrapy with SQLite": {
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleLifoSQLiteQueue",
        "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleFifoSQLiteQueue",
    },
    "Scrapy on ours": {
        "SCHEDULER": "crawler.scrapy.Scheduler",
        "DUPEFILTER_CLASS": "crawler.scrapy.DupeFilter",
    },
}


def scrapy_with(python: Path, name: str) -> Crawler:
    """The same spider, with one of the ways in which Scrapy keeps requests on the disk."""
    plain = scrapy(python, job=True)
    settings = [word for key, value in SCHEDULERS[name].items() for word in ("-s", f"{key}={value}")]
    return Crawler(name, lambda seeds, home: [*plain.command(seeds, home), *settings], plain.pages)


def scrapy(python: Path, *, job: bool) -> Crawler:
    def command(seeds: Path, home: Path) -> list[str]:
        words = [str(python), "-m", "scrapy", "runspider", str(SPIDER), "-a", f"seeds={seeds}"]
        kept = ["-s", f"JOBDIR={home / 'job'}"] if job else []
        return [*words, "-o", str(home / "pages.jsonl"), *kept]

    name = "Scrapy with JOBDIR" if job else "Scrapy"
    return Crawler(name, command, lambda home: _html_rows(home / "pages.jsonl"))


def peer_versions(python: Path) -> str:
    """What the peer is made of, from its own interpreter. Raises CalledProcessError when it has no Scrapy."""
    code = (
        "import importlib.metadata as m, platform; print('python', platform.python_version(), end='');"
        "[print(',', n, m.version(n), end='') for n in ('scrapy', 'twisted', 'lxml', 'parsel', 'w3lib', 'queuelib')]"
    )
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout


def _html_rows(path: Path) -> list[str]:
    urls = []
    # A line without its end is what a kill left of a buffer.
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            row = json.loads(line)
            if row["status"] == 200 and (row["content_type"] or "").startswith("text/html"):
                urls.append(row["url"])
    return urls

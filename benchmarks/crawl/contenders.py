"""The crawlers that are measured on a synthetic web, each as a command and a reader of its output."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from crawler.tools.bench import synthetic_crawl
from crawler.tools.bench.crawl_truth import READABLE, Found
from crawler.tools.bench.synthetic_crawl import Contender, records

HERE = Path(__file__).resolve().parent
OURS, FLOOR = "crawler", "floor"
SAMPLES = "samples.json"  # in the directory of our crawl


def ours(*more: str) -> Contender:
    """This program, with ``more`` flags. Its stages are sampled."""
    return _confined(synthetic_crawl.ours(*more), sampled=True)


def floor() -> Contender:
    """aiohttp and a parser of HTML around a set."""

    def words(seeds: Path, home: Path) -> list[str]:
        return ["benchmarks.crawl.floor", str(seeds), str(home / "pages.txt")]

    return _confined(Contender(FLOOR, words, lambda home: _lines(home / "pages.txt"), READABLE))


def peers() -> tuple[list[Contender], list[str]]:
    """Return the peers that are installed, and the names of those that are not."""
    there, missing = [], []
    for name, make in (("scrapy", _scrapy), ("crawlee", _crawlee)):
        if importlib.util.find_spec(name) is None:
            missing.append(name)
        else:
            there.append(_confined(make()))
    return there, missing


def _confined(contender: Contender, *, sampled: bool = False) -> Contender:
    """The same crawl in a process that reaches nothing but this machine."""

    def words(seeds: Path, home: Path) -> list[str]:
        samples = str(home / SAMPLES) if sampled else "-"
        return ["benchmarks.crawl.loopback_run", samples, *contender.words(seeds, home)]

    return replace(contender, words=words)


def _scrapy() -> Contender:
    def words(seeds: Path, home: Path) -> list[str]:
        spider = ["scrapy", "runspider", str(HERE / "peer_scrapy.py"), "-a", f"seeds={seeds}"]
        return [*spider, "-o", str(home / "pages.jsonl"), "-s", f"JOBDIR={home / 'job'}"]

    return Contender("scrapy", words, lambda home: records(home / "pages.jsonl"), READABLE)


def _crawlee() -> Contender:
    def words(seeds: Path, home: Path) -> list[str]:
        return ["benchmarks.crawl.peer_crawlee", str(seeds), str(home / "pages.jsonl")]

    return Contender("crawlee", words, lambda home: records(home / "pages.jsonl"), READABLE)


def _lines(path: Path) -> Iterator[Found]:
    with path.open() as lines:
        for line in lines:
            url, seconds = line.split()
            yield Found(url, 200, float(seconds))

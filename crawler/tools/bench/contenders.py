"""The crawlers that are measured on a synthetic web, each as a command and a reader of its output."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from crawler.tools.bench.crawl_truth import ALL, READABLE, Found
from crawler.tools.bench.synthetic_web import Kind

HERE = Path(__file__).resolve().parent
OURS, FLOOR = "crawler", "floor"
_FLAGS = ("--allow-private", "--delay", "0", "--per-host", "16", "--concurrency", "64", "--quiet")


class Contender(Struct, frozen=True):
    """``words(seeds, home)`` are the module and the arguments of a crawl that writes to ``home``, ``found(home)`` what
    it found, of these ``kinds``."""

    name: str
    words: Callable[[Path, Path], list[str]]
    found: Callable[[Path], Iterator[Found]]
    kinds: Kind = READABLE

    def command(self, seeds: Path, home: Path) -> list[str]:
        """Return the command of a run, which samples its stages only if they are ours."""
        samples = str(home / "samples.json") if self.name == OURS else "-"
        return [sys.executable, "-P", "-m", "crawler.tools.bench.loopback_run", samples, *self.words(seeds, home)]


def ours(*, archive: bool = False) -> Contender:
    """This program, with everything on that is on by default, and with a web archive if asked for."""
    flags = (*_FLAGS, "--output", "warc") if archive else _FLAGS

    def words(seeds: Path, home: Path) -> list[str]:
        return ["crawler", "crawl", str(seeds), "--job", str(home / "job"), *flags]

    return Contender(OURS, words, lambda home: _records(home / "job" / "pages.jsonl"), ALL)


def floor() -> Contender:
    """aiohttp and a parser of HTML around a set."""

    def words(seeds: Path, home: Path) -> list[str]:
        return ["crawler.tools.bench.floor", str(seeds), str(home / "pages.txt")]

    return Contender(FLOOR, words, lambda home: _lines(home / "pages.txt"))


def peers() -> tuple[list[Contender], list[str]]:
    """Return the peers that are installed, and the names of those that are not."""
    there, missing = [], []
    for name, make in (("scrapy", _scrapy), ("crawlee", _crawlee)):
        if importlib.util.find_spec(name) is None:
            missing.append(name)
        else:
            there.append(make())
    return there, missing


def _scrapy() -> Contender:
    def words(seeds: Path, home: Path) -> list[str]:
        spider = ["scrapy", "runspider", str(HERE / "peer_scrapy.py"), "-a", f"seeds={seeds}"]
        return [*spider, "-o", str(home / "pages.jsonl"), "-s", f"JOBDIR={home / 'job'}"]

    return Contender("scrapy", words, lambda home: _records(home / "pages.jsonl"))


def _crawlee() -> Contender:
    def words(seeds: Path, home: Path) -> list[str]:
        return ["crawler.tools.bench.peer_crawlee", str(seeds), str(home / "pages.jsonl")]

    return Contender("crawlee", words, lambda home: _records(home / "pages.jsonl"))


def _records(path: Path) -> Iterator[Found]:
    """What the crawler made up to learn how a host says 404 is no URL of the web."""
    with path.open("rb") as lines:
        for line in lines:
            row = json.loads(line)
            if not row.get("probe"):
                yield Found(row["url"], row["status"], row.get("seconds"))


def _lines(path: Path) -> Iterator[Found]:
    with path.open() as lines:
        for line in lines:
            url, seconds = line.split()
            yield Found(url, 200, float(seconds))

"""Measures a crawl here: generated pages on this machine, crawled as fast as possible.

One process serves the web and another crawls it, so that the figures are of the crawl alone. Nothing leaves the
machine.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from crawler.bench.child import Cost, module_environment, run
from crawler.bench.made_pages import make_files

# The sites are ports of one name, and each is to have slots of its own.
_SITES = ("--host-key", "origin", "--per-host", "16")
FLAGS = ("--allow-private", "--delay", "0", *_SITES, "--concurrency", "64", "--quiet")


class MadeCrawlError(Exception):
    """The crawl or its web did not finish. The text is one line for the user."""


class MadeCrawl(Struct, frozen=True):
    """A crawl that finished."""

    pages: int  # fetched
    repeated: int  # records of a URL that already has one
    cost: Cost

    @property
    def milliseconds(self) -> float:
        """CPU time per page."""
        return self.cost.cpu * 1000 / self.pages

    @property
    def pages_a_second(self) -> float:
        return self.pages / self.cost.wall


def measure_crawl(home: Path, pages: int) -> MadeCrawl:
    """Generate ``pages`` pages in ``home``, serve them and crawl them. Raises MadeCrawlError, OSError."""
    roots = [root for root, _ in make_files(home / "web", pages=pages)]
    job, log, seeds = home / "job", home / "log", home / "seeds.txt"
    with _served(roots) as urls:
        seeds.write_text("".join(f"{url}\n" for url in urls), "ascii")
        command = [sys.executable, "-P", "-m", "crawler", "crawl", str(seeds), "--job", str(job), *FLAGS]
        cost = run(command, log, home, env=module_environment())
    if cost.code:
        last = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
        raise MadeCrawlError(f"the crawl ended with exit code {cost.code}: {' '.join(last)}")
    fetched, records = set(), 0
    for line in (job / "pages.jsonl").read_bytes().splitlines():
        record = json.loads(line)
        if record["outcome"] == "fetched":
            records += 1
            fetched.add(record["url"])
    return MadeCrawl(len(fetched), records - len(fetched), cost)


@contextlib.contextmanager
def _served(roots: list[Path]) -> Iterator[list[str]]:
    """Yield the URLs of the directories."""
    command = [sys.executable, "-P", "-m", "crawler.bench.file_server", *map(str, roots)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=module_environment()
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            urls = [server.stdout.readline().strip() for _ in roots]
            if not all(urls):
                raise MadeCrawlError("the server of the made web ended at once")
            yield urls
        finally:
            # The server's standard input ends here. A server that hangs must not block us.
            server.kill()

"""Crawl directories, made of ordinary jobs of small real sites: each site is crawled in the partition that its host
belongs to."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.base.settings.parts import Settings
from crawler.job.crawl_file import CrawlFile, begin_crawl_file, partition_directory
from crawler.job.identity import read_identity, shaping_of, write_identity
from crawler.job.partition.placement import Placement
from tests.program import Ran, crawler
from tests.site import Site, tree

OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--quiet", "--capacity", "16", "--fpp", "1e-3")
OPTIONS += ("--no-ledger",)
PARTITIONS = 4
PAGES = {0: 12, 1: 30, 3: 7}  # of the site of each partition; number 2 has none
SECRET = bytes(range(16))


def address_of(number: int) -> str:
    """An address whose URLs belong to a partition."""
    placement = Placement(SECRET, PARTITIONS)
    return next(name for last in range(1, 255) if placement.of_host(name := f"127.0.0.{last}") == number)


@dataclass(frozen=True)
class Crawled:
    """A crawl directory and the sites of its partitions."""

    directory: Path
    sites: dict[int, Site]

    def part(self, number: int) -> Path:
        return partition_directory(self.directory, number)

    @property
    def parts(self) -> dict[int, Path]:
        return {number: self.part(number) for number in self.sites}

    def beside(self, number: int) -> Path:
        """A place for a job that is shown as a partition: ``crawler crawl`` refuses those of a crawl."""
        place = self.directory.with_name(f"{self.directory.name}-{number:02}")
        if not self.part(number).is_symlink():
            self.part(number).symlink_to(place)
        return place

    def run(self, number: int, *options: object) -> Ran:
        """Crawl the site of a partition."""
        return crawler(self.sites[number].url("/"), "--job", self.beside(number), *OPTIONS, *options)

    def urls(self) -> list[str]:
        return [site.url(path) for number, site in self.sites.items() for path in tree(PAGES[number])]


def begin(directory: Path) -> None:
    """As a crawl of partitions begins."""
    crawl = CrawlFile("crawl", secrets.token_hex(16), PARTITIONS, SECRET, "1", shaping_of(Settings()))
    begin_crawl_file(RealDisk(), directory, crawl)


@contextlib.contextmanager
def crawled(directory: Path, *options: object, limits: dict[int, int] | None = None) -> Iterator[Crawled]:
    """A crawl whose partitions have crawled their sites, or stopped at a limit of pages."""
    with contextlib.ExitStack() as up:
        sites = {
            number: up.enter_context(Site(tree(pages), address=(address_of(number), 0)))
            for number, pages in PAGES.items()
        }
        made = Crawled(directory, sites)
        begin(directory)
        for number in sites:
            limit = (limits or {}).get(number)
            ran = made.run(number, *options, *(() if limit is None else ("--max-pages", str(limit))))
            assert ran.code == 0, ran.err
            place = made.beside(number)
            made.part(number).unlink()
            place.rename(made.part(number))
            adopt(made.part(number), number)
        yield made


def adopt(job: Path, number: int) -> None:
    """Make a job a partition of a crawl, which no run of a job takes for its own any more."""
    identity = replace(read_identity(job), partition=(number, PARTITIONS))
    write_identity(RealDisk(), job, identity)


def told(*words: object) -> Any:
    """What a command says as JSON."""
    ran = crawler(*words, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def tree_of(directory: Path) -> dict[str, tuple[int, int]]:
    """All files below a directory, with their sizes and times: looking changes none."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}

"""`crawler split`, judged by the site's own log, the records and ``verify`` of all partitions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from crawler.base.disk import RealDisk
from crawler.base.kv import Family
from crawler.job.bucket.address import open_objects
from crawler.job.bucket.layout import (
    read_crawl,
    read_shape,
)
from crawler.job.bucket.objects import Objects
from crawler.job.bucket.restoration import restore
from crawler.job.crawl_file import begin_crawl_file, partition_directories, partition_directory
from crawler.job.recovery import stored_counters
from crawler.job.store.rocks import RocksStore
from tests.cluster.chain import HOSTS, Chain
from tests.jobs import verify
from tests.program import Ran, crawler

WORDS = ("--scope", "any", "--allow-private", "--ignore-robots", "--delay", "0", "--quiet", "--output", "warc,links")
CHAINS, LENGTH = 12, 12


class Crawl:
    """A crawl in a store."""

    def __init__(self, base: Path, chain: Chain) -> None:
        self.base = base
        self.chain = chain
        self.address = f"file:{base / 'store'}"

    @property
    def objects(self) -> Objects:
        return open_objects(self.address)

    def run(self, name: str, *more: str | Path, pages: int | None = None) -> Ran:
        """Crawl in one process, to its end or for so many pages."""
        limit = () if pages is None else ("--max-pages", str(pages))
        return crawler(*self.chain.seeds, "--store", self.address, "--job", self.base / name, *WORDS, *limit, *more)

    def split(self, partitions: int, *more: str, env: dict[str, str] | None = None) -> Ran:
        return crawler("split", self.address, "--partitions", str(partitions), *more, env=env)

    def restored(self, name: str = "restored") -> Path:
        """All partitions, as a directory in which the crawl can go on."""
        directory, objects = self.base / name, self.objects
        crawl, shape = read_crawl(objects), read_shape(objects)[1]
        assert crawl is not None
        assert shape is not None
        file = begin_crawl_file(RealDisk(), directory, replace(shape.file, id="00" * 16))
        for number in range(file.partitions):
            restore(objects, crawl.sealing, number, partition_directory(directory, number), RealDisk())
        return directory

    def ends(self, directory: Path) -> None:
        """It goes on there to its end: no page was asked for twice, none is missing, none stands twice."""
        assert verify(directory).code == 0, verify(directory)
        ran = crawler(*self.chain.seeds, "--job", directory, *WORDS, "--partitions", "1")
        assert ran.code == 0, ran.err
        assert self.chain.asked == Counter(dict.fromkeys(self.chain.pages, 1))
        assert Counter(row["url"] for row in records(directory)) == self.chain.asked
        assert verify(directory).code == 0, verify(directory)


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    with Chain(CHAINS, LENGTH) as chain:
        yield Crawl(tmp_path, chain)


def records(directory: Path) -> list[dict[str, Any]]:
    lines = (line for path in directory.rglob("pages.jsonl") for line in path.read_bytes().splitlines())
    return [json.loads(line) for line in lines]


def counts(jobs: list[Path], scratch: Path) -> dict[str, Any]:
    """The counters of jobs, added up."""
    found: Counter[str] = Counter()
    for number, job in enumerate(jobs):
        (scratch / f"look-{number}").mkdir(parents=True)
        store = RocksStore(job / "store", secondary=scratch / f"look-{number}")
        found.update({key: value for key, value in asdict(stored_counters(store)).items() if isinstance(value, int)})
        store.close()
    return {key: value for key, value in found.items() if key not in {"sequence", "next_number", "trap_counts"}}


def one_line(ran: Ran, code: int = 2) -> str:
    assert (ran.code, ran.out) == (code, ""), ran
    (line,) = ran.err.splitlines()
    return line


@pytest.mark.parametrize("kind", ["directory", "moto"])
def test_a_crawl_that_is_half_done_is_split_twice(
    crawl: Crawl, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "moto":
        crawl.address = f"{request.getfixturevalue('bucket')}/of/{tmp_path.name}"
    config = tmp_path / "ledger.toml"
    config.write_text("[seen]\nledger = true\n[recrawl]\nenabled = true\n")
    assert crawl.run("job", "--config", config, pages=60).code == 0
    before = counts([tmp_path / "job"], tmp_path / "looks")
    (done, *_) = records(tmp_path / "job")
    for partitions in (2, 6):
        ran = crawl.split(partitions)
        assert (ran.code, ran.err) == (0, "")
        lines = ran.out.splitlines()
        assert len(lines) == partitions + 1
        assert sum(int(line.split()[2]) for line in lines[:-1]) == before["urls_admitted"] - 60
        directory = crawl.restored(f"in-{partitions}")
        assert verify(directory).code == 0, verify(directory)
        jobs = partition_directories(directory)
        assert len(jobs) == partitions
        assert counts(jobs, tmp_path / f"looks-{partitions}") == before
        hosts = [set(rows(job, Family.HOSTS)) for job in jobs]
        assert sum(map(len, hosts)) == len(set().union(*hosts)) == HOSTS
        known = json.loads(crawler("explain", directory, done["url"], "--json").out)
        assert (known["record"], known["seen"]["known"]) == (done, True)
    crawl.ends(directory)


def rows(job: Path, family: Family) -> list[bytes]:
    store = RocksStore(job / "store")
    found = [key for key, _ in store.rows(family)]
    store.close()
    return found

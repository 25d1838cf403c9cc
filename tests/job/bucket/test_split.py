"""`crawler split`, judged by the site's own log, the records and ``verify`` of all partitions."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from crawler.base.disk import CRASH_AT, RealDisk
from crawler.base.kv import Family
from crawler.base.settings.parts import PartitionSettings, Settings
from crawler.cluster.crawl_directory import new_crawl
from crawler.cluster.member_options import Crawl as Member
from crawler.job.bucket.address import open_objects
from crawler.job.bucket.layout import CRAWL, CrawlObject, Shape, encode, read_shape, shape_key, standing
from crawler.job.bucket.objects import Objects
from crawler.job.bucket.ownership import Newcomer, new_log, release, take
from crawler.job.bucket.snapshots import Held, Snapshots
from crawler.job.crawl_file import partition_directories
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import Platform
from crawler.job.recovery import stored_counters
from crawler.job.store.rocks import RocksStore
from crawler.url.urls.canonicaliser import Canonical
from tests.cluster.chain import HOSTS, Chain
from tests.crash_points import SPLIT_POINTS
from tests.jobs import stopped_job, verify
from tests.program import Ran, crawler, running, wait_until

WORDS = ("--scope", "any", "--allow-private", "--ignore-robots", "--delay", "0", "--quiet", "--output", "warc,links")
CHAINS, LENGTH = 20, 5


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
        """What the store has, made a directory in which the crawl can go on."""
        ran = crawler("restore", self.address, self.base / name)
        assert (ran.code, ran.err) == (0, "")
        assert verify(self.base / name).code == 0, verify(self.base / name)
        return self.base / name

    def ends(self, processes: int = 2) -> None:
        """It goes on to its end: no page was asked for twice, none is missing, none stands twice."""
        directory, store = self.base / "to-the-end", ("--store", self.address)
        # Without seeds: what is not in the store is not found.
        words = ("-", *store, "--job", directory, *WORDS, "--partitions", str(processes))
        ran = crawler(*words, stdin="")
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
    before, seen = counts([tmp_path / "job"], tmp_path / "looks"), seen_in(tmp_path / "job")
    (done, *_) = records(tmp_path / "job")
    for partitions in (2, 4):
        ran = crawl.split(partitions)
        assert (ran.code, ran.err) == (0, "")
        lines = ran.out.splitlines()
        assert len(lines) == partitions + 1
        assert sum(int(line.split()[2]) for line in lines[:-1]) == before["urls_admitted"] - 60
        directory = crawl.restored(f"in-{partitions}")
        jobs = partition_directories(directory)
        assert len(jobs) == partitions
        assert counts(jobs, tmp_path / f"looks-{partitions}") == before
        assert seen_in(directory) == pytest.approx(seen, abs=partitions / 2)  # each sample is rounded
        hosts = [set(rows(job, Family.HOSTS)) for job in jobs]
        assert sum(map(len, hosts)) == len(set().union(*hosts)) == HOSTS
        known = json.loads(crawler("explain", directory, done["url"], "--json").out)
        assert (known["record"], known["seen"]["known"]) == (done, True)
    crawl.ends()


def seen_in(directory: Path) -> list[float]:
    """How many URLs are seen, and how many are watched, as ``stats`` says."""
    seen = json.loads(crawler("stats", directory, "--json").out)["seen"]
    return [seen["count"], seen["count_estimated"], seen["fpp_measured"]["sample"]]


def rows(job: Path, family: Family) -> list[bytes]:
    store = RocksStore(job / "store")
    found = [key for key, _ in store.rows(family)]
    store.close()
    return found


@pytest.mark.parametrize("point", SPLIT_POINTS)
def test_killed_at_each_step(crawl: Crawl, tmp_path: Path, point: str) -> None:
    assert crawl.run("job", pages=60).code == 0
    assert crawl.split(3, env={CRASH_AT: point}).code == -signal.SIGKILL
    if point != "split.shaped":
        again = crawl.restored("as-it-was")
        assert {row["url"] for row in records(again)} == {row["url"] for row in records(tmp_path / "job")}
        assert "add --take-over" in one_line(crawl.split(3))
        assert crawl.split(2, "--take-over").code == 0
    crawl.ends(1)


def test_who_goes_on_with_the_crawl_meanwhile_keeps_it(crawl: Crawl, tmp_path: Path) -> None:
    assert crawl.run("job", pages=60).code == 0
    words = ("split", crawl.address, "--partitions", "2")
    with running(*words, env={CRASH_AT: "split.stored:1:SIGSTOP"}) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it stops")
        assert crawl.run("other", pages=90).code == 0
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 2
        assert b"was not split" in process.stderr.read()
    assert read_shape(crawl.objects) == (0, None)
    assert crawl.run("third").code == 0
    assert crawl.chain.asked == Counter(dict.fromkeys(crawl.chain.pages, 1))
    assert verify(tmp_path / "third").code == 0


def test_a_running_crawl_keeps_its_partitions(crawl: Crawl, tmp_path: Path) -> None:
    words = (*crawl.chain.seeds, "--store", crawl.address, "--job", tmp_path / "job", *WORDS, "--delay", "0.2")
    with running(*words) as process:
        wait_until(lambda: standing(crawl.objects, 0).owner is not None and sum(crawl.chain.asked.values()) > 5, "runs")
        owner = standing(crawl.objects, 0)
        assert "is running at" in one_line(crawl.split(2, "--take-over"))
        assert standing(crawl.objects, 0) == owner
        assert process.poll() is None


def test_a_directory_from_before_the_split_names_the_way_on(crawl: Crawl) -> None:
    assert crawl.run("job", pages=60).code == 0
    words = ("job", "--partitions", "2")
    said = one_line(crawl.run(*words))
    assert (f"crawler split {crawl.address}" in said, "empty directory" in said) == (True, True)
    assert crawl.split(2).code == 0
    assert one_line(crawl.run(*words)) == said
    crawl.ends(1)


def test_what_partitions_have_sent_each_other_goes_to_the_new_ones(crawl: Crawl, tmp_path: Path) -> None:
    """Partition 0 of 2 was given all seeds, and nothing has come to partition 1 yet."""
    settings = Settings(partitions=PartitionSettings(count=2))
    file, made, objects = new_crawl(settings), CrawlObject.new(), crawl.objects
    objects.put(CRAWL, encode("crawl", made))
    objects.put(shape_key(1), encode("shape", Shape.of(file)))
    log, urls = new_log(objects, made), [Canonical(url, url) for url in crawl.chain.seeds]
    own = Member.of(tmp_path, file).settings_of_partition(settings)
    for number in range(2):
        directory, state = tmp_path / f"given-{number}", tmp_path / f"given-{number}" / "state"
        held = take(objects, made, number, directory, Newcomer(log, RealDisk(), 1.0))
        assert held is not None
        router = PartitionRouter(number, file.placement)
        job = Job(directory, own, 1.0, Platform(line=1), router=router)
        if not number:
            job.admit(Found(urls, 0, seed=True))
            assert router.outbox.waiting()
        state.mkdir()
        asyncio.run(job.hold_still(state))
        job.close()
        Snapshots(objects, number, held.epoch).write(Held(state, directory, log.worker), 1.0)
        release(objects, number, held.epoch, 0)
    assert crawl.split(4).code == 0
    crawl.restored()
    crawl.ends()


def test_what_failed_before_is_visited_again_by_the_partition_that_it_belongs_to(crawl: Crawl, tmp_path: Path) -> None:
    assert crawl.run("job").code == 0
    assert crawl.split(3).code == 0
    directory = crawl.restored()
    ran = crawler("retry", directory, *crawl.chain.seeds, "--no-wait")
    assert ran.code == 0, ran
    assert crawler("-", "--job", directory, *WORDS, "--partitions", "1", stdin="").code == 0
    assert {url for url, times in crawl.chain.asked.items() if times == 2} == set(crawl.chain.seeds)
    assert verify(directory).code == 0, verify(directory)
    for job in partition_directories(directory):
        shutil.rmtree(job / "seen")
    assert verify(directory).code == 0, "the journal has all keys"
    store = RocksStore(job / "store")
    batch = store.batch()
    batch.put(Family.HOSTS, b"h.test:80", b"damaged")
    store.write(batch)
    store.close()
    assert "was split from" in one_line(crawler("repair", directory))


def test_what_is_refused_changes_nothing(crawl: Crawl, tmp_path: Path) -> None:
    assert "does not exist" in one_line(crawl.split(2))
    crawl.address = f"file:{tmp_path / 'empty'}"
    (tmp_path / "empty").mkdir()
    assert "and no crawl" in one_line(crawl.split(2))
    with stopped_job(tmp_path, 10) as stopped:
        assert crawler("backup", stopped.job, tmp_path / "backup").code == 0
        assert "not a crawl" in one_line(crawler("split", f"file:{tmp_path / 'backup'}", "--partitions", "2"))
        crawl.address = f"file:{tmp_path / 'one-host'}"
        words = (stopped.site.url("/"), "--store", crawl.address, "--job", tmp_path / "one", *WORDS)
        assert crawler(*words, "--max-pages", "9").code == 0
        before = [path for path in (tmp_path / "one-host").rglob("*") if "pieces" in str(path)]
        assert "add --placed-by host" in one_line(crawl.split(2))
        assert "would not spread" in one_line(crawl.split(2, "--placed-by", "host"))
        for wrong in ("1", "0", "-4", "1025"):
            assert "times as many" in one_line(crawler("split", crawl.address, f"--partitions={wrong}"))
        assert read_shape(crawl.objects) == (0, None)
        assert set(before) <= set((tmp_path / "one-host").rglob("*"))
        assert crawler(*words).code == 0
        assert len(stopped.site.pages_asked()) == len(set(stopped.site.pages_asked())) + 10

"""A running crawl rebuilds its seen-set's chain; a loss of power at any moment costs the work and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import SeenSettings, Settings
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import encode_admitted, sequence_key
from crawler.job.seen_compaction import Compaction
from crawler.seen.exact.seen import make_seen
from crawler.seen.filters import SEED_ZERO, ScalableBloomFilter
from crawler.url.urls.canonicaliser import Canonical
from tests.durability.power import SETTINGS, Inline
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore
from tests.program import crawler
from tests.site import Site, tree

FINE = replace(SETTINGS, seen=SeenSettings(fpp=1e-6, capacity=16))


def found(numbers: list[int]) -> list[Canonical]:
    return [Canonical(f"http://h.test/{number}", f"http://h.test/{number}") for number in numbers]


def figures(job: Job) -> dict[str, Any]:
    return dict(job.seen.statistics())


def holds(job: Job, digests: bytes) -> bool:
    assert isinstance(job.seen, ScalableBloomFilter)
    return all(job.seen.contains_digests(digests))


class Lives:
    """A job that admits, compacts, syncs and writes generations at random, and loses its power now and then."""

    def __init__(self, seed: int, directory: Path, settings: Settings = FINE) -> None:
        self.settings = settings
        self.chance = random.Random(seed)
        self.directory = directory
        self.store = FaultyStore()
        self.compacted = self.resumed_compacted = self.mistaken = 0

    def live(self) -> None:
        for _ in range(6):
            disk = FaultyDisk(self.chance, cut_after=self.chance.choice([None, self.chance.randrange(1, 80)]))
            with contextlib.suppress(PowerCutError):
                asyncio.run(self._life(disk))
            disk.lose_power()
            self.store = self.store.lose_power(self.chance)

    async def _life(self, disk: FaultyDisk) -> None:
        job = Job(self.directory / "job", self.settings, 0.0, Platform(disk, lambda _: self.store, Inline))
        with closing(job):
            compactions = figures(job)["compactions"]
            self.resumed_compacted += compactions > 0
            self._agrees(job)
            for _ in range(self.chance.randint(5, 60)):
                match self.chance.randrange(8):
                    case 0:
                        await job.sync()
                    case 1:
                        await job.checkpoint(0.0)
                    case 2 | 3 | 4:
                        job.compact()
                        job.decide(self.chance.randrange(1, 60), 0.0)
                    case _:
                        job.admit(Found(found([self.chance.randrange(3_000) for _ in range(20)]), 0))
                self._agrees(job)
            self.compacted += figures(job)["compactions"] - compactions

    def _agrees(self, job: Job) -> None:
        journal = b"".join(value for _, value in self.store.scan(Family.ADMITTED, b""))
        assert len(job.seen) == len(journal) // 16 == job.counters.urls_admitted
        assert holds(job, journal)
        assert sum(part["fpp_design"] for part in figures(job)["slices"]) < self.settings.seen.fpp
        if job.ledger is not None:
            digests = sorted(journal[at : at + 16] for at in range(0, len(journal), 16))
            assert sorted(row[8:] for row, _ in self.store.scan(Family.SEEN, b"")) == digests
            assert len(set(digests)) == len(digests)
            assert job.doubted == len(self.store.scan(Family.LEDGER, b""))
            self.mistaken = max(self.mistaken, job.ledger.counts.false_positives)


def test_what_was_admitted_is_seen_through_compactions_and_losses_of_power(tmp_path: Path) -> None:
    lives = [Lives(seed, tmp_path / str(seed)) for seed in range(12)]
    for one in lives:
        one.directory.mkdir()
        one.live()
    assert sum(one.compacted for one in lives) > 20
    assert sum(one.resumed_compacted for one in lives) > 5


def test_what_the_ledger_admits_is_in_journal_and_chain_alike(tmp_path: Path) -> None:
    """The same with a filter that errs, and a ledger that finds it out between compactions and losses of power."""
    errs = replace(FINE, seen=SeenSettings(fpp=0.3, capacity=16, ledger=True))
    lives = [Lives(seed, tmp_path / str(seed), errs) for seed in range(4)]
    for one in lives:
        one.directory.mkdir()
        one.live()
    assert sum(one.compacted for one in lives) > 6
    assert sum(one.mistaken for one in lives) > 10


def test_a_long_chain_takes_several_pieces_and_what_comes_meanwhile_is_in(tmp_path: Path) -> None:
    job = Job(tmp_path / "job", FINE, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: FaultyStore(), Inline))
    with closing(job):
        for start in range(0, 20_000, 20):
            job.admit(Found(found(list(range(start, start + 20))), 0))
        slices = len(figures(job)["slices"])
        assert slices > 8
        pieces = 0
        while len(figures(job)["slices"]) > 1:
            assert job.compact()
            job.admit(Found(found([100_000 + pieces]), 0))
            pieces += 1
        assert pieces > 3
        keys = [url.key for url in found([*range(20_000), *range(100_000, 100_000 + pieces)])]
        assert holds(job, job.seen.digests(keys))
        assert figures(job)["bits_per_url"] < 60
        assert not job.compact()


def test_nothing_is_compacted_while_a_step_is_not_written(tmp_path: Path) -> None:
    store = FaultyStore()
    job = Job(tmp_path / "job", FINE, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: store, Inline))
    with closing(job):
        job.admit(Found(found(list(range(40))), 0))
        store.fail_next_write = errno.ENOSPC
        job.admit(Found(found(list(range(40, 60))), 0))
        assert job.blocked is not None
        assert not job.compact()
        assert job.writer.write_again()
        assert job.compact()
        assert figures(job)["compactions"] == 1
        assert holds(job, job.seen.digests([url.key for url in found(list(range(60)))]))


@pytest.mark.parametrize("in_journal", [30, 200])
def test_a_journal_that_holds_other_keys_leaves_the_chain_as_it_is(in_journal: int) -> None:
    store = FaultyStore()
    seen = make_seen(SeenSettings(capacity=16), store, SEED_ZERO)
    seen.restore(SEED_ZERO.digest_keys([str(number) for number in range(40)]))
    batch = store.batch()
    event = encode_admitted(SEED_ZERO.digest_keys([str(number) for number in range(in_journal)]))
    batch.put(Family.ADMITTED, sequence_key(0), event)
    store.write(batch)
    said: list[str] = []
    compaction = Compaction(seen, store, 2, said.append)
    while compaction.advance():
        pass
    assert len(said) == 1
    assert "stays a chain of 2 slices" in said[0]
    assert seen.statistics()["compactions"] == 0


def test_a_crawl_compacts_while_it_runs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[politeness]\nper_host = 8\n[seen]\ncapacity = 8\nfpp = 1e-9\n")
    options = ("--job", tmp_path / "job", "--config", tmp_path / "config.toml", "--allow-private", "--delay", "0")
    with Site(tree(300), latency=0.02) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        first = crawler(tmp_path / "seeds.txt", *options, "--max-pages", "150")
        assert first.code == 0, first.err
        stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
        assert stats["seen"]["compactions"] > 0
        assert len(stats["seen"]["slices"]) <= 2
        assert crawler(tmp_path / "seeds.txt", *options).code == 0
    rows = [json.loads(line)["url"] for line in (tmp_path / "job" / "pages.jsonl").read_text().splitlines()]
    assert sorted(rows) == sorted(site.url(path) for path in tree(300))
    checked = crawler("verify", tmp_path / "job")
    assert checked.code == 0, checked.out

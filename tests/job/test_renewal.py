"""A crawl whose generations name a seen-set stored before: whatever happens, it comes back as it was."""

from __future__ import annotations

import asyncio
import contextlib
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import SeenSettings, Settings
from crawler.job.checkpoint.generations import Renewal
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.url.urls.canonicaliser import Canonical
from tests.durability.power import SETTINGS, Inline
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore
from tests.jobs import PAGES, flip, manifests, rows, stopped_job, verify

KINDS: dict[str, SeenSettings] = {
    "one slice": SeenSettings(fpp=1e-6, capacity=10_000),
    "chain": SeenSettings(fpp=1e-6, capacity=16, compact_slices=0),
    "compacted": SeenSettings(fpp=1e-6, capacity=16),
    "overfull": SeenSettings(kind="bloom", fpp=0.01, capacity=64),
    "classic": SeenSettings(kind="bloom", fpp=1e-6, capacity=10_000, layout="classic"),
    "counting": SeenSettings(kind="counting", fpp=1e-6, capacity=100),
    "cuckoo": SeenSettings(kind="cuckoo", fpp=1e-6, capacity=100),
    "digest": SeenSettings(kind="digest", capacity=100),
    "bitmap": SeenSettings(kind="bitmap", fpp=0.01, capacity=500),
    "exact": SeenSettings(kind="exact", fpp=0.01, capacity=100),
    "ledger": SeenSettings(fpp=0.05, capacity=100, ledger=True),
}


# Store again only what has another shape, and after many keys.
SELDOM = Renewal(few_bytes=0, bytes_per_key=0, most_keys=300)


def found(numbers: list[int]) -> list[Canonical]:
    return [Canonical(f"http://h.test/{number}", f"http://h.test/{number}") for number in numbers]


def stored(job: Job) -> tuple[Any, dict[str, bytes]]:
    """All of the seen-set; how often a slice was replaced does not tell what is in it."""
    shot = job.seen.snapshot()
    state = shot.state.get("front", shot.state)
    assert isinstance(state, dict)
    for part in state["slices"]:  # type: ignore[union-attr]
        assert isinstance(part, dict)
        for gone in ("segment", "revision", "stash"):
            part.pop(gone, None)
    return state, {segment.name.partition("-")[0]: bytes(segment.buffer) for segment in shot.segments}


class Lives:
    """A job at which everything happens in any order, that is killed or loses its power now and then."""

    def __init__(self, seed: int, directory: Path, seen: SeenSettings) -> None:
        self.settings: Settings = replace(SETTINGS, seen=seen)
        self.chance = random.Random(seed)
        self.directory = directory
        self.store = FaultyStore()
        self.anew = self.again = self.replayed = 0

    def opened(self, disk: FaultyDisk) -> Job:
        return Job(self.directory / "job", self.settings, 0.0, Platform(disk, lambda _: self.store, Inline, SELDOM))

    def live(self) -> None:
        for _ in range(5):
            disk = FaultyDisk(self.chance, cut_after=self.chance.choice([None, self.chance.randrange(1, 120)]))
            try:
                asyncio.run(self._life(disk))
            except PowerCutError:
                disk.lose_power()
                self.store = self.store.lose_power(self.chance)

    async def _life(self, disk: FaultyDisk) -> None:
        with closing(self.opened(disk)) as job:
            self._agrees(job)
            for _ in range(self.chance.randint(5, 60)):
                await self._step(job)
            self._agrees(job)
            # Skipped URLs are in no journal: those that were watched since the last generation would be missing.
            await self._checkpoint(job)
            for _ in range(self.chance.randint(0, 3)):
                job.admit(Found(found([self.chance.randrange(3_000)]), 0))
            before, figures, admitted = stored(job), job.seen.statistics(), job.counters.urls_admitted
            exact_watch = figures["fpp_estimated"] < 1e-5
        # Killed here: all that was written is there.
        with closing(self.opened(disk)) as taken_up:
            assert taken_up.counters.urls_admitted == admitted
            state, segments = stored(taken_up)
            assert state == before[0]
            for name, data in segments.items():
                # Where these put a key depends on those that come in one batch with it.
                if name != "watched" and self.settings.seen.kind not in ("cuckoo", "digest"):
                    assert data == before[1][name]
            after = taken_up.seen.statistics()
            if not exact_watch:
                figures["fpp_measured"] = after["fpp_measured"]
            assert after == figures
            self.replayed += 1

    async def _step(self, job: Job) -> None:
        match self.chance.randrange(8):
            case 0:
                await job.sync()
            case 1:
                await self._checkpoint(job)
            case 2 if self.settings.seen.kind in ("counting", "cuckoo", "exact"):
                job.forget([url.key for url in found([self.chance.randrange(3_000) for _ in range(5)])])
            case 2 | 3:
                while job.compact():
                    pass
                job.decide(self.chance.randrange(1, 60), 0.0)
            case _:
                job.admit(Found(found([self.chance.randrange(3_000) for _ in range(20)]), 0))
        if self.chance.random() < 0.2:  # what is lost once stays lost
            self._agrees(job)

    async def _checkpoint(self, job: Job) -> None:
        manifest = (await job.checkpoint(0.0, whole=self.chance.random() < 0.05)).manifest
        if manifest is not None:
            self.anew += manifest.seen_sequence == manifest.sequence
            self.again += manifest.seen_sequence < manifest.sequence

    def _agrees(self, job: Job) -> None:
        there: dict[bytes, None] = {}
        for _, value in self.store.scan(Family.ADMITTED, b""):
            gone = len(value) % 16 == 1
            for at in range(gone, len(value), 16):
                if gone:
                    there.pop(value[at : at + 16])
                else:
                    there[value[at : at + 16]] = None
        asked = b"".join(there)
        assert all(job.seen.might_contain_digests(asked))
        assert len(job.seen) == len(there)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seen_set_comes_back_as_it_was(tmp_path: Path, kind: str) -> None:
    lives = [Lives(seed, tmp_path / str(seed), KINDS[kind]) for seed in range(4)]
    for one in lives:
        one.directory.mkdir()
        one.live()
    assert sum(one.anew for one in lives) > 4
    assert sum(one.again for one in lives) > 4
    assert sum(one.replayed for one in lives) > 4


def opened(directory: Path, store: FaultyStore, seen: SeenSettings) -> Job:
    platform = Platform(FaultyDisk(random.Random(1)), lambda _: store, renewal=SELDOM)
    return Job(directory, replace(SETTINGS, seen=seen), 0.0, platform)


async def checkpoints(directory: Path, store: FaultyStore, seen: SeenSettings) -> Job:
    """A job whose two newest generations share a seen-set, an older one having another."""
    job = opened(directory, store, seen)
    for start in range(0, 900, 100):
        job.admit(Found(found(list(range(start, start + 100))), 0))
        assert (await job.checkpoint(0.0)).manifest is not None
    return job


async def test_skipped_urls_that_are_watched_are_told_by_each_generation(tmp_path: Path) -> None:
    store = FaultyStore()
    seen = SeenSettings(kind="bloom", fpp=0.3, capacity=900)
    job = await checkpoints(tmp_path / "job", store, seen)
    # How many keys were new, and so whether the last of these generations stored the seen-set, depends on the secret.
    await job.checkpoint(0.0, whole=True)
    job.admit(Found(found(list(range(902, 1_000))), 0))
    assert (await job.checkpoint(0.0)).manifest is not None
    measured = job.seen.statistics()["fpp_measured"]
    assert measured is not None
    assert measured["value"] > 0
    assert job.checkpointer.manifest is not None
    assert job.checkpointer.manifest.seen_sequence < job.checkpointer.manifest.sequence
    figures = job.seen.statistics()
    job.close()
    with contextlib.closing(opened(tmp_path / "job", store, seen)) as again:
        assert again.seen.statistics() == figures


async def test_a_damaged_slice_that_two_generations_share_costs_nothing_but_replay(tmp_path: Path) -> None:
    seen = SeenSettings(fpp=1e-6, capacity=10_000)
    store = FaultyStore()
    job = await checkpoints(tmp_path / "job", store, seen)
    figures = job.seen.statistics()
    job.close()
    newest, second, older = manifests(tmp_path / "job")
    (file,) = {s.file for s in newest.segments if s.name.startswith("slice")}
    assert file in {s.file for s in second.segments}
    assert file not in {s.file for s in older.segments}
    flip(tmp_path / "job" / "seen" / file, -40)
    with contextlib.closing(opened(tmp_path / "job", store, seen)) as again:
        assert again.checkpointer.manifest == older
        assert again.seen.statistics() == figures
        assert len(again.notes) == 2
        again.admit(Found(found([10_000]), 0))
        manifest = (await again.checkpoint(0.0)).manifest
        assert manifest is not None
        assert manifest.seen_sequence == manifest.sequence, "there is much to be replayed since the older one"


async def test_the_last_generation_of_an_ended_crawl_leaves_nothing_to_replay(tmp_path: Path) -> None:
    store = FaultyStore()
    with closing(await checkpoints(tmp_path / "job", store, SeenSettings(fpp=1e-6, capacity=10_000))) as job:
        before = job.checkpointer.manifest
        assert before is not None
        assert before.seen_sequence < before.sequence == job.counters.sequence
        assert (await job.checkpoint(1.0)).manifest is None, "nothing is new"
        last = (await job.checkpoint(1.0, whole=True)).manifest
        assert last is not None
        assert last.seen_sequence == last.sequence == before.sequence
        assert (await job.checkpoint(2.0, whole=True)).manifest is None


def test_a_crawl_with_a_large_filter_is_stopped_damaged_and_carried_on(tmp_path: Path) -> None:
    # Five and a half megabytes: too many to be stored each time.
    large = ("--seen", "bloom", "--capacity", "3000000")
    with stopped_job(tmp_path, 10, 20, 30) as made:
        job = tmp_path / "large"

        for limit in ("10", "20", "30"):
            assert made.resume(job, *large, "--max-pages", limit).code == 0
        newest, second = manifests(job)
        assert newest.seen_sequence == second.seen_sequence < second.sequence < newest.sequence
        assert newest.bytes < 10_000
        assert verify(job).code == 0, verify(job)
        (file,) = {s.file for s in newest.segments if s.name.startswith("slice")}
        flip(job / "seen" / file, 3_000_000)
        assert verify(job).find("generation-damaged", error=file)
        ran = made.resume(job, *large)
        assert ran.code == 0, ran.err
        assert len({row["url"] for row in rows(job)}) == len(rows(job)) == PAGES
        assert verify(job).code == 0, verify(job)
        ended = manifests(job)[0]
        assert ended.seen_sequence == ended.sequence

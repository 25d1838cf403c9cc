"""What is left after a power loss is enough: nothing is missing, nothing stands twice."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import Outcome, PageRecord
from crawler.job.verdict import Draft
from crawler.url.urls.canonicaliser import Canonical
from tests.durability.power import KEEPING, SETTINGS, live
from tests.examples import TIMES
from tests.faulty_disk import Fault, FaultyDisk
from tests.faulty_store import FaultyStore

ROUNDS = 12 * TIMES


@pytest.mark.parametrize("first", range(0, 5 * ROUNDS, ROUNDS))
def test_power_losses_lose_nothing(first: int) -> None:
    cuts = 0
    for seed in range(first, first + ROUNDS):
        life = live(seed, settings=KEEPING if seed % 2 else SETTINGS)
        cuts += life.cuts
        assert not life.missing, f"seed {seed}: {sorted(life.missing)[:5]} are on one side only"
        assert not life.twice, f"seed {seed}: {life.twice[:5]} stand twice in the output"
    assert cuts > ROUNDS, "the power was hardly ever lost: the test proves nothing"


@pytest.mark.parametrize("seed", range(3))
def test_a_life_is_the_same_each_time(seed: int) -> None:
    assert live(seed) == live(seed)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sync_fails", [False, True])
async def test_what_a_dead_process_wrote_is_made_durable_by_the_next(
    tmp_path: Path, seed: int, sync_fails: bool
) -> None:
    """It left bytes with the operating system that nobody synced, or that a sync has failed to write; a generation
    stands for them all the same."""
    disk, store = FaultyDisk(random.Random(seed)), FaultyStore()

    def taken_up() -> Job:
        return Job(tmp_path / "jobs" / "job", SETTINGS, 0.0, Platform(disk, lambda _: store))

    job = taken_up()
    urls = [f"http://h.test/{number}" for number in range(2)]
    job.admit(Found([Canonical(url, url) for url in urls], 0))
    lease = job.frontier.take(1.0)
    assert lease is not None
    assert lease.entry is not None
    job.finish(lease, Draft(PageRecord(lease.entry, Outcome.FETCHED, 1.0, 200)), 1.0)
    if sync_fails:
        disk.faults.append(Fault("sync", 2))  # the first was that of job.json
        with pytest.raises(OSError, match="Input/output error"):
            await job.sync()
    job.close()
    job = taken_up()
    assert (await job.checkpoint(0.0)).manifest is not None
    job.close()
    disk.lose_power()
    disk, store = FaultyDisk(random.Random(0)), store.lose_power(random.Random(seed))
    with closing(taken_up()) as job:
        assert (job.counters.done, job.counters.pending) == (1, 1)
        assert not job.notes


def test_the_names_of_new_directories_are_durable(tmp_path: Path) -> None:
    synced: list[Path] = []

    class Noting(FaultyDisk):
        def sync_directory(self, path: Path) -> None:
            synced.append(path)
            super().sync_directory(path)

    directory = tmp_path / "new" / "newer" / "job"
    Job(directory, SETTINGS, 0.0, Platform(Noting(random.Random(1)), lambda _: FaultyStore())).close()
    assert {tmp_path, tmp_path / "new", tmp_path / "new" / "newer", directory} <= set(synced)

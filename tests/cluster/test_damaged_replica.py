"""A replica whose files are damaged never becomes the partition, and its owner has it copied anew: in virtual time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.base.settings import OutputSettings
from crawler.cluster.partition_opening import UNOPENED, Opening
from crawler.cluster.replica_directory import ReplicaDirectory
from crawler.job.directory import IDENTITY, PAGES, SEEN, STORE, JobError, holds_job
from crawler.job.partition.replica_values import Being
from crawler.job.replica import Mark, ReplicaCodec
from crawler.job.step_log import MARK
from crawler.job.store import PartitionStore
from tests.cluster.members import SECRET, Crawling, Working
from tests.cluster.test_forgotten_partition import forget
from tests.cluster.test_promoted import assert_complete
from tests.cluster.test_replicas import begin_both, check, crawling, in_step, inodes, to_the_end, until


def cut_table(replica: Path) -> None:
    """A table of the store is shorter than it was."""
    tables = list((replica / STORE).glob("*.sst"))
    assert tables
    for table in tables:
        with table.open("r+b") as file:
            file.truncate(table.stat().st_size // 2)


def wrong_byte_in_table(replica: Path) -> None:
    """The last block of each table, which says where the others are, is not what was written."""
    for table in (replica / STORE).glob("*.sst"):
        with table.open("r+b") as file:
            file.seek(-30, 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))


def cut_records(replica: Path) -> None:
    """Records are missing."""
    with (replica / PAGES).open("r+b") as file:
        file.truncate(0)


def tear_identity(replica: Path) -> None:
    """``job.json`` was written in part."""
    data = (replica / IDENTITY).read_bytes()
    (replica / IDENTITY).write_bytes(data[: len(data) // 2])


def wrong_byte_in_slices(replica: Path) -> None:
    """The slices of the seen-set are not what was written."""
    for path in (replica / SEEN).rglob("*"):
        if path.is_file() and path.stat().st_size > 64:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)


def hide_store(replica: Path) -> None:
    """The store cannot be read."""
    (replica / STORE).rename(replica / "elsewhere")
    (replica / STORE).touch()


DAMAGES = [cut_table, wrong_byte_in_table, tear_identity, hide_store]
Damage = Callable[[Path], None]


def lost_replica(home: Path, owner: Working) -> tuple[int, Path]:
    """The replica in the home of a partition of the owner, but not that of the seeds."""
    number = max(owner.member.runs)
    return number, home / "replicas" / f"{number:02}"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Opening, int, Path]:
    """A replica whose owner has died, how its process opens it, and its number."""
    crawl = crawling(tmp_path_factory.mktemp("sound"), each=3)

    async def test(crawl: Crawling) -> tuple[Opening, int, Path]:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(4.0)
        found = lost_replica(crawl.directory / "a", b)
        await b.kill()
        await a.kill()
        return Opening(a.crawl, a.options.platform, a.options.clock, lambda: crawl.settings), *found

    return crawl.live(test)


@pytest.mark.parametrize("damage", [*DAMAGES, cut_records], ids=lambda damage: damage.__name__)
def test_what_cannot_be_opened_is_seen_before(tmp_path: Path, sound: tuple[Opening, int, Path], damage: Damage) -> None:
    opening, number, found = sound
    replica = tmp_path / "replica"
    shutil.copytree(found, replica)
    files = {path: path.read_bytes() for path in (replica / PAGES, replica / IDENTITY)}
    opening.check(number, replica)
    assert {path: path.read_bytes() for path in files} == files, "what is sound stays as it is"
    mark = mark_of(replica)
    opening.check(number, replica)
    assert mark_of(replica) == mark, "it follows its owner as before"
    damage(replica)
    if damage is not cut_records:  # nothing is lost: pages without a record are fetched again
        with pytest.raises(UNOPENED):
            opening.check(number, replica)
    directory = ReplicaDirectory(replica, number, opening.platform, ReplicaCodec(SECRET))
    assert directory.open(OutputSettings())
    assert directory.being is Being.NONE
    assert [line for line in directory.said if "cannot be opened, and will be copied again: " in line]
    directory.close()


def test_what_an_opening_does_without_is_not_missed(tmp_path: Path, sound: tuple[Opening, int, Path]) -> None:
    """The journal has all that the seen-set has."""
    opening, number, found = sound
    replica = tmp_path / "replica"
    shutil.copytree(found, replica)
    wrong_byte_in_slices(replica)
    opening.check(number, replica)


def mark_of(replica: Path) -> Mark:
    store = PartitionStore(replica / STORE)
    try:
        return Mark.decode(store.get(Family.META, MARK))
    finally:
        store.close()


def test_a_damaged_replica_does_not_become_the_partition(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=7)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        number, replica = lost_replica(tmp_path / "a", b)
        await b.kill()
        cut_table(replica)
        await until(lambda: set(a.member.runs) == set(range(crawl.partitions)) - {number})
        await until(lambda: any(str(replica) in line for line in a.said))
        said = [line for line in a.said if str(replica) in line]
        await asyncio.sleep(30.0)
        assert number not in a.member.runs
        assert not (tmp_path / "a" / "partitions" / replica.name).exists()
        assert [line for line in a.said if str(replica) in line] == said, "said once"
        with pytest.raises(JobError, match="no partition 99"):  # but that one could be forgotten
            await forget(crawl, "c", number, 99)
        before = inodes(tmp_path)
        b = crawl.begin("b", home="b")
        await to_the_end(a, b)
        assert inodes(tmp_path)[replica] != before[replica], "it was copied anew"

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


@pytest.mark.parametrize("where", ["a", "c"])
def test_the_partition_begins_again_when_somebody_says_so(tmp_path: Path, where: str) -> None:
    """In another directory, or in that of the damaged replica."""
    crawl = crawling(tmp_path, each=3)

    async def test(crawl: Crawling) -> int:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        number, replica = lost_replica(tmp_path / "a", b)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        cut_table(replica)
        await until(lambda: any(str(replica) in line for line in a.said))
        if where == "a":
            await a.kill()
            await asyncio.sleep(12.0)
        await forget(crawl, where, number)
        more = crawl.begin(where, home=where)
        await to_the_end(*([more] if where == "a" else [a, more]))
        return number

    number = crawl.live(test)
    homes = [path for path in tmp_path.glob(f"*/partitions/{number:02}") if holds_job(path)]
    assert len(homes) == 1, "it may have moved since"
    assert set(crawl.recorded().values()) == {1}


def test_another_replica_in_step_is_taken(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)
    crawl.replicas = 2

    async def test(crawl: Crawling) -> None:
        members = [crawl.begin(name, expected=3, home=name) for name in "abc"]
        await until(lambda: _all_twice(crawl, members))
        *others, burns = members
        number, _ = lost_replica(tmp_path / "a", burns)
        first = (
            tmp_path
            / next(lag.home for lag in burns.member.replicas if lag.partition == number)
            / "replicas"
            / f"{number:02}"
        )
        await burns.kill()
        shutil.rmtree(tmp_path / "c")
        wrong_byte_in_table(first)
        burnt = crawl.clock()
        await until(lambda: {each for other in others for each in other.member.runs} == set(range(crawl.partitions)))
        assert crawl.clock() < burnt + 15.0, "the life of a claim, and 5 seconds"
        await to_the_end(*others)

    crawl.live(test)
    assert_complete(crawl, lost=1)


def _all_twice(crawl: Crawling, members: list[Working]) -> bool:
    opened = [number for each in members for number in each.member.runs]
    lags = [lag for each in members for lag in each.member.replicas]
    return sorted(opened) == list(range(crawl.partitions)) and sum(lag.in_step for lag in lags) == 2 * crawl.partitions


def test_a_damaged_replica_is_copied_anew(tmp_path: Path) -> None:
    """Its process begins again, and finds it so. Its owner relies on it no more before it is gone."""
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(2.0)
        number, replica = lost_replica(tmp_path / "a", b)
        await a.kill()
        before = inodes(tmp_path)
        tear_identity(replica)
        a = crawl.begin("a", home="a")

        def is_promised() -> bool:
            return any(lag.in_step for lag in b.member.replicas if lag.partition == number)

        while inodes(tmp_path).get(replica) == before[replica]:
            promised = is_promised()
            await asyncio.sleep(0.02)
        assert not promised
        await until(lambda: in_step(a, b))
        assert any(str(replica) in line for line in a.said)
        before = inodes(tmp_path)
        cut_records(replica)  # this one is found when it is written
        await to_the_end(a, b)
        assert inodes(tmp_path)[replica] != before[replica]

    crawl.live(test)
    check(crawl)

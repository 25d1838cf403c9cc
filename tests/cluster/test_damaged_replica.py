"""A replica whose files are damaged never becomes the partition, and its owner has it copied anew: in virtual time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.base.settings.parts import OutputSettings
from crawler.cluster.partition_opening import UNOPENED, Opening
from crawler.cluster.replica_directory import ReplicaDirectory
from crawler.job.directory import IDENTITY, PAGES, STORE, JobError
from crawler.job.partition.replica_values import Being
from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.step_codec import Mark
from crawler.job.step_log import MARK
from crawler.job.store.rocks import PartitionStore
from tests.cluster.members import SECRET, Crawling, Working
from tests.cluster.test_forgotten_partition import forget
from tests.cluster.test_replicas import begin_both, crawling, in_step, inodes, to_the_end, until


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
    directory.close()


def mark_of(replica: Path) -> Mark:
    with closing(PartitionStore(replica / STORE)) as store:
        return Mark.decode(store.get(Family.META, MARK))


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

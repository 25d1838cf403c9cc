"""Reading and restoring a crawl in partitions that lives in a store."""

from __future__ import annotations

import json
import shutil
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import CRASH_AT
from crawler.inspect.crawl_backup import restore_partitions
from crawler.job.bucket.directory_objects import DirectoryObjects
from crawler.job.bucket.layout import PIECES, newest_snapshot, read_crawl, read_shape, standing
from crawler.job.bucket.log_objects import Log
from crawler.job.bucket.objects import BucketError
from crawler.job.bucket.restoration import EVERYTHING
from crawler.job.crawl_file import LEFT, partition_directory, read_crawl_file
from tests.cli.test_by_address import OF_THE_MOMENT, listed
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import WORDS, begun, ended, records
from tests.job.bucket.stores import credentials, moto
from tests.jobs import verify
from tests.program import crawler, wait_until

LENGTH = 6


class Stored:
    """A crawl in four partitions in a store, and the directory of its only worker."""

    def __init__(self, home: Path, chain: Chain) -> None:
        self.chain = chain
        self.store = home / "store"
        self.address = f"file:{self.store}"
        self.directory = home / "one"
        stored = ("--store", self.address, "--partitions", "1", "--output", "warc,bodies,links")
        self.words = ("--job", self.directory, *WORDS, "--quiet", *stored)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """One that has ended."""
    with Chain(6, LENGTH) as chain:
        made = Stored(tmp_path_factory.mktemp("crawl"), chain)
        assert crawler(*chain.seeds, *made.words).code == 0
        yield made


def looked(command: str, of: str | Path, *words: str | Path) -> str:
    ran = crawler(command, of, *words)
    assert (ran.code, ran.err) == (0, ""), ran
    return ran.out


def test_its_address_shows_what_its_directory_does(crawl: Stored, tmp_path: Path) -> None:
    before, url = listed(crawl.store), crawl.chain.url(0, 1)
    kinds: list[tuple[str, ...]] = [("tail", "--all"), ("export", "--csv", "-"), ("hosts", "--json"), ("explain", url)]
    kinds += [("verify", "--json"), ("sql", "--csv", "SELECT * FROM links ORDER BY ALL")]
    for command, *words in kinds:
        assert looked(command, crawl.address, *words) == looked(command, crawl.directory, *words), command
    assert looked("verify", crawl.address) == f"{crawl.address}: whole\n"
    assert looked("report", crawl.address, "--out", tmp_path / "page.html").startswith(f"{tmp_path}/page.html: 36 URLs")
    here, there = (json.loads(looked("stats", of, "--json")) for of in (crawl.directory, crawl.address))
    assert {name for name in here | there if here[name] != there[name]} <= OF_THE_MOMENT
    assert listed(crawl.store) == before


def test_what_a_command_does_not_read_is_not_fetched(crawl: Stored, tmp_path: Path) -> None:
    objects = DirectoryObjects(shutil.copytree(crawl.store, tmp_path / "store"))
    for number in range(4):
        snapshot = newest_snapshot(objects, number)
        assert snapshot is not None
        unread = [each for name, each in snapshot.files.items() if ".g0" in name] + [*snapshot.outputs.values()]
        gone = [*snapshot.bodies, *snapshot.pages.pieces, *(piece for each in unread for piece in each.pieces)]
        shared = {piece for each in snapshot.files.values() if each.at for piece in each.pieces}
        assert any(piece not in shared for each in unread for piece in each.pieces if each.size > 100_000)
        objects.delete([f"{PIECES}{piece}" for piece in gone if piece not in shared])
    for command in ("stats", "hosts"):
        assert looked(command, objects.address) == looked(command, crawl.address)
    assert crawler("tail", objects.address).code == 2


def test_a_directory_that_has_only_some_partitions_shows_all_of_the_store(crawl: Stored, tmp_path: Path) -> None:
    directory = shutil.copytree(crawl.directory, tmp_path / "two")
    (partition_directory(directory, 1) / LEFT).touch()
    shutil.rmtree(partition_directory(directory, 2))
    for command, word in (("tail", "--all"), ("hosts", "--json"), ("verify", "--json")):
        assert looked(command, directory, word) == looked(command, crawl.address, word)


def test_a_crawl_whose_machine_burned_goes_on_in_a_restored_directory(tmp_path: Path) -> None:
    with Chain(8, 20, 0.05) as chain:
        crawl, copy = Stored(tmp_path, chain), tmp_path / "copy"
        with begun(chain, *crawl.words, pages=60) as process:
            wait_until(lambda: any(crawl.store.glob("log/*/*2")), "the log")
            process.send_signal(signal.SIGKILL)
        shutil.rmtree(crawl.directory)
        ran = crawler("restore", crawl.address, copy)
        assert (ran.code, ran.err) == (0, "")
        shape = read_shape(DirectoryObjects(crawl.store))[1]
        assert shape is not None
        restored = read_crawl_file(copy)
        assert (replace(restored, id=""), len(restored.id)) == (shape.file, 32)
        assert verify(copy).code == 0
        shutil.rmtree(crawl.store)
        again = crawler(*chain.seeds, "--job", copy, *WORDS, "--quiet", "--partitions", "1")
        assert again.code == 0, again.err
        assert records(copy) == Counter(dict.fromkeys(chain.pages, 1))


class Growing(DirectoryObjects):
    """A bucket in which a log grows when the last partition is read."""

    def get(self, key: str) -> bytes | None:
        if key.startswith("snapshot/03/"):
            found, owner = read_crawl(self), standing(self, 0).owner
            assert found is not None
            assert owner is not None
            Log(self, found.sealing, owner.worker).close(owner.first)
        return super().get(key)


def test_a_crawl_that_goes_on_meanwhile_can_be_looked_at_and_is_not_restored(crawl: Stored, tmp_path: Path) -> None:
    objects = Growing(shutil.copytree(crawl.store, tmp_path / "store"))
    found, shape = read_crawl(objects), read_shape(objects)[1]
    assert found is not None
    assert shape is not None
    to = tmp_path / "to"
    with pytest.raises(BucketError, match=r"^the crawl in file:"):
        restore_partitions(objects, found, shape.file, to, EVERYTHING, to_look=False)
    assert not to.exists()
    made = restore_partitions(objects, found, shape.file, to, EVERYTHING, to_look=True)
    assert [each.directory.name for each in made] == ["00", "01", "02", "03"]


@pytest.mark.parametrize(
    ("status", "code"),
    [("403 Forbidden", "AccessDenied"), ("400 Bad Request", "ExpiredToken"), ("507 Full", "XMinioStorageFull")],
)
def test_a_store_that_takes_nothing_from_some_moment_on(tmp_path: Path, status: str, code: str) -> None:
    refused = dict[str, tuple[str, str]]()
    with moto(refused) as port, credentials(port), Chain(8, 30, 0.05) as chain:
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/news", method="PUT")).close()
        directory = tmp_path / "one"
        words = (*Stored(tmp_path, chain).words, "--store", f"s3://news/{code}")
        with begun(chain, *words, pages=60) as process:
            refused["PUT"] = status, code
            wait_until(lambda: sum(chain.asked.values()) >= 90, "pages without the store")
            process.send_signal(signal.SIGINT)
            ran = ended(process)
        assert (ran.code, ran.err.count("the crawl continues")) == (1, 1)
        refused.clear()
        assert crawler(*chain.seeds, *words).code == 0
        assert records(directory) == chain.asked == dict.fromkeys(chain.pages, 1)


def test_an_interrupted_restoration_is_no_crawl_and_is_run_again(crawl: Stored, tmp_path: Path) -> None:
    store, to = shutil.copytree(crawl.store, tmp_path / "store"), tmp_path / "to"
    pieces = store / "pieces" / "03"
    pieces.rename(tmp_path / "away")
    assert crawler("restore", f"file:{store}", to).code == 2
    assert not to.exists()
    (tmp_path / "away").rename(pieces)
    assert crawler("restore", f"file:{store}", to, env={CRASH_AT: "restore.done"}).code == -signal.SIGKILL
    assert "`crawler restore` was interrupted here" in crawler(*crawl.chain.seeds, "--job", to).err
    assert crawler("restore", f"file:{store}", to).code == 0
    assert verify(to).code == 0

"""Machines that share a crawl through a store and Redis, as one types it, with real processes: each is a directory."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler.cli.exit_codes import FailedError
from crawler.cli.reporting import shown_run
from crawler.job.bucket.directory_objects import DirectoryObjects
from crawler.job.bucket.layout import read_crawl
from crawler.job.bucket.objects import BucketDown
from crawler.job.bucket.restoration import restore
from crawler.job.crawl_file import partition_directories
from crawler.job.platform import Platform
from tests.asked import enters, opened
from tests.base.carrier.redis_server import redis_server
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import WORDS, begun, ended, records, workers
from tests.jobs import rows
from tests.program import Ran, crawler, running, wait_until

FLAGS = (*WORDS, "--quiet", "--output", "warc", "--concurrency", "8")


class Shared:
    """A crawl in a store, whose workers meet at a Redis."""

    def __init__(self, home: Path, chain: Chain, redis: Any) -> None:
        self.home = home
        self.chain = chain
        self.redis = redis
        self.address = f"file:{home / 'store'}"

    def first(self, name: str, *more: str, pages: int = 15) -> Any:
        """The command that is given the seeds, with one process, as soon as so many pages are asked for."""
        stored = ("--store", self.address, "--engine", self.redis.url, "--partitions", "1", *more)
        return begun(self.chain, "--job", self.home / name, *FLAGS, *stored, pages=pages)

    def other(self, name: str, *more: str) -> Any:
        """A worker that is added."""
        return running("work", "--store", self.address, "--dir", self.home / name, "--quiet", *more)

    def has(self, name: str) -> int:
        """How many partitions are there."""
        return len(partition_directories(self.home / name))

    def burn(self, process: Any, name: str) -> None:
        """End the processes of a machine, and remove its disk."""
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.rmtree(self.home / name)

    def records(self, partitions: int = 4) -> Counter[str]:
        """How often each URL is in the output of the crawl."""
        objects = DirectoryObjects(self.home / "store")
        crawl, found = read_crawl(objects), Counter[str]()
        assert crawl is not None
        for number in range(partitions):
            made = self.home / "restored" / str(number)
            restore(objects, crawl.sealing, number, made, Platform().disk)
            found.update(row["url"] for row in rows(made))
        return found


@contextmanager
def shared(home: Path, length: int) -> Iterator[Shared]:
    with redis_server(home / "server") as redis, Chain(8, length, 0.1) as chain:
        yield Shared(home, chain, redis)


def one_line(ran: Ran, code: int) -> str:
    assert ran.code == code, ran
    (line,) = ran.err.splitlines()
    return line


def test_machines_burn_join_and_leave(tmp_path: Path) -> None:
    with shared(tmp_path, 80) as crawl, crawl.first("one") as first:
        with crawl.other("two") as second:
            wait_until(lambda: crawl.has("two") > 0, "the second machine has its share")
            known = crawl.chain.begun
            wait_until(lambda: crawl.chain.begun > known + 80, "both work")
            crawl.burn(second, "two")
        wait_until(lambda: crawl.has("one") == 4, "the first machine goes on with all")
        with crawl.other("three") as third:
            wait_until(lambda: crawl.has("three") > 0, "the third machine has its share")
            drained = crawler("work", "--drain", "--dir", tmp_path / "one")
            assert drained.code == 0, drained.err
            assert ended(first).code == 0
            shutil.rmtree(tmp_path / "one")
            ran = ended(third)
            assert ran.code == 0, ran.err
        assert crawl.records() == Counter(dict.fromkeys(crawl.chain.pages, 1))
        assert crawl.chain.begun < len(crawl.chain.pages) + 150


def test_all_machines_burn_and_redis_is_empty(tmp_path: Path) -> None:
    with shared(tmp_path, 50) as crawl:
        with crawl.first("one") as first, crawl.other("two") as second:
            wait_until(lambda: crawl.has("two") > 0, "the second machine has its share")
            known = crawl.chain.begun
            wait_until(lambda: crawl.chain.begun > known + 80, "both work")
            for process, name in ((first, "one"), (second, "two")):
                crawl.burn(process, name)
            crawl.redis.say("FLUSHALL")
        with crawl.first("again", pages=0) as first, crawl.other("other") as second:
            assert {ended(first).code, ended(second).code} == {0}
        assert crawl.records() == Counter(dict.fromkeys(crawl.chain.pages, 1))
        assert crawl.chain.begun < len(crawl.chain.pages) + 200


def test_a_crawl_that_was_split_goes_on_at_the_same_redis_which_knows_it_as_it_was(tmp_path: Path) -> None:
    with shared(tmp_path, 12) as crawl:
        with crawl.first("one", pages=40) as first:
            first.terminate()
            assert ended(first).code == 130
        known = crawl.chain.begun
        split = crawler("split", crawl.address, "--partitions", "8")
        assert split.code == 0, split.err
        refused = crawler("work", "--store", crawl.address, "--dir", tmp_path / "one")
        assert "has 8 partitions, not 4" in one_line(refused, 2)
        with crawl.first("two", "--partition-count", "8", pages=known + 1) as first, crawl.other("three") as other:
            assert {ended(first).code, ended(other).code} == {0}
        assert crawl.records(8) == Counter(dict.fromkeys(crawl.chain.pages, 1))
        assert crawl.chain.asked == crawl.records(8)


def test_who_would_meet_others_elsewhere_is_refused(tmp_path: Path) -> None:
    with shared(tmp_path, 60) as crawl, crawl.first("one") as first:
        away = ("--engine", "redis://127.0.0.1:1", "--store", crawl.address)
        refused = crawler(*crawl.chain.seeds, "--job", tmp_path / "two", *FLAGS, *away, "--partitions", "1")
        assert "its workers use another engine or name" in one_line(refused, 2)
        refused = crawler("work", *away, "--dir", tmp_path / "two")
        assert f"use --engine {crawl.redis.url}" in one_line(refused, 2)
        refused = crawler("work", "--store", crawl.address, "--crawl", "other", "--dir", tmp_path / "two")
        assert "leave out --crawl" in one_line(refused, 2)
        assert not (tmp_path / "two").exists()
        second = ("--store", crawl.address, "--engine", crawl.redis.url, "--partitions", "1", "--delay", "3")
        refused = crawler(*crawl.chain.seeds, "--job", tmp_path / "one", *FLAGS, *second)
        assert f"in use by process {first.pid}" in one_line(refused, 2)
        assert [path.name for path in (tmp_path / "store" / "shape").iterdir()] == ["000001"]
        (tmp_path / "file").touch()
        no_directory = ("--store", crawl.address, "--dir", tmp_path / "file")
        assert "cannot use job directory" in one_line(crawler("work", *no_directory), 2)
        first.terminate()
        assert ended(first).code == 130
        shutil.rmtree(tmp_path / "store")
        (tmp_path / "store").mkdir()
        drained = crawler("work", "--drain", "--dir", tmp_path / "one")
        assert "is empty: it holds no backup" in one_line(drained, 2)
        stored = ("--store", crawl.address, "--engine", crawl.redis.url, "--partitions", "1")
        emptied = crawler(*crawl.chain.seeds, "--job", tmp_path / "one", *FLAGS, *stored)
        assert "is a crawl that was stored there" in one_line(emptied, 2)


def test_a_directory_from_before_a_pause_has_only_the_partitions_that_came_back(tmp_path: Path) -> None:
    with shared(tmp_path, 60) as crawl:
        with crawl.first("one", pages=40) as first:
            first.terminate()
            assert ended(first).code == 130
        assert crawl.has("one") == 4
        with crawl.other("two") as second:
            wait_until(lambda: crawl.has("two") == 4, "the second machine has all")
            with crawl.first("one", pages=0) as first:
                wait_until(lambda: crawl.has("one") < 4 and crawl.has("two") < 4, "each has its share")
                with running("dashboard", crawl.address) as page, opened(enters(page.stdout) + "api/stats") as told:
                    assert len(json.load(told)["partitions"]) == 4
                    page.terminate()
                assert {ended(first).code, ended(second).code} == {0}
        stats = crawler("stats", tmp_path / "one")
        assert stats.out.startswith("ended"), stats.out + stats.err
        assert crawler("backup", tmp_path / "one", tmp_path / "backup").code == 2, "half of the crawl"
        assert crawler("restore", crawl.address, tmp_path / "copy").code == 0
        assert crawler("backup", tmp_path / "copy", tmp_path / "backup").code == 0


def test_of_two_first_commands_without_an_engine_one_is_refused(tmp_path: Path) -> None:
    """Their workers could not meet."""
    with Chain(8, 6, 0.1) as chain:
        stored = ("--store", f"file:{tmp_path / 'store'}", "--partitions", "2")
        first, second = (running(chain.url(0, 0), "--job", tmp_path / name, *FLAGS, *stored) for name in "ab")
        with first as one, second as two:
            assert sorted([ended(one).code, ended(two).code]) == [0, 2]
        assert set(chain.asked.values()) == {1}


def test_seeds_that_another_command_does_not_read_are_reported(tmp_path: Path) -> None:
    with shared(tmp_path, 60) as crawl, crawl.first("one") as first:
        stored = ("--store", crawl.address, "--engine", crawl.redis.url, "--partitions", "1")
        new = crawl.chain.url(7, 1000)
        second = crawler(new, "--job", tmp_path / "two", *FLAGS, *stored)
        assert ended(first).code == second.code == 0
        assert (crawl.chain.asked[new] > 0) is (second.err == ""), second.err
        assert crawler(new, "--job", tmp_path / "two", *FLAGS, *stored).err == ""
        assert crawl.chain.asked[new] == 1


def test_another_name_replaces_one_that_another_crawl_has_on_the_engine(tmp_path: Path) -> None:
    with shared(tmp_path, 6) as crawl:
        with crawl.first("one", "--crawl", "news", pages=0) as first:
            assert ended(first).code == 0
        stored = ("--store", f"file:{tmp_path / 'second'}", "--engine", crawl.redis.url, "--partitions", "1")

        def start(name: str, *more: str) -> Ran:
            return crawler(*crawl.chain.seeds, "--job", tmp_path / name, *FLAGS, *stored, *more)

        assert start("two", "--crawl", "news").code == 2
        assert start("three", "--crawl", "other").code == 0
        assert start("two", "--crawl", "newer").code == 0
        assert start("three").code == 2, "a directory that would use the old name"
        joined = crawler("work", *stored[:2], "--dir", tmp_path / "four", "--quiet")
        assert joined.code == 0, joined.err
        assert crawl.chain.begun == 2 * len(crawl.chain.pages)


def test_a_resumed_crawl_whose_new_name_is_taken_keeps_its_old_one(tmp_path: Path) -> None:
    with shared(tmp_path, 6) as crawl:
        with crawl.first("one", pages=10) as first:
            first.terminate()
            assert ended(first).code == 130
        apart = ("--store", f"file:{tmp_path / 'second'}", "--engine", crawl.redis.url, "--partitions", "1")
        ran = crawler(*crawl.chain.seeds, "--job", tmp_path / "other", *FLAGS, *apart, "--crawl", "news")
        assert ran.code == 0, ran.err
        before = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
        stored = ("--store", crawl.address, "--engine", crawl.redis.url, "--partitions", "1", "--crawl", "news")
        assert "is another crawl" in one_line(
            crawler(*crawl.chain.seeds, "--job", tmp_path / "two", *FLAGS, *stored), 2
        )
        assert before == {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
        assert not (tmp_path / "two").exists()


def test_a_worker_is_not_sent_to_an_engine_that_the_crawl_does_not_use(tmp_path: Path) -> None:
    stored = ("--store", f"file:{tmp_path / 'store'}")
    words = ("--job", tmp_path / "one", *FLAGS, "--partitions", "1", *stored)
    with redis_server(tmp_path / "server") as redis, Chain(8, 60, 0.1) as chain, begun(chain, *words) as first:
        refused = crawler("work", *stored, "--engine", redis.url, "--dir", tmp_path / "two")
        assert "has no engine" in one_line(refused, 2)
        assert not (tmp_path / "two").exists()
        at = ("--engine", f"unix:{tmp_path / 'one' / 'carrier.sock'}", "--dir", tmp_path / "one")
        joined = crawler("work", *at, "--quiet", "--max-time", "2s")
        assert joined.code == 0, joined.err
        first.terminate()
        assert ended(first).code == 130


def test_the_settings_of_a_crawl_are_in_its_store_from_the_start(tmp_path: Path) -> None:
    with shared(tmp_path, 30) as crawl, crawl.first("one") as first:

        def gaps() -> set[float]:
            hosts = json.loads(crawler("hosts", crawl.address, "--json").out)["hosts"]
            return {each["gap_seconds"] for each in hosts}

        wait_until(lambda: len(gaps()) > 0, "a host is in the store")
        assert gaps() == {0.0}
        first.terminate()
        assert ended(first).code == 130


def test_a_directory_that_carries_the_crawl_is_not_drained(tmp_path: Path) -> None:
    words = (*FLAGS, "--partitions", "1", "--store", f"file:{tmp_path / 'store'}")
    with Chain(8, 60, 0.15) as chain, begun(chain, "--job", tmp_path / "one", *words) as first:
        refused = crawler("work", "--drain", "--dir", tmp_path / "one")
        assert f"process {first.pid} in {tmp_path / 'one'} connects all workers" in one_line(refused, 2)
        known = chain.begun
        wait_until(lambda: chain.begun > known + 10, "it goes on")
        first.terminate()
        assert ended(first).code == 130


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--drain", "--dir", "{home}/none"), "holds no partitioned crawl"),
        (("--dir", "{home}/none"), "--store ADDRESS"),
        (("--store", "file:{home}/none", "--dir", "{home}/none"), "does not exist"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    assert said in one_line(crawler("work", *(word.format(home=tmp_path) for word in words)), 2)
    assert not list(tmp_path.iterdir())


def test_steps_that_only_the_disk_has_are_an_exit_code_of_the_first_command(tmp_path: Path) -> None:
    stored = ("--job", tmp_path / "one", *FLAGS, "--partitions", "1", "--store", f"file:{tmp_path / 'store'}")
    with Chain(8, 4, 0.05) as chain:
        with begun(chain, *stored, pages=8) as first:
            (worker,) = workers(first.pid)
            os.kill(worker, signal.SIGSTOP)
            first.send_signal(signal.SIGINT)
            while b"interrupted" not in first.stderr.readline():
                assert first.poll() is None
            os.kill(worker, signal.SIGKILL)  # it has released nothing
            assert ended(first).code == 1
        assert crawler(*chain.seeds, *stored).code == 0
        assert records(tmp_path / "one") == Counter(dict.fromkeys(chain.pages, 1))


def test_a_store_that_does_not_answer_ends_a_run_in_one_line(tmp_path: Path) -> None:
    arguments = argparse.Namespace(job=tmp_path, quiet=True)
    with pytest.raises(FailedError, match=r"^error: s3://news does not answer[^\n]*$"), shown_run(arguments):
        raise BucketDown("s3://news does not answer")
    assert not list(tmp_path.iterdir())

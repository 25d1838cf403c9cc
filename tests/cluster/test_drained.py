"""``crawler work --drain`` and ``--forget-partition``, as one types them, with real processes over Redis."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler.base.carrier.open_carrier import open_carrier
from crawler.job.crawl_file import partition_directories, where_is
from crawler.job.directory import holds_job
from crawler.service.engine_crawl import EngineCrawl
from tests.base.carrier.redis_server import redis_server
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import WORDS, begun, ended, records
from tests.program import crawler, running, wait_until

FLAGS = (*WORDS, "--quiet", "--output", "warc,bodies", "--concurrency", "8")


def numbers(directory: Path) -> set[int]:
    """The partitions that are at home there."""
    return {int(path.name) for path in partition_directories(directory)}


def copied(directory: Path) -> set[int]:
    """Those of which it has a whole replica."""
    return {int(path.name) for path in directory.glob("replicas/[0-9][0-9]") if holds_job(path)}


@contextmanager
def on_two_machines(home: Path, chain: Chain, *words: str) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
    """A crawl with a worker in each of the directories ``one`` and ``two``, as soon as all partitions have replicas.
    ``words`` are for the second worker."""
    with ExitStack() as stack:
        server = stack.enter_context(redis_server(home / "server"))
        reached = ("--engine", server.url, "--crawl", "news", "--workers", "2")
        first = stack.enter_context(begun(chain, "--job", home / "one", *FLAGS, *reached, pages=0))
        wait_until(lambda: bool(server.say("HEXISTS", "crawler:{news:crawl}:values", "settings")), "the crawl is known")
        second = stack.enter_context(running("work", "--dir", home / "two", *reached, *(words or ("--quiet",))))
        wait_until(
            lambda: (
                len(numbers(home / "one") | numbers(home / "two")) == 4
                and numbers(home / "one") <= copied(home / "two")
                and numbers(home / "two") <= copied(home / "one")
            ),
            "each machine has a replica of all that the other one has",
        )
        yield first, second, reached


async def states(engine: str, is_over: Callable[[], bool]) -> set[str]:
    """All states that partitions are told to be in until it is over."""
    found = set[str]()
    carrier = await open_carrier(engine, "news")
    try:
        crawl = await EngineCrawl.over(carrier, "news", engine, time.time)
        while not is_over():
            await crawl.look()
            found |= {each["state"] for each in crawl.stats(time.time())["partitions"]}
            await asyncio.sleep(0.1)
    finally:
        await carrier.close()
    return found


def assert_goes_on(process: Any, directory: Path, gone: Path, chain: Chain) -> None:
    """Without the other directory, the crawl ends with all pages."""
    shutil.rmtree(gone)
    ran = ended(process)
    assert ran.code == 0, ran.err
    assert records(directory) == Counter(dict.fromkeys(chain.pages, 1))


def test_a_worker_that_is_drained_leaves_a_directory_that_nobody_needs(tmp_path: Path) -> None:
    shown = ("--progress",)
    with Chain(8, 26, 0.15) as chain, on_two_machines(tmp_path, chain, *shown) as (first, second, reached):
        had = numbers(tmp_path / "two")
        assert had
        with running("work", "--drain", "--dir", tmp_path / "two") as draining:
            assert "stopped" not in asyncio.run(states(reached[1], lambda: draining.poll() is not None))
            drained = ended(draining)
        assert drained.code == 0, drained.err
        assert "Its replicas, of partitions 0, 1, 2, 3, are made again in other directories" in drained.err
        left = ended(second)
        assert left.code == 0
        assert all(f"partition {number} moved to {where_is(tmp_path / 'one')}\n" in left.err for number in had)
        assert "this run" in left.err
        assert numbers(tmp_path / "one") == {0, 1, 2, 3}
        assert_goes_on(first, tmp_path / "one", tmp_path / "two", chain)
        assert sum(chain.asked.values()) == len(chain.pages), "visits under way had time to end"


def test_the_command_that_began_the_crawl_ends_when_its_directory_is_drained(tmp_path: Path) -> None:
    with Chain(8, 26, 0.15) as chain, on_two_machines(tmp_path, chain) as (first, second, _):
        drained = crawler("work", "--drain", "--dir", tmp_path / "one")
        assert drained.code == 0, drained.err
        left = ended(first)
        assert (left.code, numbers(tmp_path / "one")) == (0, set()), left.err
        assert numbers(tmp_path / "two") == {0, 1, 2, 3}
        assert_goes_on(second, tmp_path / "two", tmp_path / "one", chain)


def test_a_directory_that_carries_the_crawl_is_not_drained(tmp_path: Path) -> None:
    with Chain(8, 60, 0.15) as chain, begun(chain, "--job", tmp_path, *FLAGS, "--partitions", "1") as first:
        refused = crawler("work", "--drain", "--dir", tmp_path)
        assert refused.code == 2
        assert f"process {first.pid} carries the crawl" in refused.err
        known = chain.begun
        wait_until(lambda: chain.begun > known + 10, "it goes on")
        first.terminate()
        assert ended(first).code == 130


def test_what_nobody_can_take_stays(tmp_path: Path) -> None:
    assert crawler("work", "--drain", "--dir", tmp_path).code == 2
    with Chain(8, 400, 0.15) as chain, on_two_machines(tmp_path, chain) as (first, second, reached):
        known = chain.begun
        had = min(numbers(tmp_path / "one"))
        refused = crawler("work", "--dir", tmp_path / "three", *reached, "--forget-partition", str(had))
        assert refused.code == 2
        assert f"partition {had} is not gone" in refused.err
        wait_until(lambda: chain.begun > known + 10, "the replicas keep pace")
        first.kill()
        first.wait()
        shutil.rmtree(tmp_path / "one")
        wait_until(lambda: numbers(tmp_path / "two") == {0, 1, 2, 3}, "the replicas go on")
        drained = crawler("work", "--drain", "--dir", tmp_path / "two")
        assert drained.code == 1
        assert "partitions 0, 1, 2, 3 are still in" in drained.err, ended(second)
        assert "no other directory could take them for 15 seconds" in drained.err
        assert ended(second).code == 130


def test_who_has_no_partition_and_whose_crawl_has_ended_is_told_so(tmp_path: Path) -> None:
    one, idle = tmp_path / "one", tmp_path / "idle"
    with redis_server(tmp_path / "server") as server, Chain(8, 26, 0.15) as chain:
        reached = ("--engine", server.url, "--crawl", "news")
        with begun(chain, "--job", one, *FLAGS, *reached, "--replicas", "0", "--workers", "1", pages=4) as first:
            wait_until(lambda: len(numbers(one)) == 4, "all partitions are here")
            with running("work", "--dir", idle, *reached, "--workers", "1") as left_out:
                wait_until((idle / "homes.json").exists, "it knows that others have all")
                drained = crawler("work", "--drain", "--dir", idle)
                ran = ended(left_out)
            assert (drained.code, ran.code) == (0, 0), (drained.err, ran.err)
            assert drained.err.startswith(f"the worker of {idle} has ended: it had no partition")
            again = crawler("work", "--drain", "--dir", idle)
            assert again.code == 0
            assert f"no worker runs with {idle}" in again.err
            ended(first)
        late = crawler("work", "--drain", "--dir", one)
        assert late.code == 1
        assert "partitions 0, 1, 2, 3 have nothing left to do" in late.err


@pytest.mark.parametrize(
    ("words", "named"),
    [(("--replicas", "0"), "--replicas 0"), ((), "partitions.replica_bodies = false")],
)
def test_a_worker_whose_partitions_cannot_move_goes_on(tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    one = tmp_path / "one"
    (tmp_path / "crawl.toml").write_text("" if words else "[partitions]\nreplica_bodies = false\n")
    words = (*words, "--config", str(tmp_path / "crawl.toml"))
    with redis_server(tmp_path / "server") as server, Chain(8, 60, 0.15) as chain:
        reached = ("--engine", server.url, "--crawl", "news")
        with begun(chain, "--job", one, *FLAGS, *reached, *words, "--workers", "1", pages=4) as first:
            wait_until(lambda: len(numbers(one)) == 4, "all partitions are here")
            refused = crawler("work", "--drain", "--dir", one)
            assert refused.code == 2
            assert named in refused.err
            assert "partitions 0, 1, 2, 3 of" in refused.err
            known = chain.begun
            wait_until(lambda: chain.begun > known + 10, "it goes on")
            assert not any((tmp_path / "one").glob("drain"))
            first.terminate()
            assert ended(first).code == 130

"""The end that one process announces, and what the others do who have not read it yet. Time is a number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from crawler.base.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.base.carrier.verbs import CRAWL, Order
from crawler.cluster.end_watch import END, STATUS, EndWatch
from crawler.cluster.member_options import no_seeds
from crawler.cluster.moves import Moves
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.ownership import HELD, Ownership
from crawler.cluster.reach import Reach
from crawler.cluster.replica_slots import REPLICAS
from crawler.engine.lifecycle import Stop
from crawler.job.partition.end_rounds import Announcement, Status, decode_status, encode
from crawler.job.partition.replica_homes import decode_following
from tests.cluster.members import Crawling, Line
from tests.cluster.test_replicas import begin_both, crawling, in_step, until

OVER = Announcement("one-7", (3, 4))


class Overtaken(Line):
    """Between two calls of whoever looks, the coordinator announces the end and frees its claim."""

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        if name == CRAWL and await self.get([CRAWL], END) == [encode(Announcement("one-7"))]:
            await self.put(CRAWL, {END: encode(OVER)})
        return await super().claim(name, holder, floor, seconds)


def test_an_end_that_is_announced_during_a_look_is_not_overwritten() -> None:
    ended = list[bool]()

    async def test() -> None:
        carrier = MemoryCarrier(Holdings(), lambda: 0.0)
        await carrier.put(CRAWL, {END: encode(Announcement("one-7"))})
        reach = Reach(Overtaken(carrier), lambda: 0.0)
        watch = EndWatch(reach, Ownership(reach, "two", lambda: 0.0), 2, dict, ended.append)
        await watch.look()
        assert await carrier.get([CRAWL], END) == [encode(OVER)]
        await watch.look()

    asyncio.run(test())
    assert ended == [False]


def test_who_has_not_read_the_end_yet_takes_over_nothing_from_who_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawling(tmp_path, each=12)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        ended = [0] * crawl.partitions
        for number in b.member.runs:
            said = decode_following((await crawl.carrier.get([f"p{number}"], REPLICAS))[0])
            assert said is not None
            ended[number] = said.epoch
        monkeypatch.setattr(a.line, "get", hears(a.line, Announcement("one-7", tuple(ended))))
        b.member.stop(Stop.FINISHED)
        await b.task
        await asyncio.sleep(HELD - 1.0)
        assert not any("was taken over by its replica" in line for line in a.said)
        await until(lambda: len(a.member.runs) == crawl.partitions)  # it is not read here: the crawl was begun again

    crawl.live(test)


def hears(line: Line, announcement: Announcement) -> Callable[..., Awaitable[list[bytes | None]]]:
    """What a line reads on which that is announced."""
    read = line.get

    async def get(names: Sequence[str], key: str) -> list[bytes | None]:
        return [encode(announcement)] if key == END else await read(names, key)

    return get


def homes_of(crawl: Crawling) -> dict[int, list[str]]:
    """The directories that have each partition, and not as a replica."""
    return {
        number: [home for home in "ab" if (crawl.directory / home / "partitions" / f"{number:02}").is_dir()]
        for number in range(crawl.partitions)
    }


def test_a_partition_stays_where_it_is_if_the_crawl_has_ended_while_it_was_to_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new home would end with all others before it learnt that the partition is there."""
    crawl = crawling(tmp_path, each=12)
    safe = Moves.safe

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        before = homes_of(crawl)

        async def ends(moves: Moves, partition: OpenPartition) -> str | None:
            home = await safe(moves, partition)
            if home is not None:
                said = await crawl.carrier.get([f"p{number}" for number in range(crawl.partitions)], REPLICAS)
                ended = tuple(each.epoch for each in map(decode_following, said) if each is not None)
                for each in (a, b):
                    monkeypatch.setattr(each.line, "get", hears(each.line, Announcement("one-7", ended)))
            return home

        monkeypatch.setattr(Moves, "safe", ends)
        a.member.drain()
        assert (await a.task).reason is Stop.FINISHED
        assert homes_of(crawl) == before

    crawl.live(test)


class Resting:
    """A partition of which nothing is left to do until it is closed."""

    is_at_rest = True
    is_spent = False
    is_sent = True
    version = 5
    epoch = 1
    read_to = ""


class Announcing(Line):
    """The coordinator that read the answers of all announces the end when one takes its answer back."""

    is_late = False
    taken_back = 0

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        done = await super().put(name, values, order)
        status = decode_status(values.get(STATUS))
        if status is not None and not status.idle:
            self.taken_back += 1
            if self.is_late:
                await super().put(CRAWL, {END: encode(Announcement("one-7", (1, 4)))})
        return done


@pytest.mark.parametrize("has_ended", [True, False])
@pytest.mark.parametrize("has_answered", [True, False])
async def test_who_has_answered_a_round_takes_that_back_before_a_partition_goes(
    has_answered: bool, has_ended: bool
) -> None:
    ended, partition = list[bool](), Resting()
    line = Announcing(MemoryCarrier(Holdings(), lambda: 0.0))
    line.is_late = has_ended
    await line.put(CRAWL, {END: encode(Announcement("one-7"))})
    reach = Reach(line, lambda: 0.0)
    ownership = Ownership(reach, "two", lambda: 0.0)
    await ownership.claim("p0", 0)
    await line.claim(CRAWL, "one", 0, 30.0)
    watch = EndWatch(reach, ownership, 2, lambda: {0: partition}, ended.append)
    if has_answered:
        await watch.look()
        assert decode_status((await line.get(["p0"], STATUS))[0]) == Status("one-7", 1, 5, True, True, "")
    partition.is_at_rest = False
    assert await watch.may_leave(0, partition) is not (has_answered and has_ended)
    assert line.taken_back == has_answered
    assert ended == [False] * (has_answered and has_ended)


def test_who_comes_when_the_crawl_has_ended_and_all_have_left_is_told_so(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await asyncio.gather(a.task, b.task)
        late = crawl.begin("c", home="c", seeds=no_seeds)
        assert (await late.task).reason is Stop.FINISHED
        assert any("the crawl has ended" in line for line in late.said)
        with_seeds = crawl.begin("d", home="d")
        await until(lambda: bool(with_seeds.said))
        assert not with_seeds.task.done(), "it may have more seeds, and others may come"
        again = [crawl.begin(name, home=name) for name in "ab"]
        assert {(await each.task).reason for each in (*again, with_seeds)} == {Stop.FINISHED}
        assert not any("forget" in line for each in (late, with_seeds) for line in each.said)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)

"""The end that one process announces, and what the others do who have not read it yet. Time is a number."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from crawler.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.carrier.verbs import CRAWL
from crawler.cluster.end_watch import END, EndWatch
from crawler.cluster.ownership import HELD, Ownership
from crawler.cluster.reach import Reach
from crawler.cluster.replica_slots import REPLICAS
from crawler.engine.lifecycle import Stop
from crawler.partition.end_rounds import Announcement, encode
from crawler.partition.replica_homes import decode_following
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
        read, announced = a.line.get, encode(Announcement("one-7", tuple(ended)))

        async def get(names: Sequence[str], key: str) -> list[bytes | None]:
            return [announced] if key == END else await read(names, key)

        monkeypatch.setattr(a.line, "get", get)
        b.member.stop(Stop.FINISHED)
        await b.task
        await asyncio.sleep(HELD - 1.0)
        assert not any("goes on here" in line for line in a.said)
        await until(lambda: len(a.member.runs) == crawl.partitions)  # it is not read here: the crawl was begun again

    crawl.live(test)

"""How fast replicas are made, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.carrier.verbs import Position
from crawler.base.settings import PartitionSettings
from crawler.job.job_copy import JobCopy
from crawler.job.replica import CopyBegin, CopyEnd, Piece, ReplicaCodec
from tests.cluster.members import SECRET, Crawling, Line, Working, chain
from tests.cluster.test_replicas import lags, to_the_end, until

PARTITIONS = 16
CODEC = ReplicaCodec(SECRET)
RATE = 2_000


class Weighed(Line):
    """Knows when how many bytes of copies were sent."""

    def __init__(self, crawl: Crawling, sent: list[tuple[float, int]]) -> None:
        super().__init__(crawl.carrier)
        self._clock = crawl.clock
        self._sent = sent

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        if "r" in stream:
            copied = [each for each in entries if isinstance(CODEC.decode(each), CopyBegin | Piece | CopyEnd)]
            if copied:
                self._sent.append((self._clock(), sum(map(len, copied))))
        return await super().append(stream, writer, epoch, entries)


def crawling(directory: Path, partitions: int, each: int) -> Crawling:
    pages = chain(4, each)
    return Crawling(directory, pages, partitions, (next(iter(pages)),), replicas=1)


async def with_a_second(crawl: Crawling, pages: int) -> tuple[Working, Working]:
    """A machine has all partitions, and another one joins and is heard of, after so many requests."""
    a = crawl.begin("a", home="a")
    await until(lambda: len(a.member.runs) == crawl.partitions and len(crawl.asked) >= pages)
    b = crawl.begin("b", home="b")
    await until(lambda: len(lags(a)) == crawl.partitions and all(lag.state is not None for lag in lags(a)))
    return a, b


@pytest.mark.parametrize("small", [True, False])
def test_copies_of_small_partitions_are_there_at_once_and_large_ones_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    crawl, sent = crawling(tmp_path, PARTITIONS, each=20), list[tuple[float, int]]()
    monkeypatch.setattr(crawl, "line", lambda: Weighed(crawl, sent))
    if not small:
        monkeypatch.setattr("crawler.cluster.copy_sending.SMALL", 0)

    async def test(crawl: Crawling) -> None:
        a, _ = await with_a_second(crawl, 4)
        began = crawl.clock()
        await until(lambda: all(lag.in_step for lag in lags(a)))
        assert small == (crawl.clock() < began + 1.0), "with a look for each it took 3.5"

    crawl.live(test)
    assert len(sent) == PARTITIONS, "a small one is one call"
    gaps = [after - before for (before, _), (after, _) in pairwise(sent)]
    assert max(gaps) < 0.5 if small else min(gaps) > 0.05


def test_copies_are_sent_no_faster_than_their_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl, sent = crawling(tmp_path, 2, each=20), list[tuple[float, int]]()
    monkeypatch.setattr(crawl, "line", lambda: Weighed(crawl, sent))
    monkeypatch.setattr("crawler.cluster.copy_sending.JobCopy", partial(JobCopy, size=RATE))
    monkeypatch.setattr("crawler.cluster.copy_sending.PIECE", RATE)
    crawl.settings = replace(crawl.settings, partitions=PartitionSettings(copy_rate=RATE))

    async def test(crawl: Crawling) -> int:
        a, b = await with_a_second(crawl, 40)
        await until(lambda: all(lag.in_step for lag in lags(a)))
        asked = len(crawl.asked)
        await to_the_end(a, b)
        return asked

    asked = crawl.live(test)
    total = sum(size for _, size in sent)
    largest = max(size for _, size in sent)
    assert total > 5 * largest
    for index, (begin, _) in enumerate(sent):
        for end in range(index, len(sent)):
            assert sum(size for _, size in sent[index:end]) <= (sent[end][0] - begin) * RATE + 1.0
    assert sent[-1][0] - sent[0][0] < total / RATE + 3.0, "and no slower"
    assert asked > 45, "the crawl goes on beside them"

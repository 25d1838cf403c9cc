"""A partition is another process's while something of it waits for the carrier: the process that had it goes on with
the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from crawler.base.carrier.verbs import START, Entry, Position
from crawler.cluster.replica_slots import ReplicaSlots
from tests.cluster.members import Crawling, Line, Working
from tests.cluster.test_following import crawling, in_step
from tests.cluster.test_replicas import begin_both, check, to_the_end, until


class Lost:
    """Loses the partition of a member, once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.member: Working | None = None

    async def lose(self, crawl: Crawling, number: int) -> None:
        """Return when it is closed."""
        member = self.member
        if self.number is not None or member is None or number not in member.member.runs:
            return
        self.number = number
        del crawl.holdings.__dict__["_claims"][f"p{number}"]
        crawl.holdings.claim(f"p{number}", "another", 0, 5.0, crawl.clock())
        await until(lambda: number not in member.member.runs)


def test_while_others_are_told_that_its_replica_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl, lost = crawling(tmp_path, each=20, seconds=1.0), Lost()

    async def tell_slowly(slots: ReplicaSlots, number: int, home: str, *, in_step: bool) -> None:
        if not in_step:
            await lost.lose(crawl, number)
        await tell_step(slots, number, home, in_step=in_step)

    tell_step = ReplicaSlots.tell_step
    monkeypatch.setattr(ReplicaSlots, "tell_step", tell_slowly)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        lost.member = a
        await b.kill()
        await until(lambda: lost.number is not None)
        await asyncio.sleep(30.0)
        await to_the_end(a, crawl.begin("b", home="b"))

    crawl.live(test)
    check(crawl)


def test_while_parcels_are_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl, lost = crawling(tmp_path, each=20, seconds=1.0), Lost()

    class Slow(Line):
        async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
            if (most, wait) == (1, 0.0) and after in ({"p0": START}, {"p1": START}):  # whether what was sent is taken
                await lost.lose(crawl, 1 if "p0" in after else 0)
            return await super().read(after, most, wait)

    monkeypatch.setattr(crawl, "line", lambda: Slow(crawl.carrier))

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        lost.member = a
        b.line.loses_entries = True  # nothing is acknowledged
        await until(lambda: lost.number is not None)
        b.line.loses_entries = False
        await to_the_end(a, b)

    crawl.live(test)
    check(crawl)

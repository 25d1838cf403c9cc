"""What partitions find for each other may come before the scope of the crawl, which partition 0 tells."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from crawler.base.carrier.verbs import Entry, Position
from crawler.cluster.partition_life import ASKS
from crawler.engine.lifecycle import Stop
from crawler.job.partition.link_batch_codec import Ack
from tests.cluster.members import SETTINGS, Crawling, Line

HOSTS = [f"h{number}.test" for number in range(16)]
INNER = range(1, 6)
LATE = 3.0  # seconds


class Overtaken(Line):
    """One of the streams that it reads is late at first."""

    _until: float | None = None

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        now = asyncio.get_running_loop().time()
        if "p0" not in after and len(after) > 1:
            self._until = now + LATE if self._until is None else self._until
            if now < self._until:
                after = {name: after[name] for name in sorted(after)[:-1]}
        return await super().read(after, most, wait)


def test_a_partition_asks_nothing_before_it_knows_what_belongs_to_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {}
    for number, host in enumerate(HOSTS):
        inner = "".join(f'<a href="/{each}">inner</a>' for each in INNER)
        pages[f"http://{host}/"] = "".join(f'<a href="http://{other}/0">other</a>' for other in HOSTS)
        pages[f"http://{host}/0"] = inner
        pages |= {f"http://{host}/{each}": f"<p>{number} {each}" for each in INNER}
    settings = replace(SETTINGS, crawl=replace(SETTINGS.crawl, scope="host"))
    crawl = Crawling(tmp_path, pages, 8, tuple(f"http://{host}/" for host in HOSTS), settings)
    monkeypatch.setattr(crawl, "line", lambda: Overtaken(crawl.carrier))

    async def test(crawl: Crawling) -> None:
        members = [crawl.begin(name, expected=2, home=name) for name in ("a", "b")]
        assert [(await each.task).reason for each in members] == [Stop.FINISHED] * 2

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(pages, 1)


class Overheard(Line):
    """It keeps what is appended to the streams."""

    entries: list[bytes]

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        self.entries += entries
        return await super().append(stream, writer, epoch, entries)


def test_a_partition_that_knows_the_scope_does_not_ask_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {f"http://{host}/": "<p>page" for host in HOSTS}
    for host in HOSTS[:2]:  # the crawl is still running when partitions would ask
        pages[f"http://{host}/"] = "".join(f'<a href="/{number}">{number}</a>' for number in range(20))
        pages |= {f"http://{host}/{number}": "<p>page" for number in range(20)}
    settings = replace(SETTINGS, crawl=replace(SETTINGS.crawl, scope="host"))
    crawl = Crawling(tmp_path, pages, 4, tuple(f"http://{host}/" for host in HOSTS), settings)
    entries = list[bytes]()

    def line() -> Line:
        overheard = Overheard(crawl.carrier)
        overheard.entries = entries
        return overheard

    monkeypatch.setattr(crawl, "line", line)

    async def test(crawl: Crawling) -> None:
        members = [crawl.begin(name, expected=2, home=name) for name in ("a", "b")]
        assert [(await each.task).reason for each in members] == [Stop.FINISHED] * 2

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(pages, 1)
    acks = [msgspec.msgpack.decode(entry[3:-8], type=Ack) for entry in entries if entry[2] == 2]
    assert crawl.asked[-1].begin > crawl.asked[0].begin + 2 * ASKS
    assert acks
    assert not [ack for ack in acks if not ack.epoch]

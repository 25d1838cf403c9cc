"""A follower does not keep for ever what only a crash of its own would ask for."""

from __future__ import annotations

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import Settings
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.metrics.catalogue import Counters
from crawler.job.platform import Platform
from crawler.job.records import encode_counters, sequence_key
from crawler.job.recovery import COUNTERS
from crawler.job.step_log import MARK
from crawler.job.steps.step_codec import Chunk, Mark, Step
from tests.faulty_store import FaultyStore
from tests.memory_store import MemoryStore

LINE = 7


def finished(following: Follower, *sequences: int) -> None:
    """A step for each, as if a URL had been finished in it."""
    steps, mark = [], following.mark
    for number, sequence in enumerate(sequences, mark.number + 1):
        batch = Batch()
        batch.put(Family.DONE, sequence_key(sequence), b"where its record is")
        batch.put(Family.META, COUNTERS, encode_counters(Counters(sequence=sequence + 1)))
        batch.put(Family.META, MARK, Mark(LINE, number).encode())
        steps.append(Step(batch.encode(), [], []))
    following.apply(Chunk(3, LINE, mark.line, mark.number + 1, steps))


def test_finished_urls_are_forgotten_when_generations_cover_them(tmp_path: Path) -> None:
    """All kept ones, as for their owner. One URL stays, which says where the output ends."""
    store, settings = MemoryStore(), Settings()
    platform = Platform(open_store=lambda _: store)
    Job(tmp_path / "job", settings, 0.0, platform).close()
    following = Follower(tmp_path / "job", platform, settings.output)
    known = lambda: [int.from_bytes(key, "big") for key, _ in store.rows(Family.DONE)]  # noqa: E731
    with closing(following):
        finished(following, 1, 2, 3)
        following.sync()
        assert known() == [1, 2, 3], "no generation covers them"
        assert following.checkpoint(1.0) == []
        following.sync()
        assert known() == [1, 2, 3], "the last one must stay"
        finished(following, 4, 5)
        following.sync()
        assert known() == [4, 5]
        assert following.checkpoint(2.0) == []
        finished(following, 6)
        assert following.checkpoint(3.0) == []
        following.sync()
        assert known() == [6]


def test_after_a_full_disk_it_goes_on_where_it_was(tmp_path: Path) -> None:
    store, settings = FaultyStore(), Settings()
    platform = Platform(open_store=lambda _: store)
    Job(tmp_path / "job", settings, 0.0, platform).close()
    with closing(Follower(tmp_path / "job", platform, settings.output)) as following:
        finished(following, 1)
        store.full = True
        for _ in range(2):
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                finished(following, 2)
        store.full = False
        finished(following, 2, 3)
        assert [int.from_bytes(key, "big") for key, _ in store.rows(Family.DONE)] == [1, 2, 3]

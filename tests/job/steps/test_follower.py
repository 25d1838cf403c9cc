"""A follower applies each step once, and none that does not follow what it holds."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import Settings
from crawler.job.follower import Follower, GapError
from crawler.job.job import Job
from crawler.job.metrics.catalogue import Counters
from crawler.job.platform import Platform
from crawler.job.records import encode_counters, sequence_key
from crawler.job.recovery import COUNTERS
from crawler.job.step_log import MARK
from crawler.job.steps.step_codec import START, Chunk, Mark, Step
from tests.memory_store import MemoryStore

LINE = 7


def chunk(after: Mark, *sequences: int) -> Chunk:
    """A step for each, as if a URL had been finished in it."""
    steps = []
    for number, sequence in enumerate(sequences, after.number + 1):
        batch = Batch()
        batch.put(Family.DONE, sequence_key(sequence), b"where its record is")
        batch.put(Family.META, COUNTERS, encode_counters(Counters(sequence=sequence + 1)))
        batch.put(Family.META, MARK, Mark(LINE, number).encode())
        steps.append(Step(batch.encode(), [], []))
    return Chunk(3, LINE, after.line, after.number + 1, steps)


def test_each_step_is_applied_once_and_none_over_a_gap(tmp_path: Path) -> None:
    store, settings = MemoryStore(), Settings()
    platform = Platform(open_store=lambda _: store)
    Job(tmp_path / "job", settings, 0.0, platform).close()
    with closing(Follower(tmp_path / "job", platform, settings.output)) as following:
        following.apply(chunk(START, 1, 2))
        following.apply(chunk(START, 8, 8, 3))
        for late in (chunk(Mark(LINE, 4), 5), chunk(Mark(LINE + 1, 3), 4)):
            with pytest.raises(GapError):
                following.apply(late)
        following.apply(chunk(following.mark, 4))
        assert [int.from_bytes(key, "big") for key, _ in store.rows(Family.DONE)] == [1, 2, 3, 4]
        assert following.mark == Mark(LINE, 4)

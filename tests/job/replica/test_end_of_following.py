"""No replica follows what a repair makes of a job: it is not told as steps."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.base.settings.parts import OutputSettings
from crawler.inspect.integrity.repairer import repair_job
from crawler.job.directory import PAGES
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.follower import Follower, GapError
from crawler.job.platform import Platform
from crawler.job.replica.step_codec import Chunk, Mark, Step
from tests.jobs import store_of


def made(directory: Path) -> Mark:
    """A job with a log, of whose URLs one is done. Returns its last step."""
    with DurableFrontier(directory, delay=0, platform=Platform(line=9)) as frontier:
        frontier.add([f"http://a.test/{number}" for number in range(3)])
        lease = frontier.take()
        assert lease is not None
        frontier.finish(lease)
        return frontier.job.log.mark


def holds(directory: Path, mark: Mark) -> bool:
    """Whether the next opening goes on with replicas in that state."""
    with DurableFrontier(directory, delay=0, platform=Platform(line=10)) as frontier:
        frontier.job.log.keep()
        return frontier.job.log.holds(mark)


def test_a_repair_ends_it(tmp_path: Path) -> None:
    mark = made(tmp_path)
    with open(tmp_path / PAGES, "r+b") as pages:
        pages.truncate(0)
    assert not repair_job(tmp_path, 1.0, lambda _: None).left
    with store_of(tmp_path) as store:
        assert store.get(Family.META, b"step") is None
    with closing(Follower(tmp_path, Platform(), OutputSettings())) as following, pytest.raises(GapError):
        following.apply(Chunk(3, mark.line, mark.line, mark.number + 1, [Step(b"")]))
    assert not holds(tmp_path, mark)


def test_another_opening_does_not(tmp_path: Path) -> None:
    mark = made(tmp_path)
    assert holds(tmp_path, mark)

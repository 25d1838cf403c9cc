"""A process that copies a job is killed at each named place: neither the job nor a replica is harmed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.disk.failpoints import COPY_POINTS, VARIABLE
from crawler.job.copy_target import clear_copies
from crawler.job.follower import Follower
from crawler.job.platform import Platform
from crawler.job.replica.step_codec import Mark
from crawler.job.snapshot import COPYING
from tests.job.replica.copied import EVERYTHING, copied
from tests.job.replica.copying_child import NAME, copy_and_follow
from tests.outputs import parts_of, records
from tests.program import PATIENCE, Started

PLACED = {"copy.placed", "replica.recorded", "replica.written"}  # where the copy has its name


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that was a replica before."""
    return copied(3, tmp_path_factory.mktemp("crawled"), EVERYTHING).directory


def run_child(directory: Path, replicas: Path, point: str) -> int:
    words = [str(directory), str(replicas)]
    module = "tests.job.replica.copying_child"
    process = Started(words, {**os.environ, VARIABLE: point}, subprocess.DEVNULL, module=module)
    with closing(process):
        process.communicate(None, PATIENCE)
    return process.returncode


def mark_of(replica: Path) -> Mark:
    """Its last step. It has the outputs that its store names: otherwise it could not be opened."""
    with closing(Follower(replica, Platform(), EVERYTHING.output)) as follower:
        return follower.mark


@pytest.mark.parametrize("point", ["snapshot.linked", *COPY_POINTS])
def test_a_copy_that_is_killed_harms_nothing(crawled: Path, tmp_path: Path, point: str) -> None:
    directory, replicas = Path(shutil.copytree(crawled, tmp_path / "job")), tmp_path / "replicas"
    before = records(directory)
    # A replica of before, whose place the copy is to take.
    shutil.copytree(directory, replicas / NAME, ignore=shutil.ignore_patterns("lock"))
    (replicas / NAME / "of-before").touch()
    assert run_child(directory, replicas, point) == -signal.SIGKILL, f"{point} was not reached"
    clear_copies(tmp_path)
    assert [path.name for path in replicas.iterdir()] == ([NAME] if point != "copy.aside" else [])
    if (replicas / NAME).exists():
        assert (replicas / NAME / "of-before").exists() == (point not in PLACED)
        mark_of(replicas / NAME)
    mark = asyncio.run(copy_and_follow(directory, replicas, 4))
    assert not list((directory / COPYING).iterdir())
    assert mark_of(replicas / NAME) == mark
    for copy in (directory, replicas / NAME):
        assert records(copy) == before
        parts_of(copy, "warc")

"""Whose job it is, and the settings that cannot change."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.directory import IDENTITY, JobError
from crawler.job.identity import (
    MAGIC,
    VERSION,
    read_identity,
    shape_of_job,
)
from crawler.job.job_lock import LOCK, JobLock, lock_holder


def test_the_lock_is_had_by_one_at_a_time(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    lock = JobLock(tmp_path)
    assert lock_holder(tmp_path) == os.getpid()
    waited: list[float] = []
    with pytest.raises(JobError, match=f"in use by process {os.getpid()}"):
        JobLock(tmp_path, waited.append)
    assert 0.5 <= sum(waited) <= 2
    lock.release()
    assert lock_holder(tmp_path) is None
    JobLock(tmp_path).release()


def test_a_look_at_the_lock_does_not_keep_a_crawl_from_beginning(tmp_path: Path) -> None:
    JobLock(tmp_path).release()
    looking = os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    lock = JobLock(tmp_path, pause=lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
    assert lock_holder(tmp_path) == os.getpid()
    lock.release()
    os.close(looking)


def test_a_copy_of_the_process_does_not_hold_the_lock(tmp_path: Path) -> None:
    lock = JobLock(tmp_path)
    forked, said = os.pipe()
    ends, end = os.pipe()
    copy = os.fork()
    if copy == 0:
        os.write(said, b"x")
        os.close(end)
        os.read(ends, 1)  # stays until the test is over
        os._exit(0)
    try:
        assert os.read(forked, 1) == b"x"
        assert lock_holder(tmp_path) == os.getpid()
        lock.release()
        assert lock_holder(tmp_path) is None
    finally:
        for descriptor in (forked, said, ends, end):
            os.close(descriptor)
        os.waitpid(copy, 0)


@pytest.mark.parametrize(
    "content", [{}, {"shaping": 3}, {"shaping": {"seen": 3}}, {"shaping": {"seen": {}}}, {"shaping": ["seen"]}]
)
def test_an_identity_of_another_shape_is_named(tmp_path: Path, content: dict[str, object]) -> None:
    (tmp_path / IDENTITY).write_bytes(encode_envelope(MAGIC, VERSION, content))
    looks: list[Callable[[], object]] = [lambda: read_identity(tmp_path), lambda: shape_of_job(tmp_path)]
    for look in looks:
        with pytest.raises(JobError, match=r"job\.json: "):
            look()

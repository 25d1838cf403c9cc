"""What a job shows while nobody has written its status."""

from __future__ import annotations

from pathlib import Path

from crawler.inspect.job_reader import job_stats
from crawler.job.directory import LIVE
from crawler.job.job_lock import JobLock
from crawler.job.metrics.attention import attention
from crawler.service.file_source import JobSource
from tests.jobs import PAGES, killed_job, stopped_job


def test_a_crawl_that_starts_is_not_shown_as_ended(tmp_path: Path) -> None:
    """It holds the lock of its job some time before it writes a status."""
    with stopped_job(tmp_path, PAGES + 1) as made:
        job = made.job
    assert not (job / LIVE).exists()
    source = JobSource(job, lambda: 0.0)
    for _ in range(2):
        assert source.stats()["state"] == job_stats(job)["state"] == "ended"
        lock = JobLock(job)
        source.take(source.read())
        assert source.stats()["state"] == job_stats(job)["state"] == "running"
        lock.release()
        source.take(source.read())


def test_a_job_that_was_killed_says_so(tmp_path: Path) -> None:
    with killed_job(tmp_path, checkpoint_interval=1.0) as made:
        stats = job_stats(made.job)
        assert (stats["state"], stats["stopped_by"]) == ("stopped", "killed")
        assert [need.kind for need in attention(stats)] == ["killed"]
        made.carries_on_to_the_end(made.job)
        assert job_stats(made.job)["state"] == "ended"

"""Other outputs than ``pages.jsonl`` are backed up as far as the snapshot names them, and restored with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crawler.cli import main
from crawler.inspect.backup.back_up import BackedUp, back_up
from crawler.inspect.backup.layout import BackupError
from crawler.inspect.backup.restoration import restore
from crawler.inspect.integrity.repairer import find_all
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.output.body_files import sizes_found
from crawler.job.output.rotated_files import Size
from crawler.job.records import body_name
from crawler.job.snapshot import make_snapshot
from crawler.url.urls.canonicaliser import Canonical
from tests.inspect.integrity.test_parts import URLS, body_of_page, carries_on, counted, finish, opened
from tests.outputs import bodies_of, files_of

SIZE = len("the body of http://h.test/0")


def backed_up(job: Job, to: Path, later: int = 0) -> BackedUp:
    """Back up the job; so many pages are finished after the snapshot and before the outputs are copied."""

    def take() -> None:
        make_snapshot(job.directory, lambda path: job.store.snapshot(str(path)))
        finish(job, later)

    return back_up(job.directory, to, take, 1.0)


def test_outputs_are_backed_up_while_they_grow_and_only_what_is_new_is_copied(tmp_path: Path) -> None:
    to, job = tmp_path / "to", opened(tmp_path / "job")
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 2)
        first = backed_up(job, to, later=3)
        assert first.manifest.kept_files == {
            "warc/crawl-000001.warc.gz": 72,
            "links/links-000001.jsonl": 36,
            "text/text-000001.jsonl": 60,
        }
        finish(job, 1)
        second = backed_up(job, to, later=2)
        assert (second.manifest.kept, len(second.manifest.kept_files)) == (1, 8)
        assert [path.name for path in to.glob("outputs-*")] == ["outputs-000001"]
        assert [made.manifest.bodies for made in (first, second)] == [2 * SIZE, 6 * SIZE]
        assert sum(path.is_file() for path in (to / "bodies").rglob("*")) == 6
    finally:
        job.close()
    restore(to, tmp_path / "restored")
    assert find_all(tmp_path / "restored") == []
    carries_on(tmp_path / "restored", len(URLS) - 6)


def test_outputs_that_were_changed_are_copied_anew(tmp_path: Path) -> None:
    to, job = tmp_path / "to", opened(tmp_path / "job")
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        backed_up(job, to)
        copy = to / "outputs-000001" / "links" / "links-000001.jsonl"
        copy.write_bytes(bytes(copy.stat().st_size))
        assert backed_up(job, to).manifest.kept == 2
        assert [path.name for path in to.glob("outputs-*")] == ["outputs-000002"]
    finally:
        job.close()
    restore(to, tmp_path / "restored")
    assert bodies_of(tmp_path / "restored") == bodies_of(tmp_path / "job")
    for name in ("warc", "links"):
        assert files_of(tmp_path / "restored", name) == files_of(tmp_path / "job", name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"removed": 1}, "lacks 1 body that records name"),
        ({"cut": 1}, "holds 1 body that is damaged"),
        ({"removed": 2, "cut": 1}, "lacks 2 bodies that records name and holds 1 body that is damaged"),
        ({}, None),
    ],
)
def test_a_backup_that_has_lost_bodies_is_restored_and_they_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, int], said: str | None
) -> None:
    to, job, restored = tmp_path / "to", opened(tmp_path / "job"), tmp_path / "restored"
    names = iter([body_name(body_of_page(url).digest) for url in URLS])
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        backed_up(job, to)
        for _ in range(changes.get("removed", 0)):
            (to / next(names)).unlink()
        for _ in range(changes.get("cut", 0)):
            body = to / next(names)
            body.unlink()  # it is a second name of the body in the job
            body.write_bytes(b"0123456789")
        finish(job, 1)
        backed_up(job, to)
    finally:
        job.close()
    assert main(["restore", str(to), str(restored)]) == (0 if said is None else 1)
    told = capsys.readouterr().err
    assert told == "" if said is None else told.startswith(f"crawler: error: {to} {said}; all else is restored:")
    assert len(find_all(restored)) == (1 if changes else 0)


def test_a_restored_job_counts_the_bodies_that_it_has(tmp_path: Path) -> None:
    """The job may have more: those of pages whose records are gone."""
    to, job = tmp_path / "to", opened(tmp_path / "job")
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        job.files.outputs.bodies.size = Size(9, 9 * SIZE)
        finish(job, 1)
        backed_up(job, to)
    finally:
        job.close()
    restore(to, tmp_path / "restored")
    assert find_all(tmp_path / "restored") == []
    assert counted(tmp_path / "restored") == sizes_found(tmp_path / "restored") == Size(5, 5 * SIZE)


def test_a_backup_that_lacks_a_part_of_an_output_is_not_restored(tmp_path: Path) -> None:
    to, job = tmp_path / "to", opened(tmp_path / "job")
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 2)
        backed_up(job, to)
    finally:
        job.close()
    os.truncate(to / "outputs-000001" / "links" / "links-000001.jsonl", 30)
    with pytest.raises(BackupError, match=r"links-000001.jsonl has 30 bytes where 36 were written"):
        restore(to, tmp_path / "restored")

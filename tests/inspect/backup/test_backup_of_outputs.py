"""Other outputs than ``pages.jsonl`` are backed up as far as the snapshot names them, and restored with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.cli import main
from crawler.inspect.backup.back_up import BackedUp, back_up
from crawler.inspect.backup.layout import BackupError, write_manifest
from crawler.inspect.backup.restoration import restore
from crawler.inspect.integrity.repairer import find_all, repair_job
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.output.body_files import sizes_found
from crawler.job.output.rotated_files import Size
from crawler.job.records import body_name
from crawler.job.snapshot import make_snapshot
from crawler.url.urls import Canonical
from tests.inspect.integrity.test_parts import URLS, body_of_page, carries_on, counted, finish, flip, opened
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


def test_a_body_that_was_damaged_with_its_second_name_is_replaced(tmp_path: Path) -> None:
    """``repair`` has it fetched again: another file of the same size, which the backup does not have."""
    to, directory = tmp_path / "to", tmp_path / "job"
    job = opened(directory)
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        first = backed_up(job, to)
    finally:
        job.close()
    name = body_name(body_of_page(URLS[1]).digest)
    flip(directory / name, 3)
    assert (to / name).read_bytes() == (directory / name).read_bytes()
    assert repair_job(directory, 1.0, lambda _: None).left == []
    job = opened(directory)
    try:
        finish(job)
        again = backed_up(job, to)
    finally:
        job.close()
    assert (to / name).read_bytes() == body_of_page(URLS[1]).data
    assert (to / name).samefile(directory / name)
    sizes = [len(body_of_page(url).data) for url in URLS]
    assert (first.manifest.bodies, again.manifest.bodies) == (sum(sizes[:4]), sum(sizes))
    restore(to, tmp_path / "restored")
    carries_on(tmp_path / "restored", 0)
    assert counted(tmp_path / "restored") == Size(len(sizes), sum(sizes))


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


def test_a_body_that_the_job_had_lost_is_missing(tmp_path: Path) -> None:
    to, job = tmp_path / "to", opened(tmp_path / "job")
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        (tmp_path / "job" / body_name(body_of_page(URLS[1]).digest)).unlink()
        backed_up(job, to)
    finally:
        job.close()
    restored = restore(to, tmp_path / "restored")
    assert (restored.written.missing, restored.damaged) == (1, 0)


def test_a_body_that_was_removed_and_came_again_is_no_fault_of_the_backup(tmp_path: Path) -> None:
    """Its bytes are counted twice then, so all bodies are read."""
    to, job = tmp_path / "to", opened(tmp_path / "job")
    name = body_name(body_of_page(URLS[4]).digest)
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        first = backed_up(job, to)
        write_manifest(RealDisk(), to, replace(first.manifest, bodies=5 * SIZE))
        finish(job, 1)
        assert backed_up(job, to).manifest.bodies == 6 * SIZE
        assert (to / name).is_file()
    finally:
        job.close()
    restored = restore(to, tmp_path / "restored")
    assert (restored.written.missing, restored.damaged) == (0, 0)


@pytest.mark.parametrize("place", ["directory", "dangling", "above"])
def test_what_is_no_file_in_the_place_of_a_body_is_named(tmp_path: Path, place: str) -> None:
    to, job = tmp_path / "to", opened(tmp_path / "job")
    strange = to / body_name(body_of_page(URLS[1]).digest)
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 1)
        backed_up(job, to)
        if place == "above":
            strange = strange.parent
        strange.parent.mkdir(parents=True)
        if place == "directory":
            strange.mkdir()
        elif place == "dangling":
            strange.symlink_to("nothing")
        else:
            strange.touch()
        finish(job, 3)
        with pytest.raises(BackupError, match=rf"^{strange} is not a (file|directory): remove it, and run the same"):
            backed_up(job, to)
        strange.rmdir() if place == "directory" else strange.unlink()
        backed_up(job, to)
    finally:
        job.close()
    restore(to, tmp_path / "restored")
    assert find_all(tmp_path / "restored") == []


def test_what_an_interrupted_backup_left_is_read_and_counted(tmp_path: Path) -> None:
    """Of a copy that was interrupted, a power loss may take the data, not the size."""
    to, job = tmp_path / "to", opened(tmp_path / "job")
    names = [body_name(body_of_page(url).digest) for url in URLS]
    for name, data in ((names[0], bytes(SIZE)), (names[1], body_of_page(URLS[1]).data), (names[2], b"short")):
        (to / name).parent.mkdir(parents=True)
        (to / name).write_bytes(data)
    good = (to / names[1]).stat().st_ino
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        made = backed_up(job, to)
        assert made.manifest.bodies == 4 * SIZE
        assert (to / names[1]).stat().st_ino == good, "it is not written again"
        (to / "backup-000002").mkdir()
        (to / names[4]).parent.mkdir(parents=True)
        (to / names[4]).write_bytes(body_of_page(URLS[4]).data)
        finish(job, 2)
        assert backed_up(job, to).manifest.bodies == 6 * SIZE
    finally:
        job.close()
    restore(to, tmp_path / "restored")
    assert find_all(tmp_path / "restored") == []


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

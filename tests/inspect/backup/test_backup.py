"""Backups with the real program: of a crawl while it runs, kept up to date, killed at every step, and restored."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.base.disk import RealDisk
from crawler.base.disk.failpoints import BACKUP_POINTS, VARIABLE
from crawler.base.kv import Family
from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.inbox import Inbox
from tests.jobs import CHAIN, OPTIONS, PAGES, Stopped, killed_job, rows, stopped_job, store_of, verify
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, tree
from tests.small_disk import small_disk


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """Killed with the journal ahead of the generations."""
    with killed_job(tmp_path_factory.mktemp("killed"), checkpoint_interval=0.01) as made:
        yield made


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("stopped"), 10, 20) as made:
        yield made


@pytest.fixture
def job(killed: Stopped, tmp_path: Path) -> Path:
    return killed.copy(tmp_path / "job")


def back_up(job: Path, to: Path, *words: str) -> dict[str, Any]:
    ran = crawler("backup", job, to, "--json", *words)
    assert (ran.code, ran.err) == (0, ""), ran
    said: dict[str, Any] = json.loads(ran.out)
    assert not (job / "snapshot").exists()
    return said


def restored(to: Path, directory: Path) -> Path:
    ran = crawler("restore", to, directory)
    assert (ran.code, ran.err) == (0, ""), ran
    checked = verify(directory)
    assert checked.code == 0, checked
    return directory


def inodes(to: Path) -> dict[str, int]:
    """Of the tables and slices in the one backup that is there."""
    (state,) = to.glob("backup-0*")
    found = {path.name: path.stat().st_ino for path in (*state.glob("store/*.sst"), *state.glob("seen/*"))}
    assert any(name.endswith(".sst") for name in found)
    assert any(name.startswith("slice") for name in found)
    return found


def refused(ran: Ran, code: int = 2) -> str:
    assert (ran.code, ran.out) == (code, ""), ran
    (line,) = ran.err.splitlines()
    assert "Traceback" not in line
    return line


def records(job: Path) -> int:
    return (job / "pages.jsonl").read_bytes().count(b"\n") if (job / "pages.jsonl").exists() else 0


# -- while it crawls -------------------------------------------------------------------------------------------


def test_a_running_crawl_is_backed_up_killed_restored_elsewhere_and_crawled_to_its_end(tmp_path: Path) -> None:
    pages = 360
    job, to = tmp_path / "job", tmp_path / "backup"
    config = tmp_path / "often.toml"
    config.write_text(f"[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.2\n{CHAIN}")
    with Site(tree(pages)) as site:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text(site.url("/") + "\n")
        words = (seeds, "--config", config, *OPTIONS)
        with running(*words, "--job", job, "--rate", "15") as process:
            numbers, done = [], []
            for least in (10, 30, 50):
                wait_until(lambda least=least: records(job) >= least, "some pages")
                said = back_up(job, to)
                numbers.append(said["number"])
                done.append(said["urls_admitted"] - said["urls_pending"])
                assert least <= done[-1] <= records(job)
                assert process.poll() is None, "it goes on"
            assert numbers == [1, 2, 3]
            assert done == sorted(done)
            wait_until(lambda: records(job) >= done[-1] + 10, "more pages")
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(job)

        elsewhere = restored(to, tmp_path / "elsewhere" / "job")
        before = rows(elsewhere)
        assert len(before) == done[-1]
        ran = crawler(*words, "--job", elsewhere)

        assert ran.code == 0, ran.err
        assert rows(elsewhere)[: len(before)] == before
        assert Counter(row["url"] for row in rows(elsewhere)) == Counter(site.url(path) for path in tree(pages))
        assert verify(elsewhere).code == 0
        restored(to, tmp_path / "a second time")


def test_what_waits_in_the_inbox_is_part_of_it(killed: Stopped, job: Path, tmp_path: Path) -> None:
    url = killed.site.url("/extra")
    killed.site.pages["/extra"] = "end"
    Inbox(job, RealDisk()).deposit([url], seed=False, answer=False)
    back_up(job, tmp_path / "to")
    elsewhere = restored(tmp_path / "to", tmp_path / "elsewhere")
    assert killed.resume(elsewhere).code == 0
    assert url in {row["url"] for row in rows(elsewhere)}


# -- only what is new ------------------------------------------------------------------------------------------


def test_tables_slices_and_output_are_copied_once(stopped: Stopped, tmp_path: Path) -> None:
    job, to = stopped.copy(tmp_path / "job"), tmp_path / "to"
    size = (job / "pages.jsonl").stat().st_size
    first = back_up(job, to)
    tables = {path.name: path.stat().st_ino for path in (to / "backup-000001" / "store").glob("*.sst")}
    assert tables, "something is in tables"
    assert tables.items() <= {path.name: path.stat().st_ino for path in (job / "store").glob("*.sst")}.items()
    assert first["written_bytes"] == size, "the output alone was copied, the rest has a second name"

    second = back_up(job, to)
    assert second["number"] == 2
    assert second["written_bytes"] == 0
    assert sorted(path.name for path in to.iterdir()) == ["backup-000002", "backup.json", "pages-000001"]

    ran = stopped.resume(job, "--max-pages", "30")
    assert ran.code == 0
    third = back_up(job, to)
    assert third["written_bytes"] == (job / "pages.jsonl").stat().st_size - size, "it was appended to"
    assert (to / "pages-000001").read_bytes() == (job / "pages.jsonl").read_bytes()
    stopped.carries_on_to_the_end(restored(to, tmp_path / "elsewhere"))


def test_across_file_systems_bytes_are_copied_and_only_once(stopped: Stopped, tmp_path: Path) -> None:
    job = stopped.copy(tmp_path / "job")
    with small_disk(tmp_path / "other", 64) as disk:
        to = disk.path / "to"
        first = back_up(job, to)
        assert first["written_bytes"] == first["bytes"]
        lasting = inodes(to)
        second = back_up(job, to)
        assert inodes(to) == lasting, "tables and slices got a second name"
        sizes = sum(path.stat().st_size for path in to.rglob("*") if path.stat().st_ino in lasting.values())
        assert second["written_bytes"] == second["bytes"] - sizes - (job / "pages.jsonl").stat().st_size
        stopped.carries_on_to_the_end(restored(to, tmp_path / "elsewhere"))
        # And onto the same file system as the backup, with what the two may share.
        stopped.carries_on_to_the_end(restored(to, disk.path / "job"))
        restored(to, tmp_path / "once more")


# -- killed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("earlier", [True, False], ids=["an earlier backup", "the first"])
@pytest.mark.parametrize("point", BACKUP_POINTS[:6])
def test_a_backup_that_is_killed_leaves_the_one_before(
    killed: Stopped, job: Path, tmp_path: Path, point: str, earlier: bool
) -> None:
    to, done = tmp_path / "to", records(job)
    if earlier:
        back_up(job, to)
        with DurableFrontier(job, order="breadth") as frontier:
            frontier.add(killed.site.url("/nothing"))
    ran = crawler("backup", job, to, env={VARIABLE: point})
    assert ran.code == -signal.SIGKILL, f"{point} was not reached"
    if earlier or point == "backup.done":
        assert len(rows(restored(to, tmp_path / "earlier"))) == done
    else:
        assert "holds no backup" in refused(crawler("restore", to, tmp_path / "earlier"))
    assert verify(job).code == 0, "the job itself is as it was"
    back_up(job, to)
    assert len(list(to.iterdir())) == 3, "nothing is left of the one that was killed"
    restored(to, tmp_path / "later")


@pytest.mark.parametrize("point", BACKUP_POINTS[6:])
def test_a_restoration_that_is_killed_can_be_run_again(killed: Stopped, job: Path, tmp_path: Path, point: str) -> None:
    to, elsewhere = tmp_path / "to", tmp_path / "elsewhere"
    back_up(job, to)
    assert crawler("restore", to, elsewhere, env={VARIABLE: point}).code == -signal.SIGKILL
    if point == "restore.copied":
        # There is no job yet: nothing may make one of what is there.
        assert "`crawler restore` was interrupted here" in refused(killed.resume(elsewhere))
        assert "`crawler restore` was interrupted here" in refused(crawler("repair", elsewhere))
        restored(to, elsewhere)
    else:
        assert "holds a crawl" in refused(crawler("restore", to, elsewhere)), "it is complete"
    killed.carries_on_to_the_end(elsewhere)


# -- refused ---------------------------------------------------------------------------------------------------


def test_directories_that_make_no_sense_are_refused(job: Path, tmp_path: Path) -> None:
    assert "lies inside the job" in refused(crawler("backup", job, job / "backup"))
    assert "lies inside the job" in refused(crawler("backup", job, job))
    assert "lies inside" in refused(crawler("backup", job, job.parent))
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    (photographs / "cat.jpg").touch()
    assert "holds other files (cat.jpg) but no backup" in refused(crawler("backup", job, photographs))
    assert "is not a directory" in refused(crawler("backup", job, photographs / "cat.jpg"))
    assert "holds no crawl" in refused(crawler("backup", photographs, tmp_path / "to"))
    assert "holds no backup" in refused(crawler("restore", photographs, tmp_path / "to"))
    assert not (tmp_path / "to").exists()
    back_up(job, tmp_path / "to")
    assert "is not empty (cat.jpg)" in refused(crawler("restore", tmp_path / "to", photographs))
    assert "holds a crawl" in refused(crawler("restore", tmp_path / "to", job))
    assert [path.name for path in photographs.iterdir()] == ["cat.jpg"]


def test_the_backup_of_another_job_is_not_replaced(job: Path, stopped: Stopped, tmp_path: Path) -> None:
    other, to = stopped.copy(tmp_path / "other"), tmp_path / "to"
    back_up(other, to)
    assert f"holds a backup of {other}, another job" in refused(crawler("backup", job, to))
    other.rename(tmp_path / "moved")
    assert back_up(tmp_path / "moved", to)["number"] == 2


def test_a_backup_of_a_newer_program_and_a_damaged_one_are_refused(job: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    back_up(job, to)
    manifest = to / "backup.json"
    data = manifest.read_bytes()
    manifest.write_bytes(encode_envelope("crawler-backup", 2, {}))
    for words in (("restore", to, tmp_path / "elsewhere"), ("backup", job, to)):
        assert "crawler-backup version 2, this program reads version 1" in refused(crawler(*words))
    manifest.write_bytes(data)
    table = next((to / "backup-000001" / "store").glob("*.log"))
    table.rename(table.with_suffix(".gone"))
    assert "is damaged" in refused(crawler("restore", to, tmp_path / "elsewhere"))
    assert "is missing" in refused(crawler("restore", to, tmp_path / "elsewhere"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_job_whose_repair_was_interrupted_is_not_backed_up(job: Path, tmp_path: Path) -> None:
    with store_of(job) as store:
        batch = store.batch()
        batch.put(Family.META, b"repairing", b"")
        store.write(batch)
    assert "a repair was interrupted" in refused(crawler("backup", job, tmp_path / "to"))


def test_a_disk_that_is_full_leaves_the_earlier_backup(killed: Stopped, job: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "other", 64) as disk:
        to = disk.path / "to"
        done = records(job)
        back_up(job, to)
        assert killed.resume(job).code == 0
        disk.fill()
        line = refused(crawler("backup", job, to), code=1)
        assert "no backup was made: " in line
        assert "an earlier backup" in line
        assert os.strerror(errno.ENOSPC) in line
        assert len(rows(restored(to, tmp_path / "earlier"))) == done
        disk.free()
        back_up(job, to)
        assert len(rows(restored(to, tmp_path / "later"))) == PAGES

"""Backups with the real program: of a crawl while it runs, kept up to date, killed at every step, and restored."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.base.disk import CRASH_AT, RealDisk
from crawler.base.kv import Family
from crawler.inspect.crawl_backup import BackedUp, back_up, restore_crawl
from crawler.inspect.integrity.repairer import find_all
from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.found import Found
from crawler.job.inbox import Inbox
from crawler.job.job import Job
from crawler.job.output.body_files import sizes_found
from crawler.job.output.rotated_files import Size
from crawler.job.records import body_name
from crawler.job.snapshot import make_snapshot
from crawler.url.urls.canonicaliser import Canonical
from tests.crash_points import BACKUP_POINTS
from tests.inspect.integrity.test_parts import URLS, body_of_page, carries_on, counted, finish, opened
from tests.jobs import CHAIN, OPTIONS, PAGES, Stopped, killed_job, rows, stopped_job, store_of, verify
from tests.outputs import bodies_of, files_of
from tests.partitioned.crawls import address_of, crawled, told
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, tree
from tests.small_disk import small_disk

SIZE = len("the body of http://h.test/0")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """Killed with the journal ahead of the generations."""
    with killed_job(tmp_path_factory.mktemp("killed"), checkpoint_interval=0.01) as made:
        yield made


@pytest.fixture
def job(killed: Stopped, tmp_path: Path) -> Path:
    return killed.copy(tmp_path / "job")


def backed_up(job: Path, to: Path) -> dict[str, Any]:
    said: dict[str, Any] = told("backup", job, to)
    assert not (job / "snapshot").exists()
    return said


def restored(to: Path, directory: Path) -> Path:
    ran = crawler("restore", to, directory)
    assert (ran.code, ran.err) == (0, ""), ran
    assert verify(directory).code == 0
    return directory


def refused(*words: str | Path, code: int = 2) -> str:
    ran: Ran = crawler(*words)
    assert (ran.code, ran.out) == (code, ""), ran
    (line,) = ran.err.splitlines()
    assert "Traceback" not in line
    return line


def records(job: Path) -> int:
    return (job / "pages.jsonl").read_bytes().count(b"\n") if (job / "pages.jsonl").exists() else 0


def test_a_running_crawl_is_backed_up_killed_restored_elsewhere_and_crawled_to_its_end(tmp_path: Path) -> None:
    pages = 360
    job, to = tmp_path / "job", tmp_path / "backup"
    config = tmp_path / "often.toml"
    config.write_text(f"[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.2\n{CHAIN}")
    with Site(tree(pages)) as site:
        words = (site.url("/"), "--config", config, *OPTIONS)
        with running(*words, "--job", job, "--rate", "15") as process:
            made = []
            for least in (10, 30, 50):
                wait_until(lambda least=least: records(job) >= least, "some pages")
                made.append(backed_up(job, to))
                assert least <= made[-1]["urls_admitted"] - made[-1]["urls_pending"] <= records(job)
                assert process.poll() is None, "it goes on"
            assert [said["number"] for said in made] == [1, 2, 3]
            done = made[-1]["urls_admitted"] - made[-1]["urls_pending"]
            wait_until(lambda: records(job) >= done + 10, "more pages")
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(job)

        elsewhere = restored(to, tmp_path / "elsewhere" / "job")
        before = rows(elsewhere)
        assert len(before) == done
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
    backed_up(job, tmp_path / "to")
    elsewhere = restored(tmp_path / "to", tmp_path / "elsewhere")
    assert killed.resume(elsewhere).code == 0
    assert url in {row["url"] for row in rows(elsewhere)}


def test_what_is_stored_is_not_stored_again(tmp_path: Path) -> None:
    to = tmp_path / "to"
    with stopped_job(tmp_path, 10, 20) as stopped:
        first = backed_up(stopped.job, to)
        second = backed_up(stopped.job, to)
        assert (first["number"], second["number"], first["size"] == second["size"]) == (1, 2, True)
        assert second["bytes"] < first["bytes"] / 10
        assert stopped.resume(stopped.job, "--max-pages", "30").code == 0
        third = backed_up(stopped.job, to)
        assert third["size"] > first["size"]
        assert third["bytes"] < first["bytes"]
        assert len(list((to / "backup").iterdir())) == len(list((to / "snapshot/00").iterdir())) == 2
        stopped.carries_on_to_the_end(restored(to, tmp_path / "elsewhere"))


@pytest.mark.parametrize("earlier", [True, False], ids=["an earlier backup", "the first"])
@pytest.mark.parametrize("point", BACKUP_POINTS[:7])
def test_a_backup_that_is_killed_leaves_the_one_before(
    killed: Stopped, job: Path, tmp_path: Path, point: str, earlier: bool
) -> None:
    to, done = tmp_path / "to", records(job)
    if earlier:
        backed_up(job, to)
        with DurableFrontier(job, order="breadth") as frontier:
            frontier.add(killed.site.url("/nothing"))
    ran = crawler("backup", job, to, env={CRASH_AT: point})
    assert ran.code == -signal.SIGKILL, f"{point} was not reached"
    if earlier or point == "backup.done":
        assert len(rows(restored(to, tmp_path / "earlier"))) == done
    else:
        assert "holds no backup" in refused("restore", to, tmp_path / "earlier")
    assert verify(job).code == 0, "the job itself is as it was"
    assert backed_up(job, to)["number"] == 1 + earlier + (point == "backup.done")
    restored(to, tmp_path / "later")


@pytest.mark.parametrize("point", BACKUP_POINTS[7:])
def test_a_restoration_that_is_killed_can_be_run_again(killed: Stopped, job: Path, tmp_path: Path, point: str) -> None:
    to, elsewhere = tmp_path / "to", tmp_path / "elsewhere"
    backed_up(job, to)
    assert crawler("restore", to, elsewhere, env={CRASH_AT: point}).code == -signal.SIGKILL
    if point == "restore.copied":
        # There is no job yet: nothing may make one of what is there.
        assert "`crawler restore` was interrupted here" in refused(killed.site.url("/"), "--job", elsewhere)
        restored(to, elsewhere)
    else:
        assert "holds a crawl" in refused("restore", to, elsewhere), "it is complete"
    killed.carries_on_to_the_end(elsewhere)


def test_places_that_make_no_sense_are_refused(job: Path, tmp_path: Path) -> None:
    for inside in (job / "backup", job, job.parent):
        assert "must not contain one another" in refused("backup", job, inside)
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    (photographs / "cat.jpg").touch()
    assert "holds other files (cat.jpg)" in refused("backup", job, photographs)
    assert "cat.jpg" in refused("backup", job, photographs / "cat.jpg")
    assert "holds no crawl" in refused("backup", photographs, tmp_path / "to")
    assert "cat.jpg" in refused("restore", photographs, tmp_path / "to")
    assert not (tmp_path / "to").exists()
    backed_up(job, tmp_path / "to")
    assert "holds other files (cat.jpg)" in refused("restore", tmp_path / "to", photographs)
    assert "holds a crawl" in refused("restore", tmp_path / "to", job)
    assert [path.name for path in photographs.iterdir()] == ["cat.jpg"]


def test_the_backup_of_another_job_is_not_replaced(job: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    (tmp_path / "other").mkdir()
    with stopped_job(tmp_path / "other", 10) as other:
        backed_up(other.job, to)
        assert f"holds a backup of another job ({other.job})" in refused("backup", job, to)
        other.job.rename(tmp_path / "moved")
        assert backed_up(tmp_path / "moved", to)["number"] == 2


def test_a_backup_of_a_newer_program_and_a_damaged_one_are_refused(job: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    backed_up(job, to)
    for path, kind in ((to / "crawl", "crawl"), (to / "backup" / "00000001", "backup")):
        data = path.read_bytes()
        path.write_bytes(encode_envelope(f"crawler-bucket-{kind}", 2, {}))
        for words in (("restore", to, tmp_path / "elsewhere"), ("backup", job, to)):
            assert f"crawler-bucket-{kind} version 2, this program reads version 1" in refused(*words)
        path.write_bytes(data)
    piece = next((to / "pieces" / "00").iterdir())
    data = piece.read_bytes()
    piece.write_bytes(data[:-1])
    assert "is damaged" in refused("restore", to, tmp_path / "elsewhere")
    piece.unlink()
    assert "is missing" in refused("restore", to, tmp_path / "elsewhere")
    piece.write_bytes(data)
    restored(to, tmp_path / "elsewhere")


def test_a_job_whose_repair_was_interrupted_is_not_backed_up(job: Path, tmp_path: Path) -> None:
    with store_of(job) as store:
        batch = store.batch()
        batch.put(Family.META, b"repairing", b"")
        store.write(batch)
    assert "a repair was interrupted" in refused("backup", job, tmp_path / "to")


def test_a_disk_that_is_full_leaves_the_earlier_backup(killed: Stopped, job: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "other", 64) as disk:
        to, done = disk.path / "to", records(job)
        backed_up(job, to)
        assert killed.resume(job).code == 0
        disk.fill()
        line = refused("backup", job, to, code=1)
        assert "no backup was made: " in line
        assert os.strerror(errno.ENOSPC) in line
        assert len(rows(restored(to, tmp_path / "earlier"))) == done
        disk.free()
        backed_up(job, to)
        assert len(rows(restored(to, tmp_path / "later"))) == PAGES


# -- outputs ---------------------------------------------------------------------------------------------------


def taken(job: Job, to: Path, later: int = 0) -> BackedUp:
    """Back up the job; so many pages are finished after the snapshot and before the outputs are copied."""

    def take(_: Path) -> None:
        make_snapshot(job.directory, job.store.snapshot)
        finish(job, later)

    return back_up(job.directory, str(to), take, 1.0)


def test_outputs_are_backed_up_while_they_grow(tmp_path: Path) -> None:
    to, job, again = tmp_path / "to", opened(tmp_path / "job"), tmp_path / "restored"
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 2)
        taken(job, to, later=3)
        finish(job, 1)
        taken(job, to, later=2)
    finally:
        job.close()
    restore_crawl(str(to), again)
    assert find_all(again) == []
    assert bodies_of(again).items() < bodies_of(tmp_path / "job").items()
    assert counted(again) == sizes_found(again) == Size(6, 6 * SIZE)
    for name in ("warc", "links"):
        whole = files_of(tmp_path / "job", name)
        assert all(whole[number].startswith(data) for number, data in files_of(again, name).items())
    carries_on(again, len(URLS) - 6)


def test_bodies_that_are_lost_are_told_and_outputs_that_were_changed_are_stored_anew(
    tmp_path: Path,
) -> None:
    to, job, again = tmp_path / "to", opened(tmp_path / "job"), tmp_path / "restored"
    try:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 4)
        taken(job, to)
        lost, damaged = (job.directory / body_name(body_of_page(url).digest) for url in URLS[4:6])
        finish(job, 2)
        lost.unlink()
        damaged.write_bytes(b"0123456789")
        links = job.directory / "links" / "links-000001.jsonl"
        links.write_bytes(links.read_bytes()[:-1] + b" ")
        taken(job, to)
    finally:
        job.close()
    ran = crawler("restore", to, again)
    assert ran.code == 1
    assert "lacks 2 bodies that records refer to; the rest is restored:" in ran.err
    assert (again / "links" / "links-000001.jsonl").read_bytes() == links.read_bytes()
    assert sizes_found(again) == Size(4, 4 * SIZE)
    assert [each.kind.value for each in find_all(again)] == ["records-lost"]


# -- a crawl of partitions -------------------------------------------------------------------------------------


def test_a_crawl_of_partitions_is_restored_as_it_was(tmp_path: Path) -> None:
    to, new = tmp_path / "backup", tmp_path / "restored"
    with crawled(tmp_path / "crawl", limits={1: 9}) as made:
        before = told("stats", made.directory)
        first = told("backup", made.directory, to)
        assert (first["urls_admitted"], first["urls_pending"]) == (before["urls_admitted"], before["urls_pending"])
        for path in (to / "pieces").rglob("*"):
            os.utime(path, (0.0, 0.0))  # so old that it is removed if nothing needs it
        again = told("backup", made.directory, to)
        assert (again["number"], again["size"]) == (2, first["size"])
        assert again["bytes"] < first["bytes"] / 10

        with Site(tree(60), latency=0.3, address=(address_of(2), 0)) as site:
            options = ("--allow-private", "--delay", "0", "--per-host", "1", "--quiet")
            with running(site.url("/"), "--job", made.beside(2), *options):
                wait_until(lambda: told("stats", made.directory)["state"] == "running", "the crawl to run")
                assert "partitions/02" in refused("backup", made.directory, tmp_path / "another")
        assert not (tmp_path / "another").exists()

        # Its partitions may be of different moments.
        (made.part(1) / "job.json").rename(made.part(1) / "away")
        (made.part(1) / "job.json").write_text("damaged")
        assert crawler("backup", made.directory, to).code != 0
        assert crawler("restore", to, new).code == 0
        after = told("stats", new)
        for key in ("urls_admitted", "urls_pending", "pages_fetched", "hosts"):
            assert after[key] == before[key]
        assert told("verify", new)["whole"]
        (made.part(1) / "away").replace(made.part(1) / "job.json")
        assert (new / "crawl.json").read_bytes() == (made.directory / "crawl.json").read_bytes()
        assert (new / "crawl.json").stat().st_mode & 0o777 == 0o600
        assert "holds a crawl" in refused("restore", to, made.directory)
        with crawled(tmp_path / "other") as other:
            assert "another job" in refused("backup", other.directory, to)

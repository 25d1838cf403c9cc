"""A crawl that lives in a store: its machine burns, is frozen, is taken over; the store is away. With the real program,
judged by the site's own log, the records and ``verify``."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crawler.base.disk import CRASH_AT
from tests.crash_points import BACKUP_POINTS, BUCKET_POINTS
from tests.jobs import CHAIN, OPTIONS, rows, stopped_job, verify
from tests.outputs import files_of
from tests.program import Ran, Started, crawler, running, wait_until
from tests.site import Site, tree

PAGES = 150


class Crawl:
    """A crawl of a site, in a directory as its store."""

    def __init__(self, directory: Path, site: Site) -> None:
        self.site = site
        self.store = directory / "store"
        self.address = f"file:{self.store}"
        self.config = directory / "often.toml"
        self.config.write_text(f"[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.2\n{CHAIN}")
        self.base = directory

    def words(self, job: Path, *more: str) -> list[str | Path]:
        options = ("--output", "warc,bodies,links", *OPTIONS, *more)
        return [self.site.url("/"), "--store", self.address, "--job", job, "--config", self.config, *options]

    def ends(self, job: Path) -> None:
        """It goes on to its end: nothing is missing, nothing stands twice."""
        ran = crawler(*self.words(job))
        assert ran.code == 0, ran.err
        assert Counter(row["url"] for row in rows(job)) == Counter(self.site.url(path) for path in tree(PAGES))
        checked = verify(job)
        assert checked.code == 0, checked

    def restored(self, name: str = "restored") -> Path:
        """What the store has, made a job."""
        ran = crawler("restore", self.address, self.store / ".." / name)
        assert (ran.code, ran.err) == (0, "")
        assert verify(self.base / name).code == 0
        return self.base / name


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    with Site(tree(PAGES)) as site:
        yield Crawl(tmp_path, site)


@contextmanager
def begun(crawl: Crawl, job: Path, least: int) -> Iterator[Started]:
    """The crawl, when it has so many records."""
    with running(*crawl.words(job, "--rate", "60")) as process:
        pages = job / "pages.jsonl"
        wait_until(lambda: pages.exists() and pages.read_bytes().count(b"\n") >= least, "some records")
        yield process


def one_line(ran: Ran, code: int) -> str:
    assert (ran.code, ran.out) == (code, ""), ran
    (line,) = ran.err.splitlines()
    return line


@pytest.mark.parametrize("kind", ["directory", "moto"])
def test_machines_burn_one_after_the_other_and_the_crawl_ends_elsewhere(
    crawl: Crawl, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "moto":
        crawl.address = f"{request.getfixturevalue('bucket')}/of/{tmp_path.name}"
    for number, least in enumerate((30, 60)):
        job = tmp_path / f"machine-{number}"
        with begun(crawl, job, least) as process:
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(job)
    job = tmp_path / "machine-2"
    crawl.ends(job)
    asked = Counter(crawl.site.pages_asked())
    assert asked.keys() == {crawl.site.url(path) for path in tree(PAGES)}
    # What was finished in the last second before each end, at 60 a second, and what was in flight.
    assert sum(asked.values()) - PAGES <= 2 * (2 * 60 + 8)
    again = crawl.restored()
    assert (again / "pages.jsonl").read_bytes() == (job / "pages.jsonl").read_bytes()
    for name in ("warc", "links"):
        assert files_of(again, name) == files_of(job, name)


@pytest.mark.parametrize("burns", [True, False], ids=["its disk is lost", "its disk stays"])
@pytest.mark.parametrize("point", [*BACKUP_POINTS[:6], *BUCKET_POINTS[1:]])
def test_killed_at_each_step(crawl: Crawl, tmp_path: Path, point: str, burns: bool) -> None:
    if point in BUCKET_POINTS or point == "bucket.snapshot":
        assert crawler(*crawl.words(tmp_path / "first", "--max-pages", "40")).code == 0
        if burns:
            shutil.rmtree(tmp_path / "first")
    if point != "backup.taken":
        killed = crawler(*crawl.words(tmp_path / "first"), env={CRASH_AT: point})
        assert killed.code == -signal.SIGKILL, f"{point} was not reached"
    if burns:
        shutil.rmtree(tmp_path / "first", ignore_errors=True)
    crawl.ends(tmp_path / "first")
    shutil.rmtree(tmp_path / "first")
    crawl.ends(tmp_path / "second")


@pytest.mark.parametrize("point", ["bucket.fetched", "restore.copied", "restore.done"])
def test_killed_while_it_is_brought_back(crawl: Crawl, tmp_path: Path, point: str) -> None:
    assert crawler(*crawl.words(tmp_path / "first", "--max-pages", "40")).code == 0
    assert crawler(*crawl.words(tmp_path / "second"), env={CRASH_AT: point}).code == -signal.SIGKILL
    crawl.ends(tmp_path / "second")
    assert len(crawl.site.pages_asked()) == PAGES


def test_last_steps_that_the_store_lacks_are_a_failure(crawl: Crawl, tmp_path: Path) -> None:
    job, away = tmp_path / "job", tmp_path / "away"
    with begun(crawl, job, 20) as process:
        crawl.store.rename(away)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 1
    away.rename(crawl.store)
    crawl.ends(job)


def test_a_job_that_others_went_on_with_is_brought_back_even_if_its_return_is_killed(
    crawl: Crawl, tmp_path: Path
) -> None:
    first, away = tmp_path / "first", tmp_path / "away"
    with begun(crawl, first, 20) as process:
        crawl.store.rename(away)  # from now on its steps are on its disk only
        wait_until(lambda: len(rows(first)) >= 60, "more records")
        process.send_signal(signal.SIGKILL)
        process.wait()
    away.rename(crawl.store)
    limit = len(rows(crawl.restored())) + 5
    assert crawler(*crawl.words(tmp_path / "second", "--max-pages", str(limit))).code == 0
    stored = (tmp_path / "second" / "pages.jsonl").read_bytes()
    assert crawler(*crawl.words(first), env={CRASH_AT: "bucket.owned"}).code == -signal.SIGKILL
    crawl.ends(first)
    assert (first / "pages.jsonl").read_bytes().startswith(stored)


def test_a_machine_that_is_frozen_finds_that_another_goes_on(crawl: Crawl, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with begun(crawl, first, 30) as process:
        process.send_signal(signal.SIGSTOP)
        with begun(crawl, second, 60) as other:
            process.send_signal(signal.SIGCONT)
            assert process.wait() == 1
            assert other.poll() is None
            _, said = process.communicate()
            (line,) = [each for each in said.decode().splitlines() if "stopped" in each]
            assert "another process has taken over" in line
            assert str(second) in line
            other.send_signal(signal.SIGKILL)
            other.wait()
    crawl.ends(second)
    assert len(crawl.restored().joinpath("pages.jsonl").read_bytes().splitlines()) == PAGES
    crawl.ends(first)  # what it had besides is dropped: the store is the truth
    assert len(crawl.site.pages_asked()) <= PAGES + 8 + 2 * 60 + 8


def test_a_second_command_that_cannot_run_leaves_the_first_alone(crawl: Crawl, tmp_path: Path) -> None:
    job = tmp_path / "job"
    with begun(crawl, job, 20) as process:
        assert f"is in use by process {process.pid}" in one_line(crawler(*crawl.words(job)), 2)
        other = crawl.words(tmp_path / "other", "--seen", "exact")
        assert "seen.kind cannot change" in one_line(crawler(*other), 2)
        assert process.wait() == 0
    crawl.ends(job)
    assert len(crawl.site.pages_asked()) == PAGES


def test_a_job_moves_into_a_store_and_its_machine_may_burn(crawl: Crawl, tmp_path: Path) -> None:
    job = tmp_path / "job"
    words = crawl.words(job)
    at = words.index("--store")
    assert crawler(*words[:at], *words[at + 2 :], "--max-pages", "50").code == 0
    assert crawler(*crawl.words(job, "--max-pages", "100")).code == 0
    assert crawler(*words[:at], *words[at + 2 :], "--max-pages", "120").code == 0, "the directory knows its store"
    shutil.rmtree(job)
    crawl.ends(job)
    assert len(crawl.site.pages_asked()) == PAGES


def test_what_is_refused_changes_nothing(crawl: Crawl, tmp_path: Path) -> None:
    job, other = tmp_path / "job", tmp_path / "other"
    assert crawler(*crawl.words(job, "--max-pages", "20")).code == 0
    before = sorted(path for path in crawl.store.rglob("*") if path.is_file())
    other.mkdir()
    with stopped_job(other, 10) as stopped:
        assert "holds a different crawl" in one_line(crawler(*crawl.words(stopped.job)), 2)
    away = ["--store", f"file:{tmp_path / 'elsewhere'}", "--job", job, "--output", "warc,bodies,links", *OPTIONS]
    assert "is the crawl in file:" in one_line(crawler(crawl.site.url("/"), *away), 2)
    for at, store in (("in", "in/store"), ("out/job", "out")):
        nested = ["--store", f"file:{tmp_path / store}", "--job", tmp_path / at, *OPTIONS]
        assert "must not contain one another" in one_line(crawler(crawl.site.url("/"), *nested), 2)
        assert not (tmp_path / at).exists()
    for address in ("", "file:", "file:store"):
        ran = crawler(crawl.site.url("/"), "--store", address, "--job", tmp_path / "none")
        assert "invalid object store address" in one_line(ran, 2)
    assert str(crawl.store) in one_line(crawler("backup", job, f"file:{crawl.store}"), 2)
    kept = tmp_path / "backup"
    assert crawler("backup", job, kept).code == 0
    new = ["--store", f"file:{kept}", "--job", tmp_path / "new", *OPTIONS]
    assert "holds backups" in one_line(crawler(crawl.site.url("/"), *new), 2)
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "cat.jpg").touch()
    strange = ["--store", f"file:{tmp_path / 'photographs'}", "--job", tmp_path / "new", *OPTIONS]
    assert "cat.jpg" in one_line(crawler(crawl.site.url("/"), *strange), 2)
    for command in (["repair", job], ["forget", job, crawl.site.url("/")]):
        assert "is the cache of a crawl in a store" in one_line(crawler(*command), 2)
    assert f"crawler split file:{crawl.store}" in one_line(crawler(*crawl.words(job), "--partitions", "2"), 2)
    for _ in range(2):
        line = one_line(crawler(*crawl.words(tmp_path / "third", "--seen", "exact")), 2)
        assert f"{tmp_path / 'third'}: seen.kind cannot change" in line
    assert [path.name for path in (tmp_path / "third").iterdir()] == ["lock"]
    left = sorted(path for path in crawl.store.rglob("*") if path.is_file() and "owner" not in str(path))
    assert {path for path in before if "owner" not in str(path)} <= set(left)
    crawl.ends(job)


@pytest.mark.parametrize("kind", ["log", "owner", "snapshot", "pieces"])
def test_a_damaged_store_is_refused_and_nothing_is_changed(crawl: Crawl, tmp_path: Path, kind: str) -> None:
    other, copy = tmp_path / "other", tmp_path / "copy"
    assert crawler(*crawl.words(tmp_path / "job", "--max-pages", "20")).code == 0
    for path in (crawl.store / kind).rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    before = {path: path.read_bytes() for path in crawl.store.rglob("*") if path.is_file()}
    assert f"/{kind}/" in one_line(crawler(*crawl.words(other)), 2)
    assert [path.name for path in other.iterdir()] == ["lock"]
    assert f"/{kind}/" in one_line(crawler("restore", crawl.address, copy), 2)
    assert not copy.exists()
    copy.mkdir()
    assert f"/{kind}/" in one_line(crawler("restore", crawl.address, copy), 2)
    assert not list(copy.iterdir())
    assert before == {path: path.read_bytes() for path in crawl.store.rglob("*") if path.is_file()}


def test_what_is_added_between_two_runs_waits_for_the_next(crawl: Crawl, tmp_path: Path) -> None:
    job, new = tmp_path / "job", crawl.site.url("/new")
    crawl.site.pages["/new"] = "end"
    assert crawler(*crawl.words(job, "--max-pages", "20")).code == 0
    added = crawler("add", job, new)
    assert (added.code, "inbox" in added.err) == (0, True), added
    assert crawler(*crawl.words(job)).code == 0
    assert new in {row["url"] for row in rows(crawl.restored())}


def test_what_somebody_removed_from_the_store_is_missed_before_anything_is_changed(
    crawl: Crawl, tmp_path: Path
) -> None:
    """The directory that has it all can go on."""
    job, other = tmp_path / "job", tmp_path / "other"
    assert crawler(*crawl.words(job, "--max-pages", "20")).code == 0
    kept = crawl.store.rename(tmp_path / "kept")
    for gone in ("pieces", "snapshot"):
        shutil.copytree(kept, crawl.store)
        shutil.rmtree(crawl.store / gone)
        assert crawler(*crawl.words(other)).code == 2, gone
        assert not (other / "job.json").exists()
        shutil.rmtree(crawl.store)
    kept.rename(crawl.store)
    shutil.rmtree(other)
    crawl.ends(job)

"""A job whose records are in several files has a format of its own, so that older programs refuse it by its number."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import Disk, FaultyDisk, RealDisk
from crawler.base.settings import Settings
from crawler.inspect.integrity.repairer import find_all, repair_job
from crawler.job.directory import IDENTITY, PAGES
from crawler.job.formats import KNOWN, OF_A_CRAWL, OF_A_FETCHER, SEVERAL_FILES, Formats
from crawler.job.found import Found
from crawler.job.identity import MAGIC, OtherFormatError, check_format, read_identity, write_identity
from crawler.job.job import Job
from crawler.job.output.record_text import page_numbers
from crawler.job.platform import Platform
from crawler.job.recovery import kept_format
from crawler.url.urls import Canonical
from tests.durability.power import Inline
from tests.inspect.integrity.test_parts import SETTINGS, URLS, finish
from tests.jobs import flip, store_of

BEFORE = Formats(KNOWN.later[: SEVERAL_FILES - 2])  # the program that knows one file of records
THEN = Formats(KNOWN.later[: OF_A_CRAWL - 1])  # a later one: what new jobs have now says that they may be several
ONE_FILE = replace(SETTINGS, output=replace(SETTINGS.output, pages_size=0))


@contextmanager
def opened(
    directory: Path, settings: Settings = SETTINGS, disk: Disk | None = None, formats: Formats = THEN
) -> Iterator[Job]:
    job = Job(directory, settings, 0.0, Platform(disk or RealDisk(), executor=Inline, formats=formats))
    try:
        yield job
    finally:
        job.close()


def begun(directory: Path, settings: Settings = ONE_FILE, pages: int = 2) -> Path:
    """A job, some of whose pages are finished."""
    with opened(directory, settings) as job:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, pages)
    return directory


def stored(directory: Path) -> int:
    """The format that the store says."""
    with store_of(directory) as store:
        return kept_format(store)


def test_formats_on_demand_are_not_the_usual_one() -> None:
    assert (BEFORE.newest, BEFORE.usual) == (SEVERAL_FILES - 1, SEVERAL_FILES - 1)
    assert THEN.newest >= SEVERAL_FILES
    assert THEN.usual == BEFORE.usual
    assert Formats().usual == Formats().newest == 1


def test_a_job_with_one_file_keeps_the_number_that_older_programs_know(tmp_path: Path) -> None:
    job = begun(tmp_path / "job")
    assert (read_identity(job).format, stored(job)) == (THEN.usual, THEN.usual)
    with opened(job, ONE_FILE, formats=BEFORE) as older:
        finish(older, 1)
    assert find_all(job, BEFORE) == []


def test_the_first_record_of_the_second_file_raises_the_number(tmp_path: Path) -> None:
    job = begun(tmp_path / "job")
    with opened(job) as again:
        assert read_identity(job).format == THEN.usual, "nothing is in a second file yet"
        finish(again, 1)
        assert read_identity(job).format == SEVERAL_FILES
    assert stored(job) == SEVERAL_FILES
    assert list(page_numbers(job / PAGES)) == [1]
    with opened(job, ONE_FILE) as again:
        finish(again)
    assert read_identity(job).format == SEVERAL_FILES, "the files are still there"
    assert find_all(job, THEN) == []


def test_an_older_program_refuses_it_and_changes_nothing(tmp_path: Path) -> None:
    job = begun(tmp_path / "job", SETTINGS)
    before = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}
    said = (
        rf"has format version {SEVERAL_FILES}, .* reads jobs up to version {SEVERAL_FILES - 1}: use the newer program"
    )
    with pytest.raises(OtherFormatError, match=said), opened(job, ONE_FILE, formats=BEFORE):
        pass
    for refuse in (lambda: check_format(job, BEFORE), lambda: repair_job(job, 0.0, lambda _: None, formats=BEFORE)):
        with pytest.raises(OtherFormatError, match=said):
            refuse()
    assert {path: path.read_bytes() for path in job.rglob("*") if path.is_file()} == before


def test_an_older_program_refuses_it_without_job_json(tmp_path: Path) -> None:
    job = begun(tmp_path / "job", SETTINGS)
    texts = {path: path.read_bytes() for path in job.glob("pages*")}
    (job / IDENTITY).unlink()
    with pytest.raises(OtherFormatError, match=rf"{IDENTITY} is damaged and store/ has format version {SEVERAL_FILES}"):
        repair_job(job, 0.0, lambda _: None, formats=BEFORE)
    assert {path: path.read_bytes() for path in job.glob("pages*")} == texts
    assert repair_job(job, 0.0, lambda _: None, formats=THEN).left == []
    assert read_identity(job).format == SEVERAL_FILES
    assert {path: path.read_bytes() for path in job.glob("pages*")} == texts


def test_a_job_that_was_not_marked_is_marked_when_it_is_opened(tmp_path: Path) -> None:
    """The first programs that wrote records in several files did not raise the number."""
    job = begun(tmp_path / "job", SETTINGS)
    write_identity(RealDisk(), job, replace(read_identity(job), format=SEVERAL_FILES - 1))
    with opened(job, ONE_FILE):
        pass
    assert (read_identity(job).format, stored(job)) == (SEVERAL_FILES, SEVERAL_FILES)


def test_a_repair_that_makes_one_file_gives_the_number_of_one_file(tmp_path: Path) -> None:
    job = begun(tmp_path / "job", SETTINGS, pages=6)
    (file, *_) = page_numbers(job / PAGES).values()
    flip(file, 10)
    assert repair_job(job, 0.0, lambda _: None, formats=THEN).left == []
    assert not page_numbers(job / PAGES)
    assert (read_identity(job).format, stored(job)) == (THEN.usual, THEN.usual)
    assert find_all(job, BEFORE) == []


@pytest.mark.parametrize("lost", [IDENTITY, PAGES])
def test_a_repair_leaves_the_number_of_what_it_does_not_change(tmp_path: Path, lost: str) -> None:
    """Of a later format on demand, whatever needs it."""
    job = begun(tmp_path / "job", ONE_FILE, pages=6)
    write_identity(RealDisk(), job, replace(read_identity(job), format=OF_A_FETCHER))
    with opened(job, ONE_FILE):
        pass  # the store says it too
    if lost == IDENTITY:
        (job / IDENTITY).unlink()
    else:
        flip(job / PAGES, 10)
    assert repair_job(job, 0.0, lambda _: None, formats=THEN).left == []
    assert (read_identity(job).format, stored(job)) == (OF_A_FETCHER, OF_A_FETCHER)


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync", "replace", "sync_directory"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_the_number_is_there_before_the_file(tmp_path: Path, operation: str, error: int) -> None:
    """Whichever call fails at the begin of the second file, and with the power lost then."""
    made = begun(tmp_path / "made")
    for number in range(1, 5):
        job = shutil.copytree(made, tmp_path / f"job{number}")
        disk = FaultyDisk(random.Random(number))
        with opened(job, disk=disk) as again:
            disk.fail_later(operation, number, error)
            try:
                finish(again, 1)
                assert again.blocked is None or (error == errno.ENOSPC and again.writer.write_again())
            except OSError:
                assert error == errno.EIO
        disk.lose_power()
        files = page_numbers(job / PAGES)
        assert not files or read_identity(job).format == SEVERAL_FILES
        with opened(job) as again:
            finish(again)
        assert find_all(job, THEN) == []
        assert (job / IDENTITY).read_bytes().startswith(f"{MAGIC} {SEVERAL_FILES} ".encode())

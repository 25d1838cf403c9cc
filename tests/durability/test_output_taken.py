"""The output, or the whole job directory, is moved, removed or cut while the crawl runs: it stops with one line that
says what happened, and the same command goes on once the file is back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.jobs import SHAPE, repair, rows, stopped_job, verify
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, linked


class Endless(Mapping[str, str]):
    """Each page links to two more."""

    def __getitem__(self, path: str) -> str:
        number = int(path.strip("/") or 1)
        return linked([f"/{2 * number}", f"/{2 * number + 1}"])

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError("there is no end of them")

    def __len__(self) -> int:
        raise NotImplementedError("there is no end of them")


@dataclass
class Crawl:
    """A crawl that comes to no end by itself, and goes wrong by a limit of time where nothing stops it."""

    site: Site
    directory: Path

    @property
    def job(self) -> Path:
        return self.directory / "job"

    @property
    def pages(self) -> Path:
        return self.job / "pages.jsonl"

    def words(self, job: Path, *options: str) -> list[str | Path]:
        seeds, config = self.directory / "seeds.txt", self.directory / "quick.toml"
        seeds.write_text(self.site.url("/") + "\n")
        config.write_text("[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.2\n")
        polite = ("--allow-private", "--delay", "0", "--concurrency", "4", "--per-host", "4", "--quiet", *SHAPE)
        return [seeds, "--job", job, "--config", config, *polite, *options]

    def disturbed_by(self, disturb: Callable[[], object]) -> Ran:
        """How a crawl ends that is disturbed after some generations."""
        with running(*self.words(self.job, "--max-time", "60")) as process:
            wait_until(
                lambda: len(list(self.job.glob("seen/generation-*"))) > 1 and len(self.lines(self.pages)) > 50,
                "a part that is durable for good",
            )
            disturb()
            out, err = process.communicate(timeout=50)
        return Ran(process.returncode, out.decode(), err.decode())

    def lines(self, path: Path) -> list[bytes]:
        return path.read_bytes().splitlines() if path.exists() else []

    def goes_on(self, job: Path, more: int = 20) -> None:
        """The same command, for some pages more: nothing stands twice, and all parts agree."""
        had = len(rows(job))
        ran = crawler(*self.words(job, "--max-pages", str(had + more)))
        assert (ran.code, ran.err) == (0, "")
        urls = [row["url"] for row in rows(job)]
        assert len(urls) == len(set(urls)) >= had + more
        assert verify(job).findings == []


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawl]:
    with Site(Endless(), latency=0.002) as site:
        yield Crawl(site, tmp_path)


def one_line(ran: Ran, *words: str) -> None:
    assert ran.code == 1, ran
    (line,) = ran.err.splitlines()
    assert line.startswith("crawler: stopped: ")
    for word in words:
        assert word in line


def remove(directory: Path) -> None:
    """As ``rm -rf`` does. The crawl removes and makes files there meanwhile, for which ``rmtree`` gives up."""

    def gone() -> bool:
        shutil.rmtree(directory, ignore_errors=True)
        return not directory.exists()

    wait_until(gone, f"{directory} is removed")


def test_the_output_is_removed(crawl: Crawl) -> None:
    one_line(crawl.disturbed_by(crawl.pages.unlink), "pages.jsonl was removed during the crawl", "crawler repair")
    again = crawler(*crawl.words(crawl.job))
    assert again.code == 2, "what is gone is not carried on as if it had never been"
    assert "pages.jsonl has 0 bytes" in again.err
    assert "crawler repair" in again.err
    repaired = repair(crawl.job)
    assert repaired.code == 0, repaired
    crawl.goes_on(crawl.job)


def test_the_output_is_replaced(crawl: Crawl, tmp_path: Path) -> None:
    """As an editor, or ``sed -i``, does: what came after the copy is fetched again."""

    def replace() -> None:
        shutil.copy(crawl.pages, tmp_path / "copy")
        (tmp_path / "copy").replace(crawl.pages)

    one_line(crawl.disturbed_by(replace), "pages.jsonl was replaced during the crawl")
    again = crawler(*crawl.words(crawl.job, "--max-pages", "1"))
    assert again.code in (0, 2), again
    if again.code == 2:  # a generation stands for records that came after the copy
        assert "were durable" in again.err
        assert repair(crawl.job).code == 0
    crawl.goes_on(crawl.job)


def test_the_output_is_cut_as_log_rotation_does(crawl: Crawl, tmp_path: Path) -> None:
    """``copytruncate``: no hole is left, not a line is lost, and the copy can be put back."""
    copy = tmp_path / "pages.jsonl.1"

    def rotate() -> None:
        shutil.copy(crawl.pages, copy)
        os.truncate(crawl.pages, 0)

    one_line(crawl.disturbed_by(rotate), "pages.jsonl was cut by another program", "put it back")
    assert b"\0" not in crawl.pages.read_bytes()
    assert len(crawl.pages.read_bytes()) < len(copy.read_bytes())
    again = crawler(*crawl.words(crawl.job))
    assert again.code == 2
    assert "were durable" in again.err
    copy.replace(crawl.pages)
    again = crawler(*crawl.words(crawl.job, "--max-pages", "1"))
    if again.code == 2:
        assert repair(crawl.job).code == 0
    crawl.goes_on(crawl.job)


def test_another_program_writes_to_the_output(crawl: Crawl) -> None:
    def write() -> None:
        with open(crawl.pages, "ab") as stream:
            stream.write(b"# a note\n")

    one_line(crawl.disturbed_by(write), "pages.jsonl was written to by another program")


def test_the_job_directory_is_removed(crawl: Crawl) -> None:
    def taken() -> None:  # at once: a crawl may notice the store first that is gone
        remove(crawl.job.rename(crawl.job.with_name("gone")))

    one_line(crawl.disturbed_by(taken), f"the job directory {crawl.job} was moved or removed")
    assert not crawl.job.exists()


def test_another_job_is_put_in_its_place(crawl: Crawl, tmp_path: Path) -> None:
    """What the crawl writes without care, history and ``live.json``, would replace those of the other job."""

    def swap() -> None:
        crawl.job.rename(tmp_path / "elsewhere")
        crawl.job.mkdir()
        (crawl.job / "history.json").write_text("of another job")

    one_line(crawl.disturbed_by(swap), f"the job directory {crawl.job} was moved or removed")
    assert (crawl.job / "history.json").read_text() == "of another job"


def test_the_store_is_removed(crawl: Crawl) -> None:
    store = crawl.job / "store"
    one_line(crawl.disturbed_by(lambda: remove(store)), f"{store} was moved or removed during the crawl")
    assert crawler(*crawl.words(crawl.job)).code == 2
    repaired = repair(crawl.job)
    assert repaired.code == 0, repaired
    assert crawler(*crawl.words(crawl.job, "--max-pages", "20")).code == 0
    assert verify(crawl.job).findings == []


# -- what is found when the job is opened ------------------------------------------------------------------------


@pytest.fixture
def stopped_here(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], Ran]]]:
    with stopped_job(tmp_path, 15, 30) as made:
        yield made.job, lambda: made.resume(made.job)


@pytest.mark.parametrize(("start", "length"), [(0, 4_096), (0, 100), (4_096, 4_096)])
def test_a_hole_in_what_was_durable(stopped_here: tuple[Path, Callable[[], Ran]], start: int, length: int) -> None:
    """What versions before this one left behind where the file was cut under them, and what a bad disk leaves."""
    job, resume = stopped_here
    pages = job / "pages.jsonl"
    data = pages.read_bytes()
    assert len(data) > 2 * 4_096
    with open(pages, "r+b") as stream:
        stream.truncate(start)
        stream.seek(start + length)
        stream.write(data[start + length :])
    ran = resume()
    assert ran.code == 2, ran
    (line,) = ran.err.splitlines()
    assert f"pages.jsonl is damaged at offset {start}" in line
    assert "crawler repair" in line
    assert verify(job).code == 1
    assert repair(job).code == 0
    ran = resume()
    assert ran.code == 0, ran
    urls = [row["url"] for row in rows(job)]
    assert len(urls) == len(set(urls))
    assert verify(job).code == 0


def test_the_last_durable_record_is_overwritten(stopped_here: tuple[Path, Callable[[], Ran]]) -> None:
    job, resume = stopped_here
    pages = job / "pages.jsonl"
    data = pages.read_bytes()
    pages.write_bytes(data[:-10] + bytes(10))
    ran = resume()
    assert ran.code == 2, ran

"""What is kept of pages besides their records: written with these in one step, and cut and carried on with them."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import OutputSettings, Settings
from crawler.frontier.request_outcome import RequestOutcome
from crawler.job.directory import JobError
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.output.outputs import FORMS
from crawler.job.platform import Platform
from crawler.job.records import Outcome, PageRecord, Part
from crawler.job.verdict import Draft, RobotsAnswer
from crawler.url.urls.canonicaliser import Canonical
from tests.durability.power import SETTINGS, Inline
from tests.faulty_disk import Fault, FaultyDisk
from tests.faulty_store import FaultyStore
from tests.outputs import files_of, parts_of, records

WARC, LINKS, TEXT, _ = FORMS
KEEPING = replace(SETTINGS, output=OutputSettings(file_size=50))
WITH_ROBOTS = replace(KEEPING, robots=Settings().robots)


class FillingDisk(FaultyDisk):
    """Is full at the write with a given number from now on, and at the next."""

    left = -9

    def fill_at(self, number: int) -> None:
        self.left = number

    def meet(self, operation: str) -> Fault | None:
        found = super().meet(operation)
        self.left -= operation == "pwrite"
        full = operation == "pwrite" and self.left in (0, -1)
        return Fault("pwrite", 0, errno.ENOSPC) if full else found


class Bench:
    """A job whose pages keep two parts each, and its store."""

    def __init__(self, directory: Path, settings: Settings = KEEPING) -> None:
        self.job = directory / "job"
        self.store = FaultyStore()
        self.settings = settings
        self.number = 0

    @contextmanager
    def opened(self, seed: int = 0) -> Iterator[Job]:
        self.disk = FillingDisk(random.Random(self.number + seed))
        with closing(Job(self.job, self.settings, 0.0, Platform(self.disk, lambda _: self.store, Inline))) as job:
            yield job

    def finish(self, job: Job, pages: int) -> None:
        """Admit and finish so many pages. The third of each four keeps nothing."""
        urls = [f"http://h.test/{self.number + number}" for number in range(pages)]
        job.admit(Found([Canonical(url, url) for url in urls], 0))
        self.finish_rest(job)

    def finish_rest(self, job: Job) -> None:
        while (lease := job.frontier.take(1.0)) is not None:
            assert lease.entry is not None
            self.number += 1
            record = PageRecord(lease.entry, Outcome.FETCHED, 1.0, 200)
            job.finish(lease, Draft(record, kept=kept_of(lease.entry.href)), 1.0)

    def holds(self, pages: int) -> None:
        """Each page is there once, with its parts."""
        found = {record["url"] for record in records(self.job)}
        assert len(found) == len(records(self.job)) == pages
        for name, kind in (("warc", WARC), ("links", LINKS)):
            wanted = {url: part.data for url in found for part in kept_of(url) if part.kind == kind}
            assert parts_of(self.job, name) == wanted


def kept_of(href: str) -> tuple[Part, ...]:
    if href.endswith(("3", "7")):
        return ()
    name = href.encode()
    return Part(WARC, b"<" + name + b">" * 9), Part(LINKS, b"[" + name + b"]\n")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_parts_are_written_with_their_record_and_in_files_of_a_size(bench: Bench) -> None:
    with bench.opened() as job:
        bench.finish(job, 8)
        assert job.files.outputs.sizes()["warc"] == (3, sum(map(len, files_of(bench.job, "warc").values())))
    bench.holds(8)
    assert [len(data) for data in files_of(bench.job, "warc").values()] == [50, 50, 50]
    with bench.opened() as job:
        bench.finish(job, 3)
    bench.holds(11)


def blank(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


LOSSES: dict[str, Callable[[Path], None]] = {
    "its end": lambda path: os.truncate(path, path.stat().st_size - 1),
    "all": lambda path: os.truncate(path, 0),
    "zeros": blank,
    "the file": Path.unlink,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["warc", "links"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_page_of_which_one_output_lost_its_part_is_fetched_again_with_all_later_ones(
    bench: Bench, name: str, number: int, loss: str
) -> None:
    with bench.opened() as job:
        bench.finish(job, 9)
    (form,) = (form for form in FORMS.values() if form.name == name)
    path = form.path(bench.job, number)
    LOSSES[loss](path)
    # Killed right after it was taken up, twice.
    for _ in range(2):
        with bench.opened() as job:
            assert 0 < job.frontier.queued <= 9
            assert job.counters.done + job.counters.pending == 9
    bench.holds(9 - job.counters.pending)
    with bench.opened() as job:
        bench.finish_rest(job)
    bench.holds(9)


def test_what_was_never_journalled_is_cut_off(bench: Bench) -> None:
    with bench.opened() as job:
        bench.finish(job, 5)
    for form in FORMS.values():
        (bench.job / form.name).mkdir(exist_ok=True)
        numbers = form.numbers(bench.job)
        if numbers:
            with open(form.path(bench.job, numbers[-1]), "ab") as last:
                last.write(b"torn")
        form.path(bench.job, len(numbers) + 1).write_bytes(b"never named")
        form.path(bench.job, len(numbers) + 3).write_bytes(b"")
    other = bench.job / "links" / "notes.txt"
    other.write_text("mine")
    with bench.opened() as job:
        assert job.counters.pending == 0
    bench.holds(5)
    assert not files_of(bench.job, "text")
    assert other.read_text() == "mine", "only what the crawl made is its own"


@pytest.mark.parametrize("name", ["warc", "links"])
async def test_durable_parts_that_are_gone_are_left_to_repair(bench: Bench, name: str) -> None:
    with bench.opened() as job:
        bench.finish(job, 5)
        assert (await job.checkpoint(0.0)).manifest is not None
    files = files_of(bench.job, name)
    path = next(form.path(bench.job, max(files)) for form in FORMS.values() if form.name == name)
    before = path.read_bytes()
    for damage in (b"", before[:-1], bytes(len(before)), before[:-1] + b"?"):
        path.write_bytes(damage)
        with pytest.raises(JobError, match=rf"{path.name} .*crawler repair"), bench.opened():
            pass
    path.unlink()
    with pytest.raises(JobError, match=rf"{path.name} has 0 bytes, but {len(before)} were durable"), bench.opened():
        pass
    path.write_bytes(before)
    with bench.opened() as job:
        assert job.counters.pending == 0


async def test_full_files_that_are_durable_may_be_moved_away(bench: Bench) -> None:
    with bench.opened() as job:
        bench.finish(job, 9)
        await job.checkpoint(0.0)
    first = FORMS[WARC].path(bench.job, 1)
    first.rename(bench.job / "elsewhere")
    with bench.opened() as job:
        bench.finish(job, 4)
    (bench.job / "elsewhere").rename(first)
    bench.holds(13)


@pytest.mark.parametrize("first", range(1, 17))
def test_a_disk_that_is_full_within_the_parts_of_a_record_pauses_the_step(bench: Bench, first: int) -> None:
    """Whatever write finds it full, and then finds it full again: nothing is written twice."""
    with bench.opened() as job:
        bench.disk.fill_at(first)
        urls = [f"http://h.test/{number}" for number in range(6)]
        job.admit(Found([Canonical(url, url) for url in urls], 0))
        tries = 0
        while (lease := job.frontier.take(1.0)) is not None:
            assert lease.entry is not None
            record = PageRecord(lease.entry, Outcome.FETCHED, 1.0, 200)
            job.finish(lease, Draft(record, kept=kept_of(lease.entry.href)), 1.0)
            while job.blocked is not None:
                tries += 1
                job.writer.write_again()
        assert tries == 2
    bench.holds(6)
    with bench.opened() as job:
        assert job.counters.pending == 0
    bench.holds(6)


def test_a_robots_txt_whose_part_is_lost_is_fetched_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WITH_ROBOTS)

    def ask(job: Job, now: float) -> None:
        lease = job.frontier.take(now)
        assert lease is not None
        assert lease.entry is None, "its robots.txt first"
        kept = (Part(WARC, b"(robots)"),)
        job.robots_known(lease, RobotsAnswer(b"stored", now + 1e6, None, RequestOutcome(), Found([], 1), kept), now)

    with bench.opened() as job:
        job.admit(Found([Canonical("http://h.test/1", "http://h.test/1")], 0))
        ask(job, 1.0)
        lease = job.frontier.take(10.0)
        assert lease is not None
        assert lease.entry is not None
        job.finish(lease, Draft(PageRecord(lease.entry, Outcome.FETCHED, 10.0, 200)), 10.0)
        assert job.counters.robots_fetched == 1
    with bench.opened() as job:
        assert job.counters.done == 1
    os.truncate(FORMS[WARC].path(bench.job, 1), 3)
    with bench.opened() as job:
        assert (job.counters.robots_fetched, job.counters.done, job.counters.pending) == (0, 0, 1), "later ones too"
        assert job.store.get(Family.ROBOTS, b"h.test:80") is None
        assert files_of(bench.job, "warc") == {}
        ask(job, 20.0)
    assert files_of(bench.job, "warc") == {1: b"(robots)"}

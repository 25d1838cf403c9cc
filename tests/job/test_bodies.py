"""Bodies are files that are named by their digest: there with the record that names them, each once, and whole."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from crawler.base.disk import DisplacedError, RealDisk
from crawler.frontier.entry import Entry
from crawler.job.job import Job
from crawler.job.output.body_files import LARGE, BodyFiles, body_of
from crawler.job.records import Body, Outcome, PageRecord, Part, body_name, encode_page
from crawler.job.verdict import Draft
from tests.faulty_disk import Fault
from tests.job.test_kept import LINKS, Bench, FillingDisk
from tests.outputs import bodies_of, records


def data_of(href: str) -> bytes:
    """Each fourth page has the body of the first."""
    number = int(href.rpartition("/")[2])
    return b"body %d" % (0 if number % 4 == 0 else number)


def body(data: bytes, cut: str | None = None) -> Body:
    return Body(sha256(data).digest(), data, cut)


class BodyBench(Bench):
    """A job whose pages keep their bodies, and a link each."""

    def finish_rest(self, job: Job) -> None:
        while (lease := job.frontier.take(1.0)) is not None:
            assert lease.entry is not None
            self.number += 1
            href = lease.entry.href
            kept = (body(data_of(href)), Part(LINKS, b"[" + href.encode() + b"]\n"))
            record = PageRecord(lease.entry, Outcome.FETCHED, 1.0, 200, size=len(data_of(href)))
            job.finish(lease, Draft(record, kept=kept), 1.0)
            while job.blocked is not None:
                job.writer.write_again()

    def holds(self, pages: int) -> None:
        assert bodies_of(self.job) == {url: data_of(url) for url in (f"http://h.test/{n}" for n in range(pages))}


@pytest.fixture
def bench(tmp_path: Path) -> BodyBench:
    return BodyBench(tmp_path)


def test_each_page_has_its_body_and_equal_ones_share_a_file(bench: BodyBench) -> None:
    with bench.opened() as job:
        bench.finish(job, 9)
        assert job.files.outputs.sizes()["bodies"] == (7, 7 * 6)
    bench.holds(9)
    assert len([path for path in (bench.job / "bodies").rglob("*") if path.is_file()]) == 7
    with bench.opened() as job:
        assert job.files.outputs.sizes()["bodies"] == (7, 7 * 6), "the store counts them"


def test_a_record_names_its_file_and_says_why_it_is_not_whole() -> None:
    record = PageRecord(Entry("http://h.test/", 0, None), Outcome.FETCHED, 1.0, 200)
    found = json.loads(encode_page(record, (), body(b"abc", "length")))
    assert found["body"] == "bodies/ba/78/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert found["body_cut"] == "length"
    assert body_of(found) == found["body"]
    assert "body_cut" not in json.loads(encode_page(record, (), body(b"abc")))


LOSSES: dict[str, Callable[[Path], object]] = {
    "the file": Path.unlink,
    "its end": lambda path: os.truncate(path, 3),
    "zeros": lambda path: path.write_bytes(bytes(6)),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("number", [1, 5])
def test_a_page_whose_body_is_lost_is_fetched_again_with_all_later_ones(
    bench: BodyBench, number: int, loss: str
) -> None:
    with bench.opened() as job:
        bench.finish(job, 7)
    record = next(record for record in records(bench.job) if record["url"].endswith(f"/{number}"))
    LOSSES[loss](bench.job / record["body"])
    for _ in range(2):  # killed right after it was taken up
        with bench.opened() as job:
            assert job.counters.pending == 7 - number
    bench.holds(number)
    with bench.opened() as job:
        bench.finish_rest(job)
    bench.holds(7)


async def test_a_body_that_is_durable_may_be_moved_away(bench: BodyBench) -> None:
    with bench.opened() as job:
        bench.finish(job, 3)
        await job.checkpoint(0.0)
    (bench.job / "bodies").rename(bench.job / "elsewhere")
    with bench.opened() as job:
        assert job.counters.pending == 0


def test_what_a_killed_process_left_is_used_or_replaced(bench: BodyBench) -> None:
    bench.job.mkdir()
    whole, torn, part = (bench.job / body_name(sha256(data_of(f"x/{n}")).digest()) for n in (1, 2, 3))
    for path in (whole, torn, part):
        path.parent.mkdir(parents=True)
    whole.write_bytes(data_of("x/1"))
    torn.write_bytes(data_of("x/2")[:4])
    part.with_name(f"{part.name}.part").write_bytes(b"longer than the body that it was to be")
    inode = whole.stat().st_ino
    files = BodyFiles(bench.job, RealDisk())
    for number in (1, 2, 3):
        files.put(body(data_of(f"x/{number}")))
    files.sync()
    assert whole.stat().st_ino == inode
    assert [path.read_bytes() for path in (whole, torn, part)] == [data_of(f"x/{n}") for n in (1, 2, 3)]
    assert not list(bench.job.rglob("*.part"))


@pytest.mark.parametrize("first", range(1, 14))
def test_a_disk_that_is_full_pauses_the_step_and_nothing_is_there_twice(bench: BodyBench, first: int) -> None:
    with bench.opened() as job:
        bench.disk.fill_at(first)
        bench.finish(job, 5)
        assert bench.disk.left < -1, "it was full"
        assert job.files.outputs.sizes()["bodies"] == (4, 4 * 6)
    bench.holds(5)
    assert not list(bench.job.rglob("*.part"))


async def test_bodies_that_were_synced_survive_a_power_loss(bench: BodyBench) -> None:
    """Also those that a process wrote which was killed before it could sync them."""
    with bench.opened() as job:
        bench.finish(job, 5)
    with bench.opened() as job:
        bench.finish(job, 4)
        await job.sync()
        bench.disk.lose_power()
    bench.store = bench.store.lose_power(random.Random(1))
    with bench.opened() as job:
        assert job.counters.pending == 0
    bench.holds(9)


@pytest.mark.parametrize("seed", range(6))
def test_bodies_that_were_not_synced_may_be_lost_but_not_missed(bench: BodyBench, seed: int) -> None:
    with bench.opened(seed) as job:
        bench.finish(job, 9)
        bench.disk.lose_power()  # and the store kept everything
    with bench.opened() as job:
        assert job.counters.done + job.counters.pending == 9
        bench.finish_rest(job)
    bench.holds(9)


async def test_bodies_that_went_before_they_were_durable_are_missed(bench: BodyBench) -> None:
    with bench.opened() as job:
        bench.finish(job, 2)
        (bench.job / "bodies").rename(bench.job / "elsewhere")
        with pytest.raises(DisplacedError, match=r"bodies .*was moved .*crawler repair"):
            await job.sync()


LONG = b"x" * (LARGE + 1)


def files(directory: Path, *faults: Fault) -> tuple[BodyFiles, Path]:
    disk = FillingDisk(random.Random(0), *faults)
    return BodyFiles(directory, disk), directory / body_name(sha256(LONG).digest())


def test_a_large_body_is_written_ahead_and_counts_with_its_page(tmp_path: Path) -> None:
    found, path = files(tmp_path)
    found.write_ahead(body(LONG))
    assert path.read_bytes() == LONG
    assert found.size == (0, 0)
    path.unlink()  # so that a second write would show
    found.put(body(LONG))
    assert found.size == (1, LARGE + 1)
    assert not path.exists()

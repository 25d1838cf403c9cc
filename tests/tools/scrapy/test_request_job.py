"""The job of requests that another fetcher makes. Nothing here needs Scrapy."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.cli import main
from crawler.frontier.entry import Entry
from crawler.frontier.order import Place, class_of
from crawler.inspect.job_reader import job_stats
from crawler.job.directory import JobError
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.found import Brought
from crawler.job.identity import read_identity
from crawler.job.platform import Platform
from crawler.job.records import Outcome
from crawler.job.store.rocks import RequestStore
from crawler.tools.scrapy.job_settings import FETCHER, settings_of_job
from crawler.tools.scrapy.request_job import Ending, RequestJob, Taken
from tests.faulty_disk import FaultyDisk
from tests.faulty_store import FaultyStore
from tests.jobs import rows, verify
from tests.program import ROOT, wait_until

DONE = Ending(Outcome.FETCHED, 200)


class Clock:
    """Seconds since 1970 that pass when a test says so."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def request(name: str, host: str = "h.test", priority: int = 0, *, last: bool = False, newest: bool = True) -> Brought:
    entry = Entry(f"http://{host}/#{name}", 0, priority=class_of(priority))
    return Brought(name, entry, Place(priority, last, newest and not last), f"bytes of {name}".encode())


def opened(directory: Path, clock: Clock, platform: Platform | None = None, per_host: int = 100) -> RequestJob:
    """On another platform nothing is synced but what a test syncs."""
    given = {} if platform is None else {"durability": {"sync_interval": 3600.0}}
    return RequestJob(directory, settings_of_job(directory, per_host, 16, given), clock, platform)


@contextmanager
def job_in(directory: Path, per_host: int = 100) -> Iterator[RequestJob]:
    with closing(opened(directory, Clock(), per_host=per_host)) as job:
        yield job


def bring(job: RequestJob, *brought: Brought) -> None:
    for each in brought:
        job.bring(each)
    assert job.flush()


def take_all(job: RequestJob) -> list[Taken]:
    taken = []
    while (each := job.take()) is not None:
        taken.append(each)
    return taken


def names(taken: list[Taken]) -> list[str]:
    return [each.name for each in taken]


def stored(job: RequestJob) -> list[str]:
    """The requests whose bytes are stored."""
    return [name.decode() for name, _ in job.job.store.rows(Family.REQUESTS) if not name.startswith(b"+")]


def kill(job: RequestJob) -> None:
    """Leave the job as SIGKILL does."""
    job.job.close()


def test_the_larger_priority_goes_first_and_then_the_newest(tmp_path: Path) -> None:
    with job_in(tmp_path / "job") as job:
        bring(
            job,
            request("start-1", last=True),
            request("start-2", last=True),
            request("old"),
            request("least", priority=-(10**30)),
            request("new"),
            request("hundred", priority=100),
            request("most", priority=1_790_000_001),
            request("nearly", priority=1_790_000_000),
            request("minus", priority=-1),
        )
        order = ["most", "nearly", "hundred", "new", "old", "start-1", "start-2", "minus", "least"]
        assert names(take_all(job)) == order


def test_the_order_lasts_over_a_kill_and_a_small_window(tmp_path: Path) -> None:
    job = opened(tmp_path / "job", Clock())
    bring(job, *(request(str(number), priority=number % 7) for number in range(200)))
    kill(job)
    with job_in(tmp_path / "job", per_host=1000) as again:
        wanted = sorted(range(200), key=lambda number: (-(number % 7), -number))
        assert names(take_all(again)) == [str(number) for number in wanted]


def test_hosts_take_turns_and_none_has_more_out_than_it_may(tmp_path: Path) -> None:
    with job_in(tmp_path / "job", per_host=2) as job:
        bring(job, *(request(f"{host}{number}", f"{host}.test") for host in "abc" for number in range(3)))
        taken = take_all(job)
        assert sorted(name[0] for name in names(taken)) == ["a", "a", "b", "b", "c", "c"]
        assert len({name[0] for name in names(taken)[:3]}) == 3, "one of each first"
        assert job.waiting == 3
        (first,) = (each for each in taken if each.name == names(taken)[0])
        job.answered(first)
        assert [name[0] for name in names(take_all(job))] == [first.name[0]], "its callback is not the host's time"
        job.allow(3)
        assert job.waiting == 2
        assert len(take_all(job)) == 2


def test_what_was_out_comes_again_after_a_kill_and_what_is_done_does_not(tmp_path: Path) -> None:
    job = opened(tmp_path / "job", Clock())
    bring(job, *(request(name) for name in "abc"))
    taken = {each.name: each for each in take_all(job)}
    assert taken["a"].stored == b"bytes of a"
    job.end(taken["a"], DONE)
    job.bring(request("found on a"))
    job.answered(taken["b"])
    assert job.flush()
    job.end(taken["c"], DONE)  # not written
    kill(job)

    with job_in(tmp_path / "job") as again:
        assert verify(tmp_path / "job").code == 0
        assert again.knows("a")
        assert not again.knows("never brought")


def test_a_request_and_what_makes_it_known_are_one_step(tmp_path: Path) -> None:
    job = opened(tmp_path / "job", Clock())
    job.bring(request("a"))
    assert job.knows("a"), "it is known before it is written"
    kill(job)
    with job_in(tmp_path / "job") as again:
        assert not again.knows("a")
        assert again.waiting == 0


def test_the_bytes_of_a_request_go_when_its_end_is_durable(tmp_path: Path) -> None:
    clock = Clock()
    job = opened(tmp_path / "job", clock)
    bring(job, request("a"), request("b"))
    for taken in take_all(job):
        job.end(taken, DONE)
    assert job.flush()
    assert stored(job) == ["a", "b"]
    clock.now += 2.0
    wait_until(lambda: job.flush() and stored(job) == [], "the sync has ended, and their bytes are gone")
    kill(job)


def test_after_power_loss_a_request_whose_end_is_undone_has_its_bytes(tmp_path: Path) -> None:
    for seed in range(20):
        chance = random.Random(seed)
        clock, store, disk = Clock(), FaultyStore(), FaultyDisk(chance)
        directory = tmp_path / str(seed)
        job = opened(directory, clock, Platform(disk, lambda _, made=store: made, fetcher=FETCHER))  # type: ignore[misc]
        bring(job, *(request(str(number)) for number in range(12)))
        job.sync()
        durable: set[str] = set()
        for number, taken in enumerate(take_all(job)):
            job.end(taken, DONE)
            clock.now += 0.3
            assert job.flush()
            if number == 5:
                job.sync()
                durable = {each.partition("#")[2] for each in (row["url"] for row in rows(directory))}
        found = store.lose_power(chance)
        kill(job)
        disk.lose_power()

        again = opened(directory, clock, Platform(disk, lambda _, made=found: made, fetcher=FETCHER))  # type: ignore[misc]
        done = {row["url"].partition("#")[2] for row in rows(directory)}
        left = {taken.name: taken.stored for taken in take_all(again)}
        assert durable <= done
        assert done | set(left) == {str(number) for number in range(12)}
        assert not done & set(left)
        assert left == {name: f"bytes of {name}".encode() for name in left}
        kill(again)


def test_on_a_full_disk_nothing_is_lost_and_nothing_handed_out(tmp_path: Path) -> None:
    clock, store = Clock(), FaultyStore()
    job = opened(tmp_path / "job", clock, Platform(FaultyDisk(random.Random(1)), lambda _: store, fetcher=FETCHER))
    bring(job, request("a"))
    (a,) = take_all(job)
    store.full = True
    job.bring(request("b"))
    job.end(a, DONE)
    assert not job.flush()
    job.bring(request("c"))
    assert not job.flush()
    assert job.knows("b")
    store.full = False
    assert job.flush()
    assert sorted(names(take_all(job))) == ["b", "c"]
    job.close()


def test_verify_finds_a_request_that_is_gone(tmp_path: Path) -> None:
    with job_in(tmp_path / "job") as job:
        bring(job, request("a"), request("b"))
    assert verify(tmp_path / "job").code == 0
    store = RequestStore(tmp_path / "job" / "store")
    batch = store.batch()
    batch.delete(Family.REQUESTS, b"a")
    store.write(batch)
    store.close()
    checked = verify(tmp_path / "job")
    assert (checked.code, checked.kinds) == (1, {"request-missing"})
    with job_in(tmp_path / "job") as job:
        assert {taken.name: taken.stored for taken in take_all(job)} == {"a": None, "b": b"bytes of b"}


def test_the_status_is_shown_while_it_runs(tmp_path: Path) -> None:
    with job_in(tmp_path / "job") as job:
        bring(job, request("a", "a.test"), request("b", "b.test"), request("c", "b.test"))
        job.clock.now += 1.0  # type: ignore[attr-defined]
        assert job.take() is not None
        assert job.flush()
        stats = job_stats(tmp_path / "job")
        assert stats["state"] == "running"
        assert (stats["urls_in_flight"], stats["urls_pending"], stats["hosts"]) == (1, 2, 2)
        assert main(["stats", str(tmp_path / "job")]) == 0
    assert job_stats(tmp_path / "job")["state"] == "stopped"


@pytest.mark.parametrize(
    "words",
    [
        ("add", "JOB", "http://h.test/"),
        ("retry", "JOB", "--failed"),
        ("priority", "JOB", "/a/*", "1"),
        ("forget", "JOB", "http://h.test/"),
        ("repair", "JOB"),
        ("crawl", "SEEDS", "--job", "JOB", "--quiet"),
    ],
    ids=lambda words: words[0],
)
def test_commands_for_crawls_refuse_it_in_one_line(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    seeds.write_text("http://127.0.0.1:1/\n")
    with job_in(job) as made:
        bring(made, request("a"))
    before = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}

    code = main([{"JOB": str(job), "SEEDS": str(seeds)}.get(word, word) for word in words])

    assert code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(job) in said
    assert {path: path.read_bytes() for path in job.rglob("*") if path.is_file()} == before


def test_a_crawl_of_the_command_line_is_no_job_for_a_spider(tmp_path: Path) -> None:
    with DurableFrontier(tmp_path / "job") as frontier:
        frontier.add("http://h.test/")
    with pytest.raises(JobError, match="contains a crawl of the command line, which Scrapy cannot resume: name"):
        opened(tmp_path / "job", Clock())
    assert read_identity(tmp_path / "job").fetcher is None
    with job_in(tmp_path / "other"):
        assert read_identity(tmp_path / "other").fetcher == FETCHER


def test_what_shaped_a_job_stays(tmp_path: Path) -> None:
    small = {"seen": {"kind": "digest", "capacity": 2**10}}
    job = RequestJob(tmp_path / "job", settings_of_job(tmp_path / "job", 8, 16, small), Clock())
    bring(job, request("a"))
    job.close()
    assert settings_of_job(tmp_path / "job", 8, 16, {}).seen.capacity == 2**10
    with pytest.raises(JobError, match=r'CRAWLER_SEEN cannot change .*was "digest", now "bloom"'):
        settings_of_job(tmp_path / "job", 8, 16, {"seen": {"kind": "bloom"}})


def test_scrapy_is_imported_by_those_who_use_it() -> None:
    program = (
        "import sys, crawler, crawler.cli, crawler.tools.scrapy, crawler.tools.scrapy.request_job; "
        "assert not any(name == 'scrapy' or name.startswith(('scrapy.', 'twisted')) for name in sys.modules); "
        "assert crawler.tools.scrapy.__name__ == 'crawler.tools.scrapy'"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")

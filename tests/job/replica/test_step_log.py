"""The log of a job: what several readers find in it, and what it costs nobody who has none."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from crawler.base.disk import FaultyDisk
from crawler.base.kv import Family
from crawler.base.settings import PartitionSettings, Settings
from crawler.job.checkpointer import drive
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.kept_steps import KeptSteps, StepRoom
from crawler.job.platform import Platform
from crawler.job.records import Body, file_number, kind_of
from crawler.job.replica import START, Mark, Written
from crawler.job.step_log import MARK, StepLog, leaves_out
from crawler.job.store import FaultyStore
from crawler.job.transaction import Transaction
from crawler.url.urls import Canonical

LINE = 7


def logged(steps: int, *, size: int = 100, most: int = 10_000, keep: bool = True) -> StepLog:
    """A log with so many steps, whose batches have a value of that size."""
    log = StepLog(LINE, most)
    if keep:
        log.keep()
    for _ in range(steps):
        transaction = Transaction()
        transaction.batch.put(Family.HOSTS, b"h", bytes(size))
        log.stamp(transaction)
        log.add(transaction)
    return log


def test_two_readers_get_the_same_steps_each_from_its_own_mark() -> None:
    log = logged(5)
    whole = log.after(START, 3)
    later = log.after(Mark(LINE, 3), 3)
    assert whole is not None
    assert later is not None
    assert (whole.first, len(whole.steps), whole.reaches) == (1, 5, log.mark)
    assert later.steps == whole.steps[3:]
    assert log.after(log.mark, 3) is None


def test_a_chunk_has_at_most_so_many_bytes_but_always_a_step() -> None:
    log = logged(5, size=100)
    first = log.after(START, 3, most=1)
    two = log.after(START, 3, most=350)
    assert first is not None
    assert two is not None
    assert (len(first.steps), len(two.steps)) == (1, 2)


def test_what_all_have_is_forgotten() -> None:
    log = logged(5)
    size = log.size
    log.forget(Mark(LINE, 2))
    assert not log.holds(START)
    assert not log.holds(Mark(LINE, 1))
    assert log.holds(Mark(LINE, 2))
    assert log.size == size * 3 // 5
    log.forget(log.mark)
    assert log.size == 0
    assert log.holds(log.mark)


def test_the_last_step_is_kept_however_large_it_is() -> None:
    log = logged(3, size=1_000, most=10_000)
    before = log.mark
    for size in (20_000, 30_000):
        transaction = Transaction()
        transaction.batch.put(Family.HOSTS, b"h", bytes(size))
        log.stamp(transaction)
        log.add(transaction)
        chunk = log.after(before, 3)
        assert chunk is not None, "who has all before it needs no copy"
        assert len(chunk.steps) == 1
        before = log.mark


def test_several_large_steps_are_kept_while_other_logs_leave_room() -> None:
    room = StepRoom(100_000)
    logs = [StepLog(LINE, 10_000, room=room) for _ in range(2)]
    for log in logs:
        log.keep()

    def add(log: StepLog, size: int) -> None:
        transaction = Transaction()
        transaction.batch.put(Family.HOSTS, b"h", bytes(size))
        log.stamp(transaction)
        log.add(transaction)

    for _ in range(3):
        add(logs[0], 30_000)
    assert logs[0].holds(START)
    add(logs[1], 9_000)
    assert logs[1].holds(START)
    add(logs[1], 9_000)
    assert not logs[1].holds(START), "beyond its own bound, and there is no room"
    assert logs[0].holds(START)
    logs[0].forget(logs[0].mark)
    for _ in range(3):
        add(logs[1], 30_000)
    assert logs[1].holds(Mark(LINE, 2))
    assert sum(log.size for log in logs) <= 100_000 + 2 * 10_000
    logs[0].drop()


def test_beyond_the_bound_the_oldest_go_and_who_needs_them_learns_it() -> None:
    log = logged(100, size=1_000)
    assert log.size <= 10_000
    assert not log.holds(START)
    with pytest.raises(ValueError, match="not kept"):
        log.after(START, 3)
    assert log.holds(Mark(LINE, 95))
    one = logged(2, size=20_000)  # no step fits
    assert (one.size < 25_000, one.holds(one.mark), one.holds(Mark(LINE, 1)), one.holds(START)) == (
        True,
        True,
        True,
        False,
    )


def test_nothing_is_kept_before_somebody_asks() -> None:
    log = logged(5, keep=False)
    assert (log.mark, log.size) == (Mark(LINE, 5), 0)
    assert not log.holds(log.mark)
    log.keep()
    assert log.holds(log.mark)
    assert not log.holds(Mark(LINE, 4))
    log.drop()
    assert not log.holds(log.mark)


def test_a_state_of_another_line_is_none_of_this_one() -> None:
    log = logged(5)
    assert not log.holds(Mark(LINE + 1, 3))
    assert not log.holds(Mark(LINE, 6))
    assert log.commits(Mark(LINE, 3)) == 3
    assert log.commits(Mark(LINE + 1, 3)) == -1
    assert log.commits(START) == 0


class Opened:
    """A job that is opened again and again."""

    def __init__(self, top: Path) -> None:
        self.directory = top / "job"
        self.store = FaultyStore()
        self._disk = FaultyDisk(random.Random(1))
        self._urls = 0

    def open(self, line: int, *, bodies: bool = True, followed: KeptSteps | None = None) -> Job:
        settings = Settings(partitions=PartitionSettings(replica_bodies=bodies))
        platform = Platform(self._disk, lambda _: self.store, line=line, followed=followed)
        return Job(self.directory, settings, 1_000.0, platform)

    def admit(self, job: Job) -> None:
        self._urls += 1
        href = f"http://a.test/{self._urls}"
        assert job.admit(Found([Canonical(href, href)], 0)) == 1


def test_an_opening_goes_on_with_the_replicas_of_the_one_before(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    job = opened.open(LINE)
    opened.admit(job)
    before = job.log.mark
    job.close()
    job = opened.open(LINE + 1)
    opened.admit(job)
    assert job.log.holds(before)
    chunk = job.log.after(before, 3)
    assert chunk is not None
    assert (chunk.follows, chunk.reaches) == (before, job.log.mark)
    assert opened.store.get(Family.META, MARK) == job.log.mark.encode()
    job.close()


def test_what_a_replica_was_sent_it_can_tell_others_when_it_is_the_job(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    job = opened.open(LINE)
    job.log.keep()
    begun, marks = job.log.mark, []
    for _ in range(3):
        opened.admit(job)
        marks.append(job.log.mark)
    job.close()
    kept = KeptSteps(begun, 10**6)
    chunk = job.log.after(begun, 3)
    assert chunk is not None
    for step in chunk.steps:
        kept.add(LINE, step)

    job = opened.open(LINE + 1, followed=kept)
    opened.admit(job)
    assert all(map(job.log.holds, marks))
    assert job.log.commits(marks[0]) == -1
    first = job.log.after(marks[0], 3)
    assert first is not None
    assert (first.line, first.follows, first.steps) == (LINE, marks[0], chunk.steps[1:])
    second = job.log.after(first.reaches, 3)
    assert second is not None
    assert (second.line, second.base, second.reaches) == (LINE + 1, LINE, job.log.mark)
    job.log.forget(marks[1])
    assert not job.log.holds(marks[0])
    assert job.log.holds(marks[1])
    job.close()
    job = opened.open(LINE + 2, followed=KeptSteps(begun, 10**6))
    assert not job.log.holds(begun), "these are not the steps up to its state"
    job.close()


def test_an_opening_whose_steps_have_something_else_begins_with_copies(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    for line, bodies in enumerate((True, False, False, True, True), LINE):
        goes_on = bodies != leaves_out(opened.store)
        before = Mark.decode(opened.store.get(Family.META, MARK))
        job = opened.open(line, bodies=bodies)
        opened.admit(job)
        assert job.log.holds(before) == (goes_on and before != START)
        job.log.keep()
        assert job.log.holds(before) == (goes_on and before != START)
        assert leaves_out(opened.store) != bodies
        job.close()
    opened.open(LINE, bodies=False).close()
    opened.open(0, bodies=False).close()
    assert not leaves_out(opened.store)


def test_steps_without_bodies_have_records_and_links() -> None:
    for bodies in (True, False):
        log, transaction = StepLog(LINE, bodies=bodies), Transaction()
        log.keep()
        transaction.written += [Written(file_number(kind, 1), 0, b"text") for kind in (1, 2, 3)]
        transaction.written.append(Written(0, 0, b"record"))
        transaction.bodies.append(Body(bytes(32), b"body"))
        log.add(transaction)
        chunk = log.after(START, 3)
        assert chunk is not None
        (step,) = chunk.steps
        assert [kind_of(each.file) for each in step.written] == ([1, 2, 3, 0] if bodies else [2, 0])
        assert len(step.bodies) == bodies


def test_a_job_without_a_log_has_no_mark(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    job = opened.open(0)
    opened.admit(job)
    assert opened.store.get(Family.META, MARK) is None
    job.close()
    opened.open(LINE).close()
    job = opened.open(0)
    opened.admit(job)
    assert opened.store.get(Family.META, MARK) is None, "no replica follows what is written now"
    job.close()


def test_others_rely_on_what_replicas_have(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    job = opened.open(LINE)
    opened.admit(job)
    held = job.log.mark
    drive(job.checkpointer.sync())
    assert job.durable == job.writer.commits
    assert job.durable_end == 0
    opened.admit(job)
    job.replicas_hold(held)
    drive(job.checkpointer.sync())
    assert job.checkpointer.durable == job.writer.commits
    assert job.durable == job.replicated == job.writer.commits - 1
    job.replicas_hold(job.log.mark)
    assert job.durable == job.writer.commits
    opened.admit(job)
    job.replicas_hold(job.log.mark)
    assert job.durable == job.writer.commits - 1, "it is not durable here"
    job.close()


@pytest.mark.parametrize("detached", [False, True])
def test_an_answer_waits_until_the_replicas_have_it_or_are_gone(tmp_path: Path, detached: bool) -> None:
    opened = Opened(tmp_path)
    job = opened.open(LINE)

    async def work() -> None:
        job.replicas_hold(job.log.mark)
        opened.admit(job)
        await job.sync()
        promise = asyncio.create_task(job.promise())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not promise.done()
        job.replicas_hold(None if detached else job.log.mark)
        await promise

    asyncio.run(asyncio.wait_for(work(), 10))
    job.close()

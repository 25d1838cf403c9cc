"""The durable frontier: add, take, finish with links or put back, killed at any moment."""

from __future__ import annotations

import errno
import json
import math
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import crawler
from crawler.base.settings.load import SettingsError
from crawler.frontier.front_queues import MOVED_MAX
from crawler.job.directory import JobError
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.platform import Platform
from tests.faulty_disk import FaultyDisk
from tests.faulty_store import FaultyStore
from tests.jobs import verify
from tests.program import ROOT

# A tree of 1,023 pages on 5 hosts. Each page is noted where an append of one line is atomic, before it is finished.
PROGRAM = """
import os, sys
import crawler

def url(number):
    return f"http://h{number % 5}.test/{number}"

notes = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
with crawler.Frontier(sys.argv[1], delay=0.0, sync_interval=0.02, checkpoint_interval=0.05) as frontier:
    frontier.add(url(1))
    for lease in frontier:
        number = int(lease.url.rpartition("/")[2])
        os.write(notes, f"{number}\\n".encode())
        children = [2 * number, 2 * number + 1]
        frontier.finish(lease, [url(child) for child in children if child < 1024])
    assert len(frontier) == 0
print("done")
"""


class Clock:
    """Seconds since 1970 that pass when a test says so."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def opened(directory: Path, clock: Clock, store: FaultyStore | None = None, **options: object) -> DurableFrontier:
    """On a disk and a store in memory where ``store`` is given."""
    platform = None if store is None else Platform(FaultyDisk(random.Random(1)), lambda _: store)
    return DurableFrontier(directory, clock=clock, platform=platform, **options)  # type: ignore[arg-type]


def finish_all(frontier: DurableFrontier, clock: Clock) -> dict[str, float]:
    """The URLs that are left, each finished as soon as it may be asked, and when that was."""
    met: dict[str, float] = {}
    while len(frontier):
        lease = frontier.take()
        if lease is None:
            ready = frontier.next_ready()
            assert ready is not None
            clock.now = ready
            continue
        assert lease.url not in met
        met[lease.url] = clock.now
        frontier.finish(lease)
    return met


def test_how_leases_end(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "job", clock, delay=0.0) as frontier:
        frontier.add([f"http://{host}.test/" for host in "abcde"])
        leases = {lease.url[7]: lease for lease in (frontier.take() for _ in range(5)) if lease is not None}
        assert repr(leases["a"]) == "<Lease http://a.test/>"
        frontier.put_back(leases["a"])
        frontier.retry(leases["b"], 30.0)
        frontier.throttle(leases["c"], 60.0)
        frontier.finish(leases["d"], error="no answer")
        assert frontier.finish(leases["e"], location="/elsewhere", status=301) == 1
        for lease in leases.values():
            with pytest.raises(ValueError, match="is not on lease"):
                frontier.finish(lease)
        assert len(frontier) == 4
        met = {url: at - Clock.now for url, at in finish_all(frontier, clock).items()}
        assert met["http://a.test/"] == met["http://e.test/elsewhere"] == 0
        assert met["http://b.test/"] == pytest.approx(30.0)
        assert met["http://c.test/"] >= 60.0
    rows = [json.loads(line) for line in (tmp_path / "job" / "pages.jsonl").read_text().splitlines()]
    failed, redirect = rows[:2]
    assert (failed["outcome"], failed["status"], failed["error"]) == ("failed", None, "no answer")
    assert (redirect["outcome"], redirect["location"]) == ("redirect", "http://e.test/elsewhere")


def test_scope_and_shape(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "job", clock, scope="host", seen="exact", exclude=("/private",)) as frontier:
        frontier.add("http://a.test/")
        lease = frontier.take()
        assert lease is not None
        assert frontier.finish(lease, ["/1", "http://b.test/", "/private"]) == 1
    with opened(tmp_path / "job", clock) as again:
        assert again.job.seen.statistics()["kind"] == "exact", "what shaped it need not be named again"
    with pytest.raises(JobError, match=r"seen\.kind"):
        opened(tmp_path / "job", clock, seen="bloom")
    with pytest.raises(TypeError, match="unknown option 'delays'"):
        opened(tmp_path / "job", clock, delays=1.0)
    with pytest.raises(SettingsError):
        opened(tmp_path / "job", clock, delay=-1.0)


def test_what_is_added_is_never_lost_to_a_false_positive(tmp_path: Path) -> None:
    options: dict[str, Any] = {"seen": "bloom", "capacity": 8, "fpp": 0.5, "scope": "any", "delay": 0.0}
    with DurableFrontier(tmp_path / "job", ledger=False, **options) as frontier:
        first, second = ([f"http://h{n % 3}.test/{part}/{n}" for n in range(400)] for part in "ab")
        assert frontier.add(first).admitted == 400
        hasty = frontier.add(second[:200], exact=False)
        assert hasty.known > 100, "the filter is full, and takes most URLs for known"
        answer = frontier.add(second)
        assert (answer.admitted, answer.known) == (400 - hasty.admitted, hasty.admitted)
        assert frontier.add([*first, *second]).admitted == 0
        assert len(frontier) == 800


def test_a_full_disk_refuses_the_next_call_and_loses_nothing(tmp_path: Path) -> None:
    clock, store = Clock(), FaultyStore()
    frontier = opened(tmp_path / "job", clock, store, delay=0.0)
    frontier.add(["http://a.test/", "http://b.test/"])
    lease = frontier.take()
    assert lease is not None
    store.fail_next_write = errno.ENOSPC
    frontier.finish(lease, ["/1"])
    store.fail_next_write = errno.ENOSPC  # there is no room yet
    with pytest.raises(OSError, match="free some space") as refused:
        frontier.take()
    assert refused.value.errno == errno.ENOSPC
    assert sorted(finish_all(frontier, clock)) == ["http://a.test/1", "http://b.test/"]
    frontier.close()
    again = opened(tmp_path / "job", clock, store)
    assert len(again) == 0
    again.close()


def test_after_power_loss_nothing_that_was_synced_is_gone(tmp_path: Path) -> None:
    chance = random.Random(3)
    clock, store, disk = Clock(), FaultyStore(), FaultyDisk(chance)
    frontier = DurableFrontier(tmp_path / "job", clock=clock, platform=Platform(disk, lambda _: store), delay=0.0)
    frontier.add([f"http://h.test/{number}" for number in range(20)])
    frontier.sync()
    durable = []
    for number in range(8):
        lease = frontier.take()
        assert lease is not None
        frontier.finish(lease, [f"/new/{number}"])
        if number < 4:
            frontier.sync()
            durable.append(lease.url)
    found = store.lose_power(chance)
    frontier.job.close()  # as the kernel closes the files of a machine that died
    disk.lose_power()
    with DurableFrontier(tmp_path / "job", clock=clock, platform=Platform(disk, lambda _: found), delay=0.0) as again:
        records = (tmp_path / "job" / "pages.jsonl").read_text().splitlines()
        done = [json.loads(line)["url"] for line in records]
        assert done[:4] == durable
        left = finish_all(again, clock)
    assert not set(done) & set(left)
    assert {f"http://h.test/{number}" for number in range(20)} <= set(done) | set(left)


def test_killed_again_and_again_it_loses_nothing(tmp_path: Path) -> None:
    """SIGKILL at random moments until a run comes to its end: every URL has one record, and is handed out again only
    where it was out when the program died."""
    chance = random.Random(11)
    job, notes = tmp_path / "job", tmp_path / "notes"
    kills = 0
    while True:
        command = [sys.executable, "-c", PROGRAM, str(job), str(notes)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            before = _size(notes)
            # Killed a while after it has begun to work; after some kills it may come to its end.
            wanted = before + chance.randint(1, 200) if kills < 6 else 10**9
            while process.poll() is None and _size(notes) < wanted:
                time.sleep(0.001)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            out = process.communicate(timeout=60)[0]
        if process.returncode == 0:
            assert out == b"done\n"
            break
        assert process.returncode == -signal.SIGKILL
    assert kills >= 3
    records = Counter(json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines())
    assert records == Counter({f"http://h{number % 5}.test/{number}": 1 for number in range(1, 1024)})
    handed_out = Counter(notes.read_text().split())
    assert sum(handed_out.values()) <= 1023 + kills, "at most the one that was out at each kill is handed out again"
    assert verify(job).code == 0


def _size(notes: Path) -> int:
    return notes.read_bytes().count(b"\n") if notes.exists() else 0


def test_a_wrong_argument_is_refused_and_the_frontier_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "f", clock) as frontier:
        frontier.add("http://a.test/")
        lease = frontier.take()
        assert lease is not None
        wrong: list[tuple[type[Exception], dict[str, Any]]] = [
            (TypeError, {"links": ["/b", None]}),
            (TypeError, {"links": "/b"}),
            (TypeError, {"status": "200"}),
            (TypeError, {"error": 5}),
            (TypeError, {"location": b"/b"}),
            (TypeError, {"now": "today"}),
            (ValueError, {"now": math.nan}),
        ]
        for error, arguments in wrong:
            with pytest.raises(error):
                frontier.finish(lease, **arguments)
        for seconds in (-1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match="number of seconds"):
                frontier.retry(lease, seconds)
            with pytest.raises(ValueError, match="number of seconds"):
                frontier.throttle(lease, seconds)
        with pytest.raises(TypeError, match="a URL must be a str, not int"):
            frontier.add(["http://b.test/", 5])  # type: ignore[list-item]
        assert frontier.finish(lease, ["/b"]) == 1
        clock.now += 100.0
        assert [*finish_all(frontier, clock)] == ["http://a.test/b"]
    assert verify(tmp_path / "f").code == 0


def test_a_closed_frontier_hands_out_nothing(tmp_path: Path) -> None:
    frontier = opened(tmp_path / "f", Clock(), delay=0.0, per_host=2)
    frontier.add(["http://a.test/", "http://a.test/b"])
    lease = frontier.take()
    assert lease is not None
    frontier.close()
    frontier.close()
    for call in (frontier.take, lambda: frontier.put_back(lease), lambda: frontier.add("http://b.test/")):
        with pytest.raises(ValueError, match="is closed"):
            call()


def test_many_hosts_that_become_due_at_once_do_not_hide_that_one_may_be_asked(tmp_path: Path) -> None:
    """So many that one step of the frontier does not put all in order."""
    with crawler.Frontier(tmp_path / "job") as frontier:
        frontier.add([f"http://h{number}.test/" for number in range(MOVED_MAX + 1)])
    with crawler.Frontier(tmp_path / "job") as frontier:
        assert frontier.take(time.time() + 10.0) is not None

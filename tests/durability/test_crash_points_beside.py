"""``add`` and ``repair`` killed at every named place, given again, and the job then held to account."""

from __future__ import annotations

import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler.base.disk import CRASH_AT, RealDisk
from crawler.base.kv import Family
from crawler.job.inbox import INBOX, Inbox
from crawler.job.recovery import REPAIRING, stored_counters
from tests.crash_points import POINTS, SIDE_POINTS
from tests.jobs import PAGES, Stopped, flip, killed_job, repair, rows, store_of, verify
from tests.program import crawler
from tests.site import tree

SOURCE = Path(__file__).resolve().parents[2] / "crawler"


def test_each_place_has_one_name_and_each_name_one_place() -> None:
    text = "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
    named = re.findall(r'(?:failpoint\(|replace_file\([^\n]*, )"([a-z.]+)"', text)
    assert Counter(named) == Counter(POINTS)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """Killed after generations were written: everything is in the log."""
    with killed_job(tmp_path_factory.mktemp("killed"), checkpoint_interval=0.01) as made:
        made.site.pages["/extra"] = "end"
        yield made


@pytest.fixture
def job(killed: Stopped, tmp_path: Path) -> Path:
    return killed.copy(tmp_path / "job")


def held_to_account(killed: Stopped, job: Path, *extra: str) -> None:
    ran = killed.resume(job)
    assert ran.code == 0, ran.err
    wanted = {killed.site.url(path) for path in (*tree(PAGES), *extra)}
    assert Counter(row["url"] for row in rows(job)) == Counter(wanted)
    assert verify(job).code == 0, verify(job)


# -- add -------------------------------------------------------------------------------------------------------


def nothing_promised(job: Path) -> bool:
    return not Inbox(job, RealDisk()).waiting() and any((job / INBOX).glob("*.part"))


def admitted_only(job: Path) -> bool:
    return len(Inbox(job, RealDisk()).waiting()) == 1 and not any((job / INBOX).glob("*.answer"))


def answered(job: Path) -> bool:
    return len(Inbox(job, RealDisk()).waiting()) == 1 and any((job / INBOX).glob("*.answer"))


ADD: dict[str, Callable[[Path], bool]] = {
    "inbox.written": nothing_promised,
    "inbox.admitted": admitted_only,
    "inbox.answered": answered,
}


@pytest.mark.parametrize("point", ADD)
def test_urls_that_are_added(killed: Stopped, job: Path, point: str) -> None:
    url = killed.site.url("/extra")
    ran = crawler("add", job, url, env={CRASH_AT: point})
    assert ran.code == -signal.SIGKILL, f"{point} was not reached"
    assert ADD[point](job), "the place is where its name says"
    if point == "inbox.written":
        assert crawler("add", job, url).out == "1 admitted, 0 known, 0 out of scope, 0 invalid\n"
    held_to_account(killed, job, "/extra")


# -- repair ----------------------------------------------------------------------------------------------------


def log_of(job: Path) -> Path:
    (log,) = (path for path in (job / "store").glob("*.log") if path.stat().st_size)
    return log


def damage(job: Path) -> None:
    """In the log, and in the last record: of that one the journal has the address for sure."""
    log = log_of(job)
    flip(log, log.stat().st_size // 3)
    pages = job / "pages.jsonl"
    data = pages.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 3
    pages.write_bytes(data[:last] + bytes(20) + data[last + 20 :])


STATES: dict[str, Callable[[Path], bool]] = {
    "repair.built": lambda job: (job / "store.part").exists() and not (job / "store.repaired").exists(),
    "repair.ready": lambda job: bytes(20) in (job / "pages.jsonl").read_bytes() and (job / "store.repaired").exists(),
    "repair.output": lambda job: bytes(20) not in (job / "pages.jsonl").read_bytes() and (job / "store").exists(),
    "repair.aside": lambda job: (job / "store.repaired").exists() and not (job / "store").exists(),
    "repair.placed": lambda job: counted(job) and says_so(job) and not (job / "seen").exists(),
    "repair.done": lambda job: says_so(job) and any((job / "seen").iterdir()),
}


def says_so(job: Path) -> bool:
    with store_of(job) as store:
        return store.get(Family.META, REPAIRING) is not None


def counted(job: Path) -> bool:
    with store_of(job) as store:
        counters = stored_counters(store)
        return counters.pending == len(store.scan(Family.PENDING, b""))


def test_every_place_is_tried() -> None:
    assert (*ADD, *STATES) == SIDE_POINTS


@pytest.mark.parametrize("point", STATES)
def test_a_repair(killed: Stopped, job: Path, point: str) -> None:
    damage(job)
    ran = crawler("repair", job, env={CRASH_AT: point})
    assert ran.code == -signal.SIGKILL, f"{point} was not reached: {ran.out}{ran.err}"
    shutil.copytree(job, job.with_name("looked-at"))
    assert STATES[point](job.with_name("looked-at")), "the place is where its name says"
    refused = killed.resume(job)
    assert refused.code in (1, 2), "no crawl begins on half a repair"
    assert refused.err.count("\n") == 1
    assert "`crawler repair" in refused.err
    ran = repair(job)
    assert ran.code == 0, ran
    assert verify(job).code == 0, verify(job)
    held_to_account(killed, job)

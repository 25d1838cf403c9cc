"""What a power loss leaves behind, and the next run mends by itself: ``verify`` names it and ends with 0."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler.job.store.wal import logs_of, read_log
from tests.jobs import Stopped, killed_job, rows, verify
from tests.program import crawler

NEVER = 1_000.0  # seconds


@pytest.fixture(scope="module")
def unsynced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """A crawl that was killed half-way before its first sync: nothing of it had to be on the disk."""
    with killed_job(tmp_path_factory.mktemp("unsynced"), NEVER, NEVER) as made:
        yield made


def last_log(job: Path) -> Path:
    return [log for log in logs_of(job / "store") if log.stat().st_size][-1]


def offsets(log: Path) -> list[int]:
    return [record.offset for record in read_log(log)]


def pages(job: Path) -> Path:
    return job / "pages.jsonl"


def cut_log(job: Path) -> None:
    log = last_log(job)
    os.truncate(log, offsets(log)[-5] + 9)


def zeros_in_log(job: Path) -> None:
    log = last_log(job)
    at = offsets(log)[-5]
    data = log.read_bytes()
    log.write_bytes(data[:at] + bytes(len(data) - at))


def noise_in_log(job: Path) -> None:
    """A sector that was allocated, and not written."""
    log = last_log(job)
    at = offsets(log)[-5]
    data = log.read_bytes()
    noise = random.Random(1).randbytes(30)
    log.write_bytes(data[: at + 3] + noise + data[at + 33 :])


def cut_output(job: Path) -> None:
    os.truncate(pages(job), pages(job).stat().st_size * 2 // 3)


def zeros_in_output(job: Path) -> None:
    data = pages(job).read_bytes()
    middle = len(data) * 2 // 3
    pages(job).write_bytes(data[:middle] + bytes(200) + data[middle + 200 :])


def zeros_at_end_of_output(job: Path) -> None:
    data = pages(job).read_bytes()
    middle = len(data) * 2 // 3
    pages(job).write_bytes(data[:middle] + bytes(len(data) - middle))


def no_output(job: Path) -> None:
    pages(job).unlink()


def more_output(job: Path) -> None:
    with open(pages(job), "ab") as stream:
        stream.write(rows(job)[-1]["url"].encode() + b'\n{"url":"http://half')


def half_a_generation(job: Path) -> None:
    seen = job / "seen"
    (seen / "generation-000009.part").write_bytes(b"crawler-generation 2")
    (seen / "slice-000000.g000009").write_bytes(bytes(100))


def temporary_files(job: Path) -> None:
    for name in (
        "job.json.part",
        "run.json.part",
        "history.json.part",
        "live.json.part",
        "live.json",
        "crash.txt",
    ):
        (job / name).write_bytes(b"half")
    (job / "inbox").mkdir(exist_ok=True)
    (job / "inbox" / "00000000000000000001-1-1.urls.part").write_bytes(b"half")
    (job / "store" / "000099.dbtmp").write_bytes(b"half")


MENDED: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "a log that is cut": (cut_log, set()),
    "zeros at the end of a log": (zeros_in_log, set()),
    "noise in a log": (noise_in_log, {"log-damaged"}),
    "an output that is cut": (cut_output, {"records-lost"}),
    "zeros in the output": (zeros_in_output, {"records-lost"}),
    "zeros at the end of the output": (zeros_at_end_of_output, {"records-lost"}),
    "no output": (no_output, {"records-lost"}),
    "more output than the journal knows": (more_output, set()),
    "half a generation": (half_a_generation, set()),
    "temporary files": (temporary_files, set()),
}


@pytest.mark.parametrize("what", MENDED)
def test_what_was_not_durable_is_no_fault(tmp_path: Path, unsynced: Stopped, what: str) -> None:
    leave, kinds = MENDED[what]
    job = unsynced.copy(tmp_path / "job")
    leave(job)
    checked = verify(job)
    assert checked.code == 0, checked
    assert checked.said["whole"]
    assert checked.kinds == kinds
    assert {finding["severity"] for finding in checked.findings} <= {"self-healing"}
    ran = crawler("verify", job)
    assert ran.code == 0
    *lines, last = ran.out.splitlines()
    assert all("power loss" in line for line in lines)
    assert last == f"{job}: whole" + (", once the next run has repaired this" if kinds else "")
    unsynced.carries_on_to_the_end(job)
    assert verify(job).findings == []


def test_a_fault_beside_what_heals_itself(tmp_path: Path, unsynced: Stopped) -> None:
    job = unsynced.copy(tmp_path / "job")
    cut_output(job)
    (job / "history.json").write_bytes(b"nothing")
    checked = verify(job)
    assert checked.code == 1
    assert not checked.said["whole"]
    assert {json.dumps([f["kind"], f["severity"]]) for f in checked.findings} == {
        '["records-lost", "self-healing"]',
        '["file-damaged", "damaged"]',
    }

"""What was seen of a job: kept from run to run, and no more than that when it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.history_file import HISTORY, MAGIC, VERSION, read_history
from tests.jobs import Stopped, repair, stopped_job, verify


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("job"), 10, 20) as stopped:
        yield stopped


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        encode_envelope(MAGIC, VERSION + 1, {}),
        encode_envelope(MAGIC, VERSION, {}),
        encode_envelope(MAGIC, VERSION, {"history": {}, "events": []}),
    ],
    ids=["empty", "nonsense", "version", "nothing", "no-history"],
)
def test_a_damaged_one_is_named_begun_anew_and_set_aside_by_a_repair(
    made: Stopped, tmp_path: Path, content: bytes
) -> None:
    job = made.copy(tmp_path / "job")
    (job / HISTORY).write_bytes(content)
    checked = verify(job)
    assert checked.code == 1
    assert [(each["kind"], each["place"]) for each in checked.findings] == [("file-damaged", HISTORY)]
    repaired = repair(job)
    assert repaired.code == 0, repaired
    assert (job / "damaged-1" / HISTORY).read_bytes() == content
    assert verify(job).code == 0
    (job / HISTORY).write_bytes(content)
    ran = made.resume(job)
    assert ran.code == 0, ran.err
    assert read_history(job, 4e9).events.after(0)[0]["text"] == "resumed"

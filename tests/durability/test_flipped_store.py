"""One bit of RocksDB's own files flipped, in every part of every kind of file: named or harmless, never believed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.base.settings.load import settings_from
from crawler.job.directory import JobError
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.store.rocks import StoreError
from tests.examples import long_or
from tests.jobs import Stopped, killed_job, rows, store_of, verify

NOW = 1_700_000_000.0
POSITIONS = (0, 4, 5, 6, 8, -1, -8, -20, -45)  # heads and footers
PARTS = long_or(3, 6)  # further places, evenly apart


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """Killed after generations were written: everything is in the log."""
    with killed_job(tmp_path_factory.mktemp("killed"), checkpoint_interval=0.01) as made:
        yield made


@pytest.fixture(scope="module")
def in_tables(killed: Stopped, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same job, with everything in tables."""
    job = killed.copy(tmp_path_factory.mktemp("tables") / "job")
    for _ in range(2):
        with store_of(job):
            """Opening replays the log."""
    return job


def places(size: int, turn: int, turns: int) -> list[int]:
    even = [size * part // PARTS for part in range(PARTS)]
    return sorted({at % size for at in (*POSITIONS, *even)[turn::turns] if -size <= at < size})


def flips(job: Path, pattern: str) -> Iterator[tuple[Path, int]]:
    """Flip a bit, let the caller look, put the file back. Files of one kind have the same parts, and take turns: each
    place is tried in some of them, and each of them in some places. A long look tries each place in each file."""
    found = [path for path in sorted((job / "store").glob(pattern)) if path.stat().st_size]
    assert found
    turns = long_or(min(2, len(found)), 1)
    for number, path in enumerate(found):
        whole = path.read_bytes()
        for at in places(len(whole), number % turns, turns):
            changed = bytearray(whole)
            changed[at] ^= 0x04
            path.write_bytes(changed)
            yield path, at
            path.write_bytes(whole)


def answer(job: Path, scratch: Path) -> str:
    """What taking up a copy of the job comes to: refused in one line, or the job is then whole."""
    copy = scratch / "copy"
    shutil.copytree(job, copy)
    try:
        opened = Job(copy, settings_from(read_identity(copy).shaping), NOW)
    except (StoreError, JobError) as refusal:
        return "refused" if "\n" not in str(refusal) else str(refusal)
    else:
        finished = opened.counters.done
        opened.close()
        checked = verify(copy)
        if checked.code:
            return str(checked)
        assert len(rows(copy)) == finished
        return "whole"
    finally:
        shutil.rmtree(copy)


@pytest.mark.timeout(300)  # each flip is verified, and many are opened
@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_flip_is_found_or_changes_nothing(in_tables: Path, tmp_path: Path, pattern: str) -> None:
    count = found = 0
    for path, at in flips(in_tables, pattern):
        checked = verify(in_tables)
        assert "Traceback" not in checked.err
        count += 1
        if checked.code:
            found += 1
            assert checked.findings or checked.err.startswith("crawler: error: ")
        else:
            assert answer(in_tables, tmp_path) == "whole", f"{path.name}, offset {at}: believed, and wrong"
    assert found > count / 2, "hardly anything is found: the test proves nothing"


def test_a_flip_in_the_log_costs_what_stands_behind_it(killed: Stopped, tmp_path: Path) -> None:
    answers = set()
    for path, at in flips(killed.job, "*.log"):
        assert verify(killed.job).code in (0, 1, 2)
        answers.add(came := answer(killed.job, tmp_path))
        assert came in ("whole", "refused"), f"{path.name}, offset {at}: {came}"
    assert "whole" in answers


@pytest.mark.parametrize("pattern", ["OPTIONS-*", "IDENTITY", "LOG"])
def test_what_rocksdb_does_not_need_cannot_hurt(in_tables: Path, tmp_path: Path, pattern: str) -> None:
    for path, at in flips(in_tables, pattern):
        came = answer(in_tables, tmp_path)
        assert came in ("whole", "refused"), f"{path.name}, offset {at}: {came}"

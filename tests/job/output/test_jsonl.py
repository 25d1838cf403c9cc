"""``pages.jsonl`` as a file: appended to, cut, compared with the journal, and short when somebody cut it."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.disk import RealDisk
from crawler.job.output import AppendedFile
from tests.examples import TIMES
from tests.faulty_disk import Fault, FaultyDisk


def opened(path: Path) -> AppendedFile:
    return AppendedFile(path, RealDisk())


@settings(max_examples=13 * TIMES)
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=8), st.data())
def test_what_was_appended_stands_there(tmp_path: Path, lines: list[bytes], data: st.DataObject) -> None:
    path = tmp_path / "pages.jsonl"
    path.unlink(missing_ok=True)
    output = opened(path)
    positions = [output.append(line) for line in lines]
    assert path.read_bytes() == b"".join(lines), "with the operating system at once"
    output.close()
    again = opened(path)
    assert again.end == sum(map(len, lines))
    assert all(again.holds(position) for position in positions)
    if lines:
        kept = data.draw(st.integers(0, len(lines) - 1))
        again.cut(positions[kept].end)
        assert [again.holds(position) for position in positions] == [n <= kept for n in range(len(lines))]
        assert again.append(b"more\n").end == positions[kept].end + 5
        assert path.read_bytes() == b"".join(lines[: kept + 1]) + b"more\n"
    again.close()


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    for seed in range(10):
        path.unlink(missing_ok=True)
        output = AppendedFile(path, FaultyDisk(random.Random(seed), Fault("pwrite", 2, errno.ENOSPC)))
        output.append(b"one\n")
        with pytest.raises(OSError, match="No space left"):
            output.append(b"two, of which a part may have reached the disk\n")
        assert path.read_bytes() == b"one\n"
        assert output.append(b"three\n").end == 10
        assert path.read_bytes() == b"one\nthree\n"
        output.close()


def test_what_was_synced_survives_a_loss_of_power_and_what_was_not_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    lost = 0
    for seed in range(20):
        path.write_bytes(b"")
        disk = FaultyDisk(random.Random(seed))
        output = AppendedFile(path, disk)
        synced = [output.append(b"synced %d\n" % n) for n in range(3)]
        output.sync()
        unsynced = output.append(b"not synced\n")
        output.close()
        disk.lose_power()
        after = opened(path)
        assert all(after.holds(position) for position in synced)
        lost += not after.holds(unsynced)
        after.close()
    assert lost, "the disk of this test loses what is not synced"


@pytest.mark.parametrize("written_again", [True, False])
def test_after_a_sync_that_failed_only_what_is_written_again_is_sure(tmp_path: Path, written_again: bool) -> None:
    disk = FaultyDisk(random.Random(0), Fault("sync", 1))
    output = AppendedFile(tmp_path / "pages.jsonl", disk)
    position = output.append(b"one\n")
    with pytest.raises(OSError, match="Input/output error"):
        output.sync()
    assert output.holds(position), "it can be read"
    if written_again:
        output.write_again(0)
    output.sync()
    output.close()
    disk.lose_power()
    after = opened(tmp_path / "pages.jsonl")
    assert after.holds(position) == written_again
    after.close()

"""A copy that comes in has its name when it is whole and durable, and not before."""

from __future__ import annotations

import errno
import random
from collections import deque
from pathlib import Path

import pytest

from crawler.base.disk import Fault, FaultyDisk, RealDisk
from crawler.job.copy_target import CopyTarget, clear_copies
from crawler.job.replica import CopyBegin, CopyEnd, CopyError, FilePart, Piece

COPY = 77
BEGIN = CopyBegin(7, COPY)
FIRST = Piece(7, COPY, 0, [FilePart("job.json", 0, b"{}"), FilePart("store/CURRENT", 0, b"MANI")])
SECOND = Piece(7, COPY, 1, [FilePart("store/CURRENT", 4, b"FEST"), FilePart("seen/empty", 0, b"")])
END = CopyEnd(7, COPY, 2)
FILES = {"job.json": b"{}", "store/CURRENT": b"MANIFEST", "seen/empty": b""}


def files_in(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def target_in(top: Path) -> CopyTarget:
    return CopyTarget(top / "replicas", "07", RealDisk())


def test_a_whole_copy_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    place = tmp_path / "replicas" / "07"
    place.mkdir(parents=True)
    (place / "of-before").touch()
    target = target_in(tmp_path)
    assert not target.take(BEGIN)
    assert not target.take(FIRST)
    assert target.index == 1
    assert files_in(place) == {"of-before": b""}
    for message in (FIRST, BEGIN, SECOND):  # what came before changes nothing
        assert not target.take(message)
    assert target.take(END)
    assert target.take(END)
    assert files_in(place) == FILES
    assert [path.name for path in place.parent.iterdir()] == ["07"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (place, *place.rglob("*")))


WRONG = {
    "a hole": [BEGIN, FIRST, Piece(7, COPY, 2, [])],
    "no beginning": [FIRST],
    "another copy": [BEGIN, FIRST, Piece(7, COPY + 1, 1, [])],
    "an early end": [BEGIN, FIRST, END],
    "a late end": [BEGIN, FIRST, SECOND, CopyEnd(7, COPY, 1)],
    "a file with a hole": [BEGIN, FIRST, Piece(7, COPY, 1, [FilePart("store/CURRENT", 5, b"EST")])],
    "a file that comes twice": [BEGIN, FIRST, Piece(7, COPY, 1, [FilePart("job.json", 0, b"{}")])],
    "a file outside": [BEGIN, FIRST, Piece(7, COPY, 1, [FilePart("../../x", 0, b"{}")])],
    "a file anywhere": [BEGIN, FIRST, Piece(7, COPY, 1, [FilePart("/tmp/x-of-a-copy", 0, b"{}")])],
    "the directory itself": [BEGIN, FIRST, Piece(7, COPY, 1, [FilePart("", 0, b"{}")])],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_belong_there_breaks_the_copy_off(tmp_path: Path, wrong: str) -> None:
    target, place = target_in(tmp_path), tmp_path / "replicas" / "07"
    *before, last = WRONG[wrong]
    for message in before:
        target.take(message)
    with pytest.raises(CopyError):
        target.take(last)
    assert not place.exists()
    assert not (tmp_path / "x").exists()
    assert not Path("/tmp/x-of-a-copy").exists()
    for message in (CopyBegin(7, 5), *(each._replace(copy=5) for each in (FIRST, SECOND))):
        assert not target.take(message)
    assert target.take(CopyEnd(7, 5, 2))
    assert files_in(place) == FILES


def test_a_copy_that_begins_again_has_nothing_of_the_former(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    for message in (BEGIN, FIRST, CopyBegin(7, 5), Piece(7, 5, 0, [FilePart("job.json", 0, b"[]")]), CopyEnd(7, 5, 1)):
        target.take(message)
    assert files_in(tmp_path / "replicas" / "07") == {"job.json": b"[]"}


def test_what_ended_with_its_process_is_removed(tmp_path: Path) -> None:
    replicas, partitions = tmp_path / "replicas", tmp_path / "partitions"
    clear_copies(tmp_path)
    target = target_in(tmp_path)
    target.take(BEGIN)
    target.take(FIRST)
    (replicas / "08").mkdir()
    (replicas / "07.spool").touch()
    (replicas / "06.old").mkdir()
    (replicas / "05.new").symlink_to(tmp_path / "elsewhere")
    (replicas / "04.gone" / "store").mkdir(parents=True)
    (replicas / "03.former-1").mkdir()
    (partitions / "02.gone").mkdir(parents=True)
    (partitions / "01").mkdir()
    clear_copies(tmp_path)
    assert sorted(path.name for path in replicas.iterdir()) == ["03.former-1", "08"]
    assert [path.name for path in partitions.iterdir()] == ["01"]
    target.discard()


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync_file", "sync_directory", "move"])
def test_a_fault_of_the_disk_leaves_room_and_no_copy(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk(random.Random(1), Fault(operation, 1, errno.ENOSPC))
    target = CopyTarget(tmp_path / "replicas", "07", disk)
    with pytest.raises(OSError, match="space"):
        deque(map(target.take, (BEGIN, FIRST, SECOND, END)), 0)
    assert files_in(tmp_path / "replicas") == {}


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_that_has_its_name_survives_a_power_loss(tmp_path: Path, seed: int) -> None:
    disk = FaultyDisk(random.Random(seed))
    target = CopyTarget(tmp_path / "replicas", "07", disk)
    for message in (BEGIN, FIRST, SECOND):
        target.take(message)
    assert target.take(END)
    disk.lose_power()
    assert files_in(tmp_path / "replicas" / "07") == FILES

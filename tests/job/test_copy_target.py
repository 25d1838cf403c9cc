"""A copy that comes in has its name when it is whole and durable, and not before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.job.copy_target import CopyTarget
from crawler.job.replica.copy_pieces import CopyBegin, CopyEnd, CopyError, FilePart, Piece
from tests.faulty_disk import FaultyDisk

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


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_that_has_its_name_survives_a_power_loss(tmp_path: Path, seed: int) -> None:
    disk = FaultyDisk(random.Random(seed))
    target = CopyTarget(tmp_path / "replicas", "07", disk)
    for message in (BEGIN, FIRST, SECOND):
        target.take(message)
    assert target.take(END)
    disk.lose_power()
    assert files_in(tmp_path / "replicas" / "07") == FILES

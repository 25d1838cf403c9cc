"""Generations: complete or not there, two kept, damage found and set aside, and nothing foreign touched."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.disk import RealDisk
from crawler.job.checkpoint.envelope import EnvelopeError, UnknownVersionError, encode_envelope
from crawler.job.checkpoint.generations import MAGIC, VERSION, Generations, Manifest, manifest_name
from crawler.seen.filters import FormatError, SeenSnapshot, Segment
from tests.examples import TIMES
from tests.faulty_disk import Fault, FaultyDisk

NOW = 1_700_000_000.0
SEALED = b"sealed slice, never written again" * 10


def snapshot(active: bytes, *sealed: bytes) -> SeenSnapshot:
    """Full slices and one that still fills."""
    parts = [*((piece, True) for piece in sealed), (active, False)]
    segments = [
        Segment(f"slice-{number:04d}", full, {"number": number}, memoryview(piece))
        for number, (piece, full) in enumerate(parts)
    ]
    return SeenSnapshot({"slices": len(parts)}, segments)


def nothing() -> None:
    """The journal is durable already."""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    directory = tmp_path / "seen"
    directory.mkdir()
    return directory


def opened(seen: Path, keep: int = 2) -> Generations:
    return Generations(seen, keep, RealDisk())


def write(generations: Generations, sequence: int, active: bytes, *sealed: bytes) -> Manifest:
    return generations.write(snapshot(active, *sealed), sequence, NOW + sequence, nothing)


def two(seen: Path) -> Generations:
    """Generation 1 at journal sequence 10 and 2 at 20, a sealed slice in both."""
    generations = opened(seen)
    write(generations, 10, b"first", SEALED)
    write(generations, 20, b"second", SEALED)
    return generations


def names(seen: Path) -> set[str]:
    return {path.name for path in seen.iterdir()}


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def newest(seen: Path) -> tuple[int | None, list[str]]:
    loaded, faults = opened(seen).load_newest()
    return None if loaded is None else loaded.manifest.generation, faults


# -- writing and reading ---------------------------------------------------------------------------------------


@settings(max_examples=7 * TIMES)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(0, 2**63))
def test_any_seen_set_comes_back(seen: Path, pieces: list[bytes], sequence: int) -> None:
    # One directory for all examples: generations follow each other there as in a job.
    write(opened(seen), sequence, *reversed(pieces))
    loaded, faults = opened(seen).load_newest()
    assert loaded is not None
    assert faults == []
    assert loaded.manifest.sequence == sequence
    assert [bytes(loaded.payloads[f"slice-{n:04d}"]) for n in range(len(pieces))] == [
        *reversed(pieces[:-1]),
        pieces[-1],
    ]


def test_a_sealed_segment_is_written_once_and_named_again(seen: Path) -> None:
    generations = opened(seen)
    first = write(generations, 10, b"a", SEALED)
    inode = (seen / "slice-0000.g000001").stat()
    second = write(generations, 20, b"b", SEALED)
    assert second.segments[0] == first.segments[0]
    assert second.segments[1].file == "slice-0001.g000002"
    assert second.bytes == second.segments[1].size
    after = (seen / "slice-0000.g000001").stat()
    assert (after.st_ino, after.st_mtime_ns) == (inode.st_ino, inode.st_mtime_ns)


def test_two_are_kept_and_what_only_older_ones_name_is_dropped(seen: Path) -> None:
    generations = opened(seen)
    for sequence in range(10, 60, 10):
        write(generations, sequence, b"active", SEALED)
    assert generations.numbers() == [5, 4]
    assert generations.oldest_sequence() == 40
    assert names(seen) == {
        "generation-000005",
        "generation-000004",
        "slice-0000.g000001",
        "slice-0001.g000005",
        "slice-0001.g000004",
    }


def test_when_the_journal_cannot_be_made_durable_there_is_no_generation(seen: Path) -> None:
    generations = opened(seen)
    write(generations, 10, b"a")

    def fails() -> None:
        raise OSError(5, "the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        generations.write(snapshot(b"b"), 20, NOW, fails)
    assert newest(seen) == (1, [])
    after = write(opened(seen), 30, b"c")
    assert after.generation == 3, "the number of the one that failed is not used again: its files may lie there"
    assert newest(seen) == (3, [])


# -- damage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["cut", "longer", "gone", "a directory", "another file", "a pipe"])
def test_a_segment_that_is_not_the_one_named_is_found(seen: Path, change: str) -> None:
    two(seen)
    path = seen / "slice-0001.g000002"
    data = path.read_bytes()
    path.unlink()
    match change:
        case "cut":
            path.write_bytes(data[:-1])
        case "longer":
            path.write_bytes(data + b"\0")
        case "a directory":
            path.mkdir()
        case "another file":
            # Whole by itself, and of the same length: only the manifest can tell.
            path.write_bytes((seen / "slice-0001.g000001").read_bytes().replace(b"first", b"other"))
        case "a pipe":
            os.mkfifo(path)
    number, faults = newest(seen)
    assert number == 1
    assert "slice-0001.g000002" in faults[0]


@settings(max_examples=19 * TIMES)
@given(st.data())
def test_a_flip_anywhere_is_found(seen: Path, data: st.DataObject) -> None:
    if not (seen / "generation-000002").exists():
        two(seen)
    path = seen / data.draw(st.sampled_from(["generation-000002", "slice-0001.g000002"]))
    whole = path.read_bytes()
    try:
        flip(path, data.draw(st.integers(0, len(whole) - 1)))
        try:
            number, faults = newest(seen)
        except UnknownVersionError as error:
            number, faults = 1, [str(error)]
        assert number == 1
        assert path.name in faults[0]
    finally:
        path.write_bytes(whole)


def test_a_damaged_generation_is_set_aside_and_never_deleted(seen: Path) -> None:
    two(seen)
    flip(seen / "generation-000002", -5)
    generations = opened(seen)
    generations.load_newest()
    generations.set_aside(2)
    for sequence in (30, 40, 50):
        write(generations, sequence, b"later", SEALED)
    assert generations.numbers() == [5, 4], "its number is not used again"
    assert {"damaged-generation-000002", "slice-0001.g000002"} <= names(seen)


def test_a_kept_generation_whose_manifest_rots_while_the_crawl_runs_is_set_aside(seen: Path) -> None:
    generations = opened(seen, keep=3)
    for sequence in (10, 20, 30):
        write(generations, sequence, b"active")
    flip(seen / "generation-000002", -5)
    write(generations, 40, b"active")
    assert generations.numbers() == [4, 3, 1]
    assert "damaged-generation-000002" in names(seen)
    assert generations.oldest_sequence() == 10


def test_foreign_files_are_neither_read_nor_deleted(seen: Path) -> None:
    foreign = ["notes.txt", "generation-x", "generation-000009~", "generation-9", "slice-0001.g2.bak", ".g000001"]
    for name in foreign:
        (seen / name).write_bytes(b"mine")
    (seen / "backup").mkdir()
    (seen / "generation-000007").mkdir()
    generations = two(seen)
    for sequence in (30, 40):
        write(generations, sequence, b"later", SEALED)
    assert {*foreign, "backup", "generation-000007"} <= names(seen)
    assert len(generations.numbers()) == 2
    assert newest(seen)[1] == []


def test_what_a_killed_write_left_behind_is_dropped(seen: Path) -> None:
    generations = two(seen)
    (seen / "slice-0001.g000003").write_bytes(b"half a segm")
    (seen / "generation-000003.part").write_bytes(b"half a mani")
    assert newest(seen) == (2, [])
    assert write(generations, 30, b"later", SEALED).generation == 4
    assert not {"slice-0001.g000003", "generation-000003.part"} & names(seen)


# -- manifests that nobody wrote by accident -------------------------------------------------------------------


def plant(seen: Path, **changes: Any) -> None:
    """A third generation with a right checksum and other content."""
    two(seen)
    manifest = opened(seen).read_manifest(2)
    content: dict[str, Any] = {
        "generation": 3,
        "sequence": 20,
        "seen_sequence": 20,
        "written_at": NOW,
        "seconds": 0.1,
        "bytes": 0,
        "state": {},
        "segments": [{"name": s.name, "file": s.file, "size": s.size, "checksum": s.checksum, "sealed": s.sealed}
                     for s in manifest.segments],
    }  # fmt: skip
    segment = changes.pop("segment", None)
    if segment is not None:
        content["segments"][1].update(segment)
    content.update(changes)
    for key in [key for key, value in content.items() if value is ...]:
        del content[key]
    (seen / manifest_name(3)).write_bytes(encode_envelope(MAGIC, VERSION, content))


@pytest.mark.parametrize(
    "file",
    ["../outside.g000001", "/etc/passwd", "..", ".", "", "a/b.g000001", "nul\0.g000001", "generation-000001", 7, None],
)
def test_a_manifest_may_name_files_of_its_own_directory_only(seen: Path, file: object) -> None:
    (seen.parent / "outside.g000001").write_bytes(b"secret")
    plant(seen, segment={"file": file})
    number, faults = newest(seen)
    assert number == 2
    assert faults[0].startswith("generation 3 is damaged: generation-000003: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": 2},
        {"generation": float("inf")},
        {"sequence": -1},
        {"seen_sequence": -1},
        {"seen_sequence": 21},
        {"seen_sequence": ...},
        {"sequence": "many"},
        {"sequence": ...},
        {"state": [1]},
        {"segments": None},
        {"segments": [["slice"]]},
        {"segments": [{}]},
        {"written_at": None},
        {"segment": {"size": "1"}},
        {"segment": {"size": -1}},
        {"segment": {"name": ["slice"]}},
        {"segment": {"checksum": ""}},
        {"segment": {"checksum": "00" * 500}},
        {"segment": {"sealed": 1}},
        {"segment": {"more": 1}},
    ],
    ids=str,
)
def test_a_manifest_that_does_not_hold_what_it_must_is_damaged(seen: Path, changes: dict[str, Any]) -> None:
    plant(seen, **changes)
    number, faults = newest(seen)
    assert number == 2
    assert "generation 3 is damaged: " in faults[0]
    with pytest.raises((EnvelopeError, FormatError)):
        opened(seen).read(3)


@pytest.mark.parametrize("number", range(1, 5))
def test_pruning_that_is_broken_off_leaves_no_manifest_without_its_segments(seen: Path, number: int) -> None:
    two(seen)
    disk = FaultyDisk(random.Random(0), Fault("unlink", number, lasting=True))
    generations = Generations(seen, 2, disk)
    generations.load_newest()
    with contextlib.suppress(OSError):
        write(generations, 30, b"third", SEALED, b"another" * 10)
    left = opened(seen)
    assert len(left.numbers()) >= 2
    for generation in left.numbers():
        left.read(generation)

"""When the seen-set is stored anew, and what becomes of generations that name one stored before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.job.checkpoint.generations import (
    BYTES_PER_KEY,
    FEW_BYTES,
    MOST_KEYS,
    Generations,
    Manifest,
    SegmentFile,
    must_store,
)
from crawler.seen.filters import Part, SeenSnapshot, Segment

NOW = 1_700_000_000.0
GIB = 2**30


def parts(size: int, *, sealed: int = 0, last: str = "slice") -> list[Part]:
    full = [Part(f"full-{number}", True, True, GIB) for number in range(sealed)]
    return [*full, Part(last, False, True, size), Part("watched", False, False, GIB)]


def naming(of: list[Part]) -> Manifest:
    files = tuple(SegmentFile(part.name, f"{part.name}.g000001", part.size, "00" * 16, part.sealed) for part in of)
    return Manifest(1, 10, 10, NOW, 0.0, 0, {}, files)


@pytest.mark.parametrize(
    ("size", "keys", "anew"),
    [
        (FEW_BYTES, 0, True),
        (FEW_BYTES + 1, 0, False),
        (FEW_BYTES + 1, FEW_BYTES // BYTES_PER_KEY, False),
        (FEW_BYTES + 1, FEW_BYTES // BYTES_PER_KEY + 1, True),
        (128 * 2**20, 128 * 2**20 // BYTES_PER_KEY - 1, False),
        (GIB, MOST_KEYS - 1, False),
        (GIB, MOST_KEYS, True),
        (1000 * GIB, MOST_KEYS, True),
    ],
)
@pytest.mark.parametrize("sealed", [0, 3])
def test_it_is_stored_anew_when_that_is_cheap_or_much_has_come(size: int, keys: int, anew: bool, sealed: int) -> None:
    now = parts(size, sealed=sealed)
    assert must_store(naming(now), now, keys) is anew, "sealed slices and watched keys are no reason"


# -- generations -----------------------------------------------------------------------------------------------


def segments(active: bytes, watched: bytes) -> list[Segment]:
    return [
        Segment("slice", False, {}, memoryview(active)),
        Segment("watched", False, {"holds": "watched keys"}, memoryview(watched)),
    ]


def store(generations: Generations, sequence: int, active: bytes) -> Manifest:
    shot = SeenSnapshot({"at": sequence}, segments(active, b"w%d" % sequence))
    return generations.complete(generations.begin(shot, sequence, NOW), lambda: None)


def again(generations: Generations, sequence: int) -> Manifest:
    unjournaled = segments(b"", b"w%d" % sequence)[1:]
    return generations.complete(generations.begin_again(unjournaled, sequence, NOW), lambda: None)


def opened(seen: Path) -> Generations:
    return Generations(seen, 2, RealDisk())


def test_what_was_stored_before_is_named_again_and_only_what_is_untold_is_written(tmp_path: Path) -> None:
    generations = opened(tmp_path)
    first = store(generations, 10, b"active" * 1_000)
    second = again(generations, 20)
    assert (second.sequence, second.seen_sequence, second.state) == (20, 10, {"at": 10})
    assert [segment.file for segment in second.segments] == ["slice.g000001", "watched.g000002"]
    assert second.bytes == second.segments[1].size < first.bytes
    loaded, faults = opened(tmp_path).load_newest()
    assert loaded is not None
    assert faults == []
    assert loaded.manifest == second
    assert {name: bytes(data) for name, data in loaded.payloads.items()} == {
        "slice": b"active" * 1_000,
        "watched": b"w20",
    }


def test_an_older_seen_set_is_kept_beside_generations_that_share_one(tmp_path: Path) -> None:
    generations = opened(tmp_path)
    store(generations, 10, b"first")
    again(generations, 20)
    again(generations, 30)
    assert generations.numbers() == [3, 2], "there is no other"
    store(generations, 40, b"second")
    assert generations.numbers() == [4, 3]
    for sequence in (50, 60, 70):
        again(generations, sequence)
        assert generations.numbers()[-1] == 3
        assert len(generations.numbers()) == 3
        assert generations.oldest_sequence() == sequence - 10, "finished URLs are kept for the two newest only"
    assert sorted(path.name for path in tmp_path.glob("slice.*")) == ["slice.g000001", "slice.g000004"]
    (tmp_path / "slice.g000004").write_bytes(b"gone")
    loaded, faults = opened(tmp_path).load_newest()
    assert loaded is not None
    assert loaded.manifest.generation == 3
    assert bytes(loaded.payloads["slice"]) == b"first"
    assert len(faults) == 2
    store(generations, 80, b"third")
    assert generations.numbers() == [8, 7], "these two do not share one"

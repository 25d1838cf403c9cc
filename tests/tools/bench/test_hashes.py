"""The hashes are the ones they are named after, and the study tells good ones from bad."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.studies.hash_functions import HASHES, Hash, siphash_1_3, xxh32
from benchmarks.studies.hashes import KeySet, hash_table, key_sets, study_hashes
from benchmarks.studies.sample_keys import account_names, random_digits

M = 0xFFFFFFFF
NAMED = {each.name: each for each in HASHES}


def one(each: Hash, key: bytes) -> int:
    return int(each.of([key])[0])


def _loop(start: int, step: Callable[[int, int], int]) -> Callable[[bytes], int]:
    def of(key: bytes) -> int:
        h = start
        for character in key:
            h = step(h, character) & M
        return h

    return of


def _folded(h: int, c: int) -> int:
    h = ((h << 4) + c) & M
    high = h & 0xF0000000
    return (h ^ high >> 24) & ~high


def _ap(key: bytes) -> int:
    h = 0
    for i, c in enumerate(key):
        h ^= (h << 7) ^ c ^ (h >> 3) if i % 2 == 0 else ~((h << 11) ^ c ^ (h >> 5))
        h &= M
    return h


def _rs(key: bytes) -> int:
    h, a = 0, 63689
    for c in key:
        h, a = (h * a + c) & M, a * 378551 & M
    return h


# The definitions once more, a character at a time on whole numbers.
PLAIN: dict[str, Callable[[bytes], int]] = {
    "FNV-1a": _loop(2166136261, lambda h, c: (h ^ c) * 16777619),
    "DJB2": _loop(5381, lambda h, c: (h << 5) + h + c),
    "SDBM": _loop(0, lambda h, c: c + (h << 6) + (h << 16) - h),
    "BKDR": _loop(0, lambda h, c: h * 131 + c),
    "RS": _rs,
    "AP": _ap,
    "JS": _loop(1315423911, lambda h, c: h ^ ((h << 5) + c + (h >> 2))),
    "DEK": lambda key: _loop(len(key), lambda h, c: (h << 5) ^ (h >> 27) ^ c)(key),
    "ELF": _loop(0, _folded),
    "PJW": _loop(0, _folded),
    "BP": _loop(0, lambda h, c: h << 7 ^ c),
}


@pytest.mark.parametrize("name", PLAIN)
@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=12))
def test_small_hashes_on_arrays_are_those_on_characters(name: str, keys: list[bytes]) -> None:
    assert NAMED[name].of(keys).tolist() == [PLAIN[name](key) for key in keys]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"abcdefghijklmnop", 0x9D2D8B62),
    ],
)
def test_xxh32_gives_published_values(key: bytes, value: int) -> None:
    assert one(NAMED["xxh32"], key) == value
    assert xxh32(np.frombuffer(key * 2, np.uint8).reshape(2, -1)).tolist() == [value] * 2


def test_siphash_is_what_python_hashes_with() -> None:
    keys = [bytes(range(1, length)) for length in range(2, 40)]
    code = f"print([hash(key) % 2**64 for key in {keys!r}])"
    with_zeros = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True
    )
    if sys.hash_info.algorithm != "siphash13":
        pytest.skip(f"this Python hashes with {sys.hash_info.algorithm}")
    mine = [int(siphash_1_3(np.frombuffer(key, np.uint8).reshape(1, -1))[0]) for key in keys]
    assert str(mine) == with_zeros.stdout.strip()


@pytest.mark.parametrize(
    ("name", "value"),
    [("mmh3", 0xB3DD93FA), ("crc32", 0x352441C2), ("md5", 0x98500190), ("sha1", 0x363E99A9)],
)
def test_compiled_hashes_give_their_first_32_bits(name: str, value: int) -> None:
    # Of "abc": the reference values of each, the digests' first four bytes read as a little-endian number.
    assert one(NAMED[name], b"abc") == value


def test_good_hashes_are_like_chance_and_bad_ones_far_from_it() -> None:
    sets = [KeySet("digits", random_digits(200_000))]
    collisions = {result.hash.name: result.collisions[0] for result in study_hashes(sets)}
    assert sets[0].expected == pytest.approx(200_000**2 / 2**33, rel=0.01)
    for name in ("mmh3", "xxh32", "siphash", "blake2b", "md5", "sha1", "crc32", "FNV-1a"):
        # Deterministic keys: this is no matter of luck between two runs.
        assert collisions[name] <= sets[0].usual[1] + 3, name
    assert collisions["ELF"] == collisions["PJW"] > 5 * sets[0].usual[1]
    # BP keeps the last five digits, of the fifth four bits: 100,000 values at most.
    assert collisions["BP"] >= 100_000


def test_table_has_a_row_a_hash_and_marks_what_is_no_chance() -> None:
    sets = key_sets(5_000)
    lines = hash_table(study_hashes(sets), sets)
    rows = {line.split()[0]: line for line in lines[2:]}
    assert [*rows] == [*NAMED, "expected", "95%"]
    assert "*" in rows["BP"]
    assert "*" not in rows["mmh3"]
    assert "920,005" in rows["BP"]
    assert len({len(key) for key in sets[3].keys}) > 10
    for each in sets:
        assert len(set(each.keys)) == len(each.keys) == 5_000


def test_keys_are_the_same_each_time() -> None:
    first, second = key_sets(1_000), key_sets(1_000)
    assert [each.keys for each in first] == [each.keys for each in second]
    names = first[3].keys
    assert min(map(len, names)) >= 2
    assert max(map(len, names)) <= 28


def test_account_names_are_of_the_lengths_that_the_study_names() -> None:
    names = account_names(45_000)
    assert len(set(names)) == 45_000
    lengths = [len(name) for name in names]
    assert (min(lengths), max(lengths)) == (2, 28)

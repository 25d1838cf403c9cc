"""The hashes are the ones they are named after, and the study tells good ones from bad."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.studies.hash_functions import HASHES, Hash, siphash_1_3, xxh32
from benchmarks.studies.hashes import KeySet, study_hashes
from benchmarks.studies.sample_keys import random_digits

NAMED = {each.name: each for each in HASHES}


def one(each: Hash, key: bytes) -> int:
    return int(each.of([key])[0])


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

"""From a key to its digest."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.seen.filters import SEED_ZERO, FilterError, KeyHash
from crawler.seen.slices.compiled import reference
from crawler.seen.slices.key_hash import ALGORITHMS, MMH3, Blake2b, Murmur3

any_text = st.text(st.characters(codec=None, exclude_categories=()))  # lone surrogates and all

UNKEYED = Blake2b(b"")
HASHES = [SEED_ZERO, Murmur3(b"\x01\x02\x03\xff"), UNKEYED, Blake2b(b"sixteen letters!"), Blake2b(bytes(64))]
with reference():
    HASHES += [type(made)(made.secret) for made in HASHES]


def expected(made: KeyHash, key: bytes) -> bytes:
    if made.algorithm == MMH3:
        return mmh3.mmh3_x64_128_digest(key, int.from_bytes(made.secret, "little"))
    return hashlib.blake2b(key, digest_size=16, key=made.secret).digest()


@pytest.mark.parametrize("made", HASHES, ids=repr)
@given(keys=st.lists(any_text, max_size=20))
def test_all_ways_to_hash_keys_give_the_hash_of_their_bytes(made: KeyHash, keys: list[str]) -> None:
    encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
    whole = b"".join([expected(made, key) for key in encoded])
    assert made.digest_keys(keys) == made.digest_keys(encoded) == whole
    assert made.digest_keys(iter([*keys, *encoded])) == whole * 2
    assert b"".join([struct.pack("<QQ", *made.digest_one(key)) for key in (*keys, *encoded)]) == whole * 2


@pytest.mark.parametrize("path", [nullcontext, reference])
def test_the_reference_values(path: Callable[[], AbstractContextManager[None]]) -> None:
    """smhasher's MurmurHash3_x64_128 of "abc" with seed 0; b2sum's of the empty text, with that key."""
    with path():
        assert Murmur3(bytes(4)).digest_keys(["abc"]).hex() == "6778ad3f3f3f96b4522dca264174a23b"
        assert Blake2b(bytes(range(16))).digest_keys([b""]).hex() == "083aac7ba77bc664005d821eb8bfa4d9"


@pytest.mark.parametrize("made", HASHES, ids=repr)
@given(sizes=st.lists(st.integers(0, 400), max_size=8), seed=st.integers(0, 99))
def test_keys_of_any_length_are_hashed_whole(made: KeyHash, sizes: list[int], seed: int) -> None:
    """A block of MurmurHash3 has 16 bytes, one of BLAKE2b 128."""
    draw = random.Random(seed)
    keys = [draw.randbytes(size) for size in (*sizes, 0, 15, 16, 17, 127, 128, 129, 255, 256, 257)]
    assert made.digest_keys(keys) == b"".join([expected(made, key) for key in keys])


@pytest.mark.parametrize("made", HASHES, ids=repr)
def test_only_text_and_bytes_are_keys(made: KeyHash) -> None:
    for wrong in (1, None, ["a"]):
        with pytest.raises(TypeError):
            made.digest_one(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            made.digest_keys([wrong, "a"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        made.digest_keys("letters")


@pytest.mark.real_secrets
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_new_hash_has_a_secret_of_its_own_and_says_all_but_that(algorithm: str) -> None:
    one, other = KeyHash.new(algorithm), KeyHash.new(algorithm)
    assert one != other
    assert one.digest_keys(["a"]) != other.digest_keys(["a"])
    assert one.describe() == {"algorithm": algorithm, "keyed": True, "forgeable": algorithm == MMH3}
    for told in (repr(one), str(one), repr(one.describe())):
        assert one.secret.hex() not in told
    again = KeyHash.from_json(one.as_json())
    assert again == one
    assert hash(again) == hash(one)
    assert again.digest_one("a") == one.digest_one("a")


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {"algorithm": "md5", "secret": "00"},
        {"algorithm": "blake2b", "secret": 1},
        {"algorithm": "blake2b", "secret": "00" * 65},
        {"algorithm": "mmh3", "secret": "00"},
        {"algorithm": ["mmh3"], "secret": "00000000"},
    ],
)
def test_a_damaged_hash_is_an_error_that_says_so(stored: object) -> None:
    with pytest.raises(FilterError):
        KeyHash.from_json(stored)

"""From a key to its digest."""

from __future__ import annotations

import mmh3
from hypothesis import given
from hypothesis import strategies as st

from crawler.filters import DIGEST_BYTES, digest_keys, digest_lines

any_text = st.text(st.characters(codec=None, exclude_categories=()))  # lone surrogates and all


@given(st.lists(any_text, max_size=20))
def test_each_key_gets_the_murmur_hash_of_its_bytes(keys: list[str]) -> None:
    encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
    assert digest_keys(keys) == digest_lines(encoded)
    assert digest_lines(encoded) == b"".join(mmh3.mmh3_x64_128_digest(key) for key in encoded)


def test_the_reference_value() -> None:
    """smhasher's MurmurHash3_x64_128 of "abc" with seed 0."""
    assert digest_keys(["abc"]).hex() == "6778ad3f3f3f96b4522dca264174a23b"


def test_lone_surrogates_are_keys_of_their_own() -> None:
    keys = ["a\ud800", "a\udfff", "a\ufffd", "a?", "a", "a\U00010000"]
    digests = digest_keys(keys)
    assert len({digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)}) == len(keys)
    assert digest_keys(["x", *keys])[DIGEST_BYTES:] == digests

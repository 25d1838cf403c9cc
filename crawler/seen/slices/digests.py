"""Keys and digests: what may be a key, and 128-bit digests as numbers. ``key_hash`` makes the one from the other.

A key is ``bytes``, or a ``str`` that is hashed as UTF-8: ``"a"`` and ``b"a"`` are the same key.

Lone surrogates. A Python ``str`` may hold code points U+D800 to U+DFFF, which have no UTF-8. They are encoded
as their code point would be (three bytes; "WTF-8", Python's ``surrogatepass``), so that such keys remain
distinct from each other and from all others.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Key = str | bytes

DIGEST_BYTES = 16
_LISTS = (list, tuple)

WORD = np.dtype("<u8")
Words = npt.NDArray[np.uint64]

pairs_of = struct.Struct("<QQ").iter_unpack


def encode_key(key: Key) -> bytes:
    """The bytes that are hashed. Raises ``TypeError`` for anything but ``str`` and ``bytes``."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key is a str or bytes, not {type(key).__name__}")


def list_keys(keys: Iterable[Key]) -> list[Key] | tuple[Key, ...]:
    """``keys`` as a list or a tuple. Raises ``TypeError`` for a single key: its letters are hardly meant."""
    if isinstance(keys, _LISTS):
        return keys
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys are an iterable of str or bytes, not one {type(keys).__name__}")
    return list(keys)


def count_digests(digests: bytes) -> int:
    """The number of digests. Raises ``ValueError`` when the length is not a multiple of 16."""
    if len(digests) % DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, and {len(digests)} bytes are not a multiple of that")
    return len(digests) // DIGEST_BYTES


def digest_words(digests: bytes) -> Words:
    """``digests`` as an array of shape (n, 2): the two little-endian 64-bit halves of each.

    Raises ``ValueError`` when the length is not a multiple of 16.
    """
    count_digests(digests)
    return np.frombuffer(digests, WORD).reshape(-1, 2)

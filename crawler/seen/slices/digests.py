"""Valid keys, and 128-bit digests as numbers. ``key_hash`` computes digests from keys.

A key is ``bytes``, or a ``str`` that is hashed as UTF-8: ``"a"`` and ``b"a"`` are the same key.

Lone surrogates. A Python ``str`` may hold code points U+D800 to U+DFFF, which have no UTF-8 form. They are encoded
like other code points (three bytes; "WTF-8", Python's ``surrogatepass``), so that such keys remain
distinct from each other and from all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Key = str | bytes

DIGEST_BYTES = 16
_LISTS = (list, tuple)

WORD = np.dtype("<u8")
Words = npt.NDArray[np.uint64]


def encode_key(key: Key) -> bytes:
    """Return the bytes to hash. Raises ``TypeError`` unless ``key`` is a ``str`` or ``bytes``."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key must be a str or bytes, not {type(key).__name__}")


def list_keys(keys: Iterable[Key]) -> list[Key] | tuple[Key, ...]:
    """Return ``keys`` as a list or tuple. Raises ``TypeError`` for a single ``str`` or ``bytes``."""
    if isinstance(keys, _LISTS):
        return keys
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys must be an iterable of str or bytes, not a single {type(keys).__name__}")
    return list(keys)


def count_digests(digests: bytes) -> int:
    """Return the number of digests. Raises ``ValueError`` if the length is not a multiple of 16."""
    if len(digests) % DIGEST_BYTES:
        raise ValueError(f"the length of the digests, {len(digests)} bytes, is not a multiple of {DIGEST_BYTES}")
    return len(digests) // DIGEST_BYTES


def digest_words(digests: bytes) -> Words:
    """Return ``digests`` as an array of shape (n, 2): the two little-endian 64-bit halves of each.

    Raises ``ValueError`` if the length is not a multiple of 16.
    """
    count_digests(digests)
    return np.frombuffer(digests, WORD).reshape(-1, 2)


def chosen_digests(digests: bytes, positions: Sequence[int]) -> bytes:
    """Return the digests at these positions, concatenated."""
    size = DIGEST_BYTES
    return b"".join([digests[size * i : size * i + size] for i in positions])

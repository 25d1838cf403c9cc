"""From a key to the 128 bits that represent it.

A key is hashed once for all filters: MurmurHash3 (x64, 128 bits, seed 0) of its bytes gives a *digest* of 16 bytes, and
every position in every slice is derived from it. The journal stores the same 16 bytes, so a filter can be rebuilt,
grown or compacted without the keys.

A key is ``bytes``, or a ``str`` that is hashed as UTF-8: ``"a"`` and ``b"a"`` are the same key.

Two different keys share a digest with probability 2**-128 a pair: for 10**9 keys about 1.5 * 10**-21 in all,
far below anything a filter does.

Lone surrogates. A Python ``str`` may hold code points U+D800 to U+DFFF, which have no UTF-8. They are encoded
as their code point would be (three bytes; "WTF-8", Python's ``surrogatepass``), so that such keys remain
distinct from each other and from all others. mmh3 never gets such a ``str`` itself, because version 5.3.1 crashes
on it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

import mmh3
import numpy as np
import numpy.typing as npt

Key = str | bytes

DIGEST_BYTES = 16
_LISTS = (list, tuple)

WORD = np.dtype("<u8")
Words = npt.NDArray[np.uint64]

_halves: Callable[[bytes], tuple[int, int]] = mmh3.mmh3_x64_128_utupledigest
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


def digest_keys(keys: Iterable[Key]) -> bytes:
    """The digests of ``keys``, 16 bytes each, in order, concatenated.

    Raises ``TypeError`` for anything but an iterable of ``str`` and ``bytes``."""
    keys = list_keys(keys)
    try:
        # Looking at the join once is cheaper than encoding every key, and ASCII text cannot hold a surrogate.
        ascii_only = "".join(keys).isascii()  # type: ignore[arg-type]
    except TypeError:
        ascii_only = False  # there are bytes among them
    if ascii_only:
        return b"".join(map(mmh3.hash_bytes, keys))
    return b"".join([mmh3.hash_bytes(encode_key(key)) for key in keys])


def digest_key(key: Key) -> tuple[int, int]:
    """The two little-endian 64-bit halves of the digest of one key. Raises ``TypeError`` as ``encode_key`` does."""
    try:
        return _halves(key.encode())  # type: ignore[union-attr]
    except (AttributeError, UnicodeEncodeError):
        return _halves(encode_key(key))


def digest_lines(lines: Iterable[bytes]) -> bytes:
    """``digest_keys`` for keys that are all ``bytes``, such as the raw lines of a file."""
    return b"".join(map(mmh3.hash_bytes, lines))


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

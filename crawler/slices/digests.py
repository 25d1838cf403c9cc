"""From a key to the 128 bits that stand for it.

A key is hashed once, whatever the filter behind does with it: MurmurHash3 (x64, 128 bits, seed 0) of its
UTF-8 gives a *digest* of 16 bytes, and every position in every slice is cut out of those. The journal stores
the same 16 bytes, so a filter can be rebuilt, grown or compacted without a single key at hand.

Two different keys share a digest with probability 2**-128 a pair: for 10**9 keys about 1.5 * 10**-21 in all,
far below anything a filter does.

Lone surrogates. A Python ``str`` may hold code points U+D800 to U+DFFF, which have no UTF-8. They are encoded
as their code point would be (three bytes; "WTF-8", Python's ``surrogatepass``), so that such keys stay
distinct from each other and from all others. mmh3 is never given the ``str`` itself then: its 5.3.1 does not
survive it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

import mmh3
import numpy as np
import numpy.typing as npt

DIGEST_BYTES = 16

WORD = np.dtype("<u8")
Words = npt.NDArray[np.uint64]

_halves: Callable[[bytes], tuple[int, int]] = mmh3.mmh3_x64_128_utupledigest
pairs_of = struct.Struct("<QQ").iter_unpack


def digest_keys(keys: Sequence[str]) -> bytes:
    """The digests of ``keys``, 16 bytes each, in their order, concatenated. Raises what ``join_keys`` raises."""
    # Looking at the join once is cheaper than encoding every key, and ASCII text cannot hold a surrogate.
    if join_keys(keys).isascii():
        return b"".join(map(mmh3.hash_bytes, keys))
    return b"".join([mmh3.hash_bytes(key.encode("utf-8", "surrogatepass")) for key in keys])


def digest_key(key: str) -> tuple[int, int]:
    """The two little-endian 64-bit halves of the digest of one key. Raises ``TypeError`` for what is no ``str``."""
    try:
        return _halves(key.encode())
    except UnicodeEncodeError:
        return _halves(key.encode("utf-8", "surrogatepass"))
    except AttributeError:
        raise TypeError(f"a key is a str, not {type(key).__name__}") from None


def join_keys(keys: Sequence[str]) -> str:
    """All of ``keys``, one behind the other. Raises ``TypeError`` for what is no sequence of ``str``. One ``str`` is
    none: its letters are hardly meant."""
    if isinstance(keys, str):
        raise TypeError("keys are a sequence of str, not one str")
    try:
        return "".join(keys)
    except TypeError as problem:
        raise TypeError(f"keys are a sequence of str: {problem}") from None


def digest_lines(lines: Iterable[bytes]) -> bytes:
    """The same for keys that are bytes already, such as the raw lines of a file."""
    return b"".join(map(mmh3.hash_bytes, lines))


def count_digests(digests: bytes) -> int:
    """How many there are. Raises ``ValueError`` when the length is no multiple of 16."""
    if len(digests) % DIGEST_BYTES:
        raise ValueError(f"digests have {DIGEST_BYTES} bytes each, so {len(digests)} bytes are none")
    return len(digests) // DIGEST_BYTES


def digest_words(digests: bytes) -> Words:
    """``digests`` as an array of shape (n, 2): the two little-endian 64-bit halves of each.

    Raises ``ValueError`` when the length is no multiple of 16.
    """
    count_digests(digests)
    return np.frombuffer(digests, WORD).reshape(-1, 2)

"""Hashes of 32 bits: those that a program would take today, and the small ones that textbooks have handed down.

The first are compiled and called once a key. The others are a few operations a character; in Python a loop over them
would time the loop. They are written here on arrays: column i of a matrix is the i-th character of many keys of one
length, so that each operation is done for all keys at once. SipHash and XXH32 are written that way too, which spares
a dependency. A time therefore says something beside others of its own sort only.

The small ones are those of Arash Partow's "General Hash Functions", the set that the classic comparisons took, save
FNV, which is the 1a variant of its authors. All arithmetic is modulo 2**32 (modulo 2**64 in SipHash).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import mmh3
import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]
Columns = npt.NDArray[np.uint32]  # shape (length, keys): a row holds one character of each key
Lanes = npt.NDArray[np.uint8]

U32 = np.uint32


@dataclass(frozen=True, slots=True)
class Hash:
    """``of`` gives the hashes of some keys; ``arrays`` says whether it works on many at once."""

    name: str
    of: Callable[[Sequence[bytes]], Hashes]
    arrays: bool = False


def _by_length(keys: Sequence[bytes]) -> Mapping[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(len(key), []).append(position)
    return groups


def _on_arrays(hash_lanes: Callable[[Lanes], Hashes]) -> Callable[[Sequence[bytes]], Hashes]:
    """From a hash of a matrix (keys, length) of bytes to one of any keys."""

    def of(keys: Sequence[bytes]) -> Hashes:
        found = np.empty(len(keys), U32)
        for length, positions in _by_length(keys).items():
            joined = b"".join([keys[position] for position in positions])
            found[positions] = hash_lanes(np.frombuffer(joined, np.uint8).reshape(len(positions), length))
        return found

    return of


def _on_columns(hash_columns: Callable[[Columns], Hashes]) -> Callable[[Sequence[bytes]], Hashes]:
    return _on_arrays(lambda lanes: hash_columns(np.ascontiguousarray(lanes.T, dtype=U32)))


def _full(columns: Columns, value: int) -> Hashes:
    return np.full(columns.shape[1], value, U32)


def _multiply_add(start: int, factor: int) -> Callable[[Columns], Hashes]:
    """h * factor + character: what BKDR, DJB2 and SDBM have in common."""

    def hash_columns(columns: Columns) -> Hashes:
        h = _full(columns, start)
        for column in columns:
            h *= U32(factor)
            h += column
        return h

    return hash_columns


def _fnv_1a(columns: Columns) -> Hashes:
    h = _full(columns, 2166136261)
    for column in columns:
        h ^= column
        h *= U32(16777619)
    return h


def _rs(columns: Columns) -> Hashes:
    h, factor = _full(columns, 0), 63689
    for column in columns:
        h *= U32(factor)
        h += column
        factor = factor * 378551 & 0xFFFFFFFF
    return h


def _js(columns: Columns) -> Hashes:
    h = _full(columns, 1315423911)
    for column in columns:
        h ^= (h << U32(5)) + column + (h >> U32(2))
    return h


def _elf(columns: Columns) -> Hashes:
    h = _full(columns, 0)
    for column in columns:
        h = (h << U32(4)) + column
        high = h & U32(0xF0000000)
        h ^= high >> U32(24)
        h &= ~high
    return h


def _pjw(columns: Columns) -> Hashes:
    h = _full(columns, 0)
    for column in columns:
        h = (h << U32(4)) + column
        high = h & U32(0xF0000000)
        h = np.where(high != 0, (h ^ (high >> U32(24))) & U32(0x0FFFFFFF), h)
    return h


def _dek(columns: Columns) -> Hashes:
    h = _full(columns, len(columns))
    for column in columns:
        h = (h << U32(5)) ^ (h >> U32(27)) ^ column
    return h


def _bp(columns: Columns) -> Hashes:
    h = _full(columns, 0)
    for column in columns:
        h = (h << U32(7)) ^ column
    return h


def _ap(columns: Columns) -> Hashes:
    h = _full(columns, 0)
    for position, column in enumerate(columns):
        if position % 2 == 0:
            h ^= (h << U32(7)) ^ column ^ (h >> U32(3))
        else:
            h ^= ~((h << U32(11)) ^ column ^ (h >> U32(5)))
    return h


def _rotated32(words: Hashes, bits: int) -> Hashes:
    return (words << U32(bits)) | (words >> U32(32 - bits))


_XX = tuple(map(U32, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)))


def xxh32(lanes: Lanes) -> Hashes:
    """XXH32 with seed 0, by its specification (xxHash, doc/xxhash_spec.md)."""
    count, length = lanes.shape
    p1, p2, p3, p4, p5 = _XX
    whole = length // 4
    words = np.ascontiguousarray(lanes[:, : whole * 4]).view("<u4").reshape(count, whole).T
    stripes = length // 16
    if stripes:
        lows = [0x24234428, 0x85EBCA77, 0, 0x61C8864F]
        parts = [np.full(count, start, U32) for start in lows]
        for stripe in range(stripes):
            for lane in range(4):
                parts[lane] = _rotated32(parts[lane] + words[stripe * 4 + lane] * p2, 13) * p1
        h = sum(
            (_rotated32(part, bits) for part, bits in zip(parts, (1, 7, 12, 18), strict=True)), np.zeros(count, U32)
        )
    else:
        h = np.full(count, p5, U32)
    h = h + U32(length)
    for word in words[stripes * 4 :]:
        h = _rotated32(h + word * p3, 17) * p4
    for column in lanes[:, whole * 4 :].T:
        h = _rotated32(h + column.astype(U32) * p5, 11) * p1
    h = (h ^ (h >> U32(15))) * p2
    h = (h ^ (h >> U32(13))) * p3
    return h ^ (h >> U32(16))


def _rotated64(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _sip_round(a: Words, b: Words, c: Words, d: Words) -> tuple[Words, Words, Words, Words]:
    a, c = a + b, c + d
    b, d = _rotated64(b, 13) ^ a, _rotated64(d, 16) ^ c
    a = _rotated64(a, 32)
    c, a = c + b, a + d
    b, d = _rotated64(b, 17) ^ c, _rotated64(d, 21) ^ a
    return a, b, _rotated64(c, 32), d


def siphash_1_3(lanes: Lanes) -> Words:
    """SipHash-1-3 with a key of zeros (Aumasson and Bernstein, 2012; one round a word and three at the end).

    Python's own ``hash`` of bytes is this, with a key that PYTHONHASHSEED sets.
    """
    count, length = lanes.shape
    padded = np.zeros((count, (length // 8 + 1) * 8), np.uint8)
    padded[:, :length] = lanes
    padded[:, -1] = length & 0xFF
    starts = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    a, b, c, d = (np.full(count, start, np.uint64) for start in starts)
    for word in padded.view("<u8").T:
        d = d ^ word
        a, b, c, d = _sip_round(a, b, c, d)
        a = a ^ word
    c = c ^ np.uint64(0xFF)
    for _ in range(3):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


def _low_half(hash_lanes: Callable[[Lanes], Words]) -> Callable[[Lanes], Hashes]:
    return lambda lanes: hash_lanes(lanes).astype(U32)


def _first_words(digests: list[bytes]) -> Hashes:
    """The first 32 bits of each digest."""
    step = len(digests[0]) // 4 if digests else 1
    return np.frombuffer(b"".join(digests), "<u4")[::step].astype(U32)


HASHES: tuple[Hash, ...] = (
    Hash("mmh3", lambda keys: np.fromiter(map(mmh3.hash, keys), np.int32, len(keys)).view(U32)),
    Hash("blake2b", lambda keys: _first_words([hashlib.blake2b(key, digest_size=4).digest() for key in keys])),
    Hash("md5", lambda keys: _first_words([hashlib.md5(key).digest() for key in keys])),
    Hash("sha1", lambda keys: _first_words([hashlib.sha1(key).digest() for key in keys])),
    Hash("crc32", lambda keys: np.fromiter(map(zlib.crc32, keys), U32, len(keys))),
    Hash("xxh32", _on_arrays(xxh32), arrays=True),
    Hash("siphash", _on_arrays(_low_half(siphash_1_3)), arrays=True),
    Hash("FNV-1a", _on_columns(_fnv_1a), arrays=True),
    Hash("DJB2", _on_columns(_multiply_add(5381, 33)), arrays=True),
    Hash("SDBM", _on_columns(_multiply_add(0, 65599)), arrays=True),
    Hash("BKDR", _on_columns(_multiply_add(0, 131)), arrays=True),
    Hash("RS", _on_columns(_rs), arrays=True),
    Hash("AP", _on_columns(_ap), arrays=True),
    Hash("JS", _on_columns(_js), arrays=True),
    Hash("DEK", _on_columns(_dek), arrays=True),
    Hash("ELF", _on_columns(_elf), arrays=True),
    Hash("PJW", _on_columns(_pjw), arrays=True),
    Hash("BP", _on_columns(_bp), arrays=True),
)

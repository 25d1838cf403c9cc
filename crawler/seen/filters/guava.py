"""Bloom filters in the format of Guava's ``com.google.common.hash.BloomFilter``, in both strategies.

    filter  =  strategy  hashes  length  word ...

    strategy    1 byte    01: MURMUR128_MITZ_64, the current one; 00: MURMUR128_MITZ_32, used by old releases;
                          later ones still read and write it
    hashes      1 byte    k, 1 to 255
    length      i32       the number of words that follow, at least 1
    word        u64       bit i of the filter is bit i mod 64 of word i // 64, the least significant one being 0

All numbers are big-endian. An example: the filter for one key at 3% (5 hashes in one word) that holds "a":

    01 05 00 00 00 01  20 02 00 08 00 80 02 00

The funnel, the number of keys and the expected number of keys are not stored. There is no checksum, so damage after
the sixth byte cannot be detected.

Positions of a key. The funnel maps the key to bytes. MurmurHash3 (x64, 128 bits, seed 0) of these bytes gives two
little-endian words h1 and h2, and

    01    position i  =  (h1 + i * h2  mod 2**63)  mod  64 * length         i = 0 .. k-1
    00    position i  =  |low + i * high|          mod  64 * length         i = 1 .. k

where low and high are the halves of h1, their sum is a signed 32-bit number, and |x| is x, or ~x if x is
negative. So a filter of MURMUR128_MITZ_32 never uses more than 2**31 bits; larger ones can be read but not created.

``Funnels.byteArrayFunnel()`` returns the bytes themselves, ``Funnels.stringFunnel(UTF_8)`` the string's UTF-8, so the
filters of both are the same. Java's strings are UTF-16: a surrogate pair is one code point, a lone
surrogate is encoded as "?". For all other keys the hash is the digest of ``SEED_ZERO``, so a filter can be made
from stored digests alone.

Sizes. For n keys at p there are ``-n ln p / (ln 2)**2`` bits, truncated to an integer and rounded up to whole
words, and ``-ln p / ln 2`` hashes, rounded. Older releases of Guava, including 31.1, use m / n * ln 2 hashes with the
truncated m, a number that sometimes differs if n is small; the file stores k, so every release reads the files of the
others.

Source: ``BloomFilter.writeTo`` and ``BloomFilterStrategies`` of https://github.com/google/guava.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO, Self

import mmh3
import numpy as np

from crawler.seen.filters.segment_format import FormatError
from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.guava_slice import GuavaSlice, GuavaSlice32

MAX_WORDS = 2**31 - 1  # the maximum length of a Java array
_WIDE, _NARROW = 1, 0  # the strategy bytes
_MOST_NARROW = 2**31  # maximum number of bits
_HEAD = struct.Struct(">bBi")
_BIG = np.dtype(">u8")
_PIECE = 2**17  # words read or written at a time: 1 MiB
_CHUNK = 4096  # keys hashed at a time
_STRATEGIES: dict[int, type[GuavaSlice]] = {_WIDE: GuavaSlice, _NARROW: GuavaSlice32}


def guava_size(expected: int, fpp: float, *, narrow: bool = False) -> tuple[int, int]:
    """Return (words, hashes) of Guava's filter for ``expected`` keys.

    Raises ``FilterError`` if Guava cannot create one.
    """
    if expected < 0:
        raise FilterError(f"the expected number of keys must be at least 0, not {expected}")
    if not 0 < fpp < 1:
        raise FilterError(f"fpp must be between 0 and 1, not {fpp}")
    bits = int(-max(expected, 1) * math.log(fpp) / (math.log(2) * math.log(2)))
    words = -(-bits // 64)
    if not 1 <= words <= MAX_WORDS:
        raise FilterError(f"Guava cannot create a filter of {bits} bits, which fpp {fpp} needs for {expected} keys")
    if narrow and words * 64 > _MOST_NARROW:
        raise FilterError(f"MURMUR128_MITZ_32 uses at most {_MOST_NARROW} bits, but fpp {fpp} needs {bits}")
    return words, max(1, math.floor(-math.log(fpp) / math.log(2) + 0.5))


def funnelled(key: str | bytes) -> bytes:
    """Return the bytes that Guava's funnels hash for a key: ``byteArrayFunnel`` for bytes, ``stringFunnel(UTF_8)`` for
    a string."""
    if isinstance(key, bytes):
        return key
    if key.isascii():
        return key.encode("ascii")
    paired = key.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return paired.encode("utf-8", "replace")


class GuavaBloomFilter:
    """A fixed-size filter like Guava's: it does not store its intended number of keys. Its bits are in ``slice``."""

    def __init__(self, slice: GuavaSlice) -> None:
        self.slice = slice

    @classmethod
    def sized(cls, expected: int, fpp: float = 0.03, *, narrow: bool = False) -> Self:
        """Return an empty filter, like ``BloomFilter.create``; with ``narrow``, its strategy is MURMUR128_MITZ_32.
        Raises ``FilterError``."""
        words, hashes = guava_size(expected, fpp, narrow=narrow)
        return cls(_STRATEGIES[_NARROW if narrow else _WIDE](words * 64, hashes))

    def put_many(self, keys: Iterable[str | bytes]) -> None:
        for batch in _batches(keys):
            self.slice.put(batch)

    def might_contain_many(self, keys: Iterable[str | bytes]) -> list[bool]:
        """Return, for each key, True if it is present or a false positive."""
        return [held for batch in _batches(keys) for held in self.slice.holds(batch).tolist()]

    # -- the serialised form

    def write_to(self, out: BinaryIO) -> None:
        """Write the filter at ``out``'s position, like ``BloomFilter.writeTo``."""
        words = self.slice.words
        narrow = isinstance(self.slice, GuavaSlice32)
        out.write(_HEAD.pack(_NARROW if narrow else _WIDE, self.slice.hashes, len(words)))
        for start in range(0, len(words), _PIECE):
            out.write(words[start : start + _PIECE].astype(_BIG).tobytes())

    @classmethod
    def read_from(cls, inp: BinaryIO, *, limit: int) -> Self:
        """Read a filter at ``inp``'s position, like ``BloomFilter.readFrom``, and leave ``inp`` positioned after it.

        ``limit`` bounds the bytes of the words (the size of the file is a good choice), so that a damaged length raises
        an error instead of a huge allocation. Raises ``FormatError``, and the errors of ``inp.read``.
        """
        head = _exactly(inp, _HEAD.size, "the head")
        strategy, hashes, length = _HEAD.unpack(head)
        if strategy not in _STRATEGIES:
            raise FormatError(f"not a Guava filter: the strategy at offset 0 is {strategy}, which is unknown")
        if hashes == 0:
            raise FormatError("not a Guava filter: the number of hashes at offset 1 is 0")
        if length < 1:
            raise FormatError(f"not a Guava filter: the number of words at offset 2 is {length}")
        if length * 8 > limit:
            raise FormatError(f"the length at offset 2 is {length * 8} bytes; at most {limit} are possible")
        words = zeroed_words(length)
        for start in range(0, length, _PIECE):
            stop = min(length, start + _PIECE)
            words[start:stop] = np.frombuffer(_exactly(inp, (stop - start) * 8, "the words"), _BIG)
        return cls(_STRATEGIES[strategy](length * 64, hashes, words))

    def to_bytes(self) -> bytes:
        out = io.BytesIO()
        self.write_to(out)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the output of ``to_bytes``. Raises ``FormatError``, also for bytes after the filter."""
        inp = io.BytesIO(data)
        read = cls.read_from(inp, limit=len(data))
        if inp.tell() != len(data):
            raise FormatError(f"{len(data) - inp.tell()} bytes after the filter, which ends at offset {inp.tell()}")
        return read


def _batches(keys: Iterable[str | bytes]) -> Iterator[Batch]:
    left = iter(keys)
    while some := list(islice(left, _CHUNK)):
        yield Batch(digest_words(b"".join([mmh3.hash_bytes(funnelled(key)) for key in some])))


def _exactly(inp: BinaryIO, size: int, what: str) -> bytes:
    data = b""
    while len(data) < size:
        piece = inp.read(size - len(data))
        if not piece:
            raise FormatError(f"truncated: {size - len(data)} bytes of {what} are missing")
        data += piece
    return data

"""The memory of the bits: page-aligned, with views as bytes, as words and as a bit array.

The system hands out zeroed memory page by page on first touch, so a slice of a gigabyte is allocated in microseconds.
The free memory is checked first. ``bitarray`` and numpy share the same bytes: ``bitarray`` counts and combines whole
slices, numpy reads and writes batches of keys. Bit i of the bit array is bit i % 64 of word
i // 64 (little-endian throughout).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from bitarray import bitarray

from crawler.base.memory import available_memory, memory_left
from crawler.seen.slices.errors import NoMemoryError

Words = npt.NDArray[np.uint64]

_PAGE = 4096
_LINE = 64
_FEW = 2**20  # bytes that are always free
_NOBODY_HAS = 2**60


def zeroed(size: int, free_memory: Callable[[], int | None] = available_memory) -> npt.NDArray[np.uint8]:
    """``size`` zero bytes, aligned to a page. Raises ``NoMemoryError`` when ``free_memory`` reports less."""
    # The system promises more than it has, and kills the process that uses it later.
    free = free_memory() if size > _FEW else None
    if size > _NOBODY_HAS:
        raise NoMemoryError("such a filter is larger than any memory")
    if free is not None and size > free:
        raise NoMemoryError(f"there is no memory for {size:,} bytes: {memory_left(free)}")
    try:
        raw = np.zeros(size + _PAGE, np.uint8)
    except (MemoryError, ValueError):
        raise NoMemoryError(f"there is no memory for {size:,} bytes") from None
    start = -raw.ctypes.data % _PAGE
    return raw[start : start + size]


def zeroed_bytes(size: int) -> memoryview:
    """``size`` zero bytes, writable and aligned to a page. Raises ``FilterError`` when there is not enough memory."""
    return zeroed(size).data


def zeroed_words(count: int) -> Words:
    """``count`` zero words, aligned to a page: no block straddles two cache lines."""
    return zeroed(count * 8).view("<u8")


def adopt_words(buffer: memoryview) -> Words:
    """The words of ``buffer``, without a copy where it is writable and aligned to a cache line.

    Raises ``ValueError`` when its size is not a multiple of 8 bytes.
    """
    raw = np.frombuffer(buffer, np.uint8)
    if raw.nbytes % 8:
        raise ValueError(f"{raw.nbytes} bytes are not a whole number of 64-bit words")
    if raw.flags.writeable and raw.ctypes.data % _LINE == 0:
        return raw.view("<u8")
    words = zeroed_words(raw.nbytes // 8)
    words.view(np.uint8)[:] = raw
    return words


def as_bits(words: Words) -> bitarray:
    """The bit array over the same memory."""
    return bitarray(buffer=words.data, endian="little")

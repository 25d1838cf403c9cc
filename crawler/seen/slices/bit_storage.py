"""Page-aligned memory for the bits of a slice, with views as bytes, as words and as a bit array.

The operating system supplies zeroed pages on first touch, so allocating a slice of a gigabyte takes microseconds.
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
_FEW = 2**20  # bytes; smaller allocations are not checked
_NOBODY_HAS = 2**60


def zeroed(size: int, free_memory: Callable[[], int | None] = available_memory) -> npt.NDArray[np.uint8]:
    """Return ``size`` zero bytes, aligned to a page. Raises ``NoMemoryError`` if ``free_memory`` reports less."""
    # The system overcommits: the allocation would succeed, and the process would be killed when it uses the memory.
    free = free_memory() if size > _FEW else None
    if size > _NOBODY_HAS:
        raise NoMemoryError("the filter is larger than any machine's memory")
    if free is not None and size > free:
        raise NoMemoryError(f"out of memory: cannot allocate {size:,} bytes ({memory_left(free)})")
    try:
        raw = np.zeros(size + _PAGE, np.uint8)
    except (MemoryError, ValueError):
        raise NoMemoryError(f"out of memory: cannot allocate {size:,} bytes") from None
    start = -raw.ctypes.data % _PAGE
    return raw[start : start + size]


def zeroed_bytes(size: int) -> memoryview:
    """Return ``size`` writable zero bytes, aligned to a page. Raises ``NoMemoryError``."""
    return zeroed(size).data


def zeroed_words(count: int) -> Words:
    """Return ``count`` zero words, aligned to a page, so that no block straddles two cache lines."""
    return zeroed(count * 8).view("<u8")


def adopt_words(buffer: memoryview) -> Words:
    """View ``buffer`` as words. Copies it only if it is read-only or not aligned to a cache line.

    Raises ``ValueError`` if its size is not a multiple of 8 bytes.
    """
    raw = np.frombuffer(buffer, np.uint8)
    if raw.nbytes % 8:
        raise ValueError(f"the size, {raw.nbytes} bytes, is not a multiple of 8")
    if raw.flags.writeable and raw.ctypes.data % _LINE == 0:
        return raw.view("<u8")
    words = zeroed_words(raw.nbytes // 8)
    words.view(np.uint8)[:] = raw
    return words


def as_bits(words: Words) -> bitarray:
    """View the same memory as a bit array."""
    return bitarray(buffer=words.data, endian="little")

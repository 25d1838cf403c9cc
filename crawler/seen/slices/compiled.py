"""Access to the parts of the seen-set that also exist in C (``native/``), if the C code was built.

    KeyHasher      digests of keys
    SeenKernel     test-and-set of a batch of keys over all Bloom slices of a chain, on the memory of the slices
    RecentDigests  a memo of digests, which is checked before the ledger

The Python code is the reference: both set the same bits and give the same answers, so either can read a filter that the
other filled. If the C code is not built, or the environment has ``CRAWLER_NATIVE=off``, the functions here return None
and the reference is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from crawler.base import entropy

try:
    from crawler.base.native import compiled as _native
except ImportError:  # the Python code is used
    _BUILT = False
else:
    _BUILT = True

CHUNK = 4096  # keys per call of the kernel
LAYOUTS = ("blocked", "paired", "classic", "guava")  # slice layouts that the kernel supports

# Memory; layout; blocks per region, or bits; hashes.
StatedSlice = tuple[object, str, int, int]


class Watched(Protocol):
    """The part of ``WatchedKeys`` that a kernel uses."""

    @property
    def known(self) -> dict[int, int]:
        """The watched keys by the first half of their digests. Always the same dict object."""

    @property
    def mask(self) -> int:
        """Bits of the second half that are clear in every watched key."""

    def watch_unknown(self, h1: int, h2: int, new: bool) -> None:
        """Record a key that has the bits of ``mask`` clear but is not in ``known``."""


_used = ContextVar("used", default=_BUILT)


def available() -> bool:
    """Return True if the C code was built and is not switched off."""
    return _BUILT


@contextmanager
def reference() -> Iterator[None]:
    """Use the Python code for all objects created in this context."""
    before = _used.set(False)
    try:
        yield
    finally:
        _used.reset(before)


def key_hasher(algorithm: str, secret: bytes) -> _native.KeyHasher | None:
    """Return a hasher for the algorithm and secret. Raises ``ValueError`` for an invalid secret."""
    return _native.KeyHasher(algorithm, secret) if _used.get() else None


def seen_kernel(algorithm: str, secret: bytes, watched: Watched) -> _native.SeenKernel | None:
    """Return a kernel, without slices, for keys hashed with this algorithm and secret. The filter uses it as its
    lock."""
    if not _used.get():
        return None
    # The multiplier is secret, so that keys cannot be chosen to collide in the table that finds duplicates in a batch.
    multiplier = int.from_bytes(entropy.random_bytes(8), "little") | 1
    return _native.SeenKernel(algorithm, secret, multiplier, watched)


def recent_digests(most: int) -> _native.RecentDigests | None:
    """Return a memo of digests that takes at most ``most`` bytes."""
    return _native.RecentDigests(most) if _used.get() else None


class _Nothing:
    """The (empty) watched keys of a slice that is only written."""

    mask = 0

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def watch_unknown(self, h1: int, h2: int, new: bool) -> None: ...


def slice_writer(stated: StatedSlice) -> _native.SeenKernel | None:
    """Return a kernel that only sets bits in one slice."""
    if not _used.get():
        return None
    made = _native.SeenKernel("mmh3", bytes(4), 1, _Nothing())
    made.take((stated,), sys.maxsize)
    return made

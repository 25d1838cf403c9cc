"""The parts of the seen-set that are also written in C (``native/``), where they were built.

    KeyHasher      digests of keys
    SeenKernel     test-and-set of a batch of keys over all Bloom slices of a chain, on the memory of the slices
    RecentDigests  a memo of digests, which the ledger asks first

The code in Python is the reference: both leave the same bits and give the same answers, so a filter may be filled by
the one and read by the other. Where nothing was built, or the environment has ``CRAWLER_NATIVE=off``, everything here
is None and the reference does the work.
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
except ImportError:  # the code in Python does the work
    _BUILT = False
else:
    _BUILT = True

CHUNK = 4096  # keys that the kernel takes at once
LAYOUTS = ("blocked", "paired", "classic", "guava")  # of slices that the kernel knows

# Memory, layout, blocks of a region or bits, hashes.
StatedSlice = tuple[object, str, int, int]


class Watched(Protocol):
    """What a kernel needs of ``WatchedKeys``."""

    @property
    def known(self) -> dict[int, int]:
        """By the first halves of their digests: the same dict for ever."""
        ...

    @property
    def mask(self) -> int:
        """Bits of the second half that are clear in every watched key."""
        ...

    def watch_unknown(self, h1: int, h2: int, new: bool) -> None:
        """A key with those bits clear that is not known."""
        ...


_used = ContextVar("used", default=_BUILT)


def available() -> bool:
    """Whether they were built, and not switched off."""
    return _BUILT


@contextmanager
def reference() -> Iterator[None]:
    """Whatever is made inside does without them."""
    before = _used.set(False)
    try:
        yield
    finally:
        _used.reset(before)


def key_hasher(algorithm: str, secret: bytes) -> _native.KeyHasher | None:
    """The hash of that name with that secret. Raises ``ValueError`` for a secret that it cannot have."""
    return _native.KeyHasher(algorithm, secret) if _used.get() else None


def seen_kernel(algorithm: str, secret: bytes, watched: Watched) -> _native.SeenKernel | None:
    """A kernel for keys that are hashed so. It has no slice yet, and is the lock of its filter."""
    if not _used.get():
        return None
    # Keys that are hostile to the table in which a batch is compared with itself cannot be made without knowing this.
    multiplier = int.from_bytes(entropy.random_bytes(8), "little") | 1
    return _native.SeenKernel(algorithm, secret, multiplier, watched)


def recent_digests(most: int) -> _native.RecentDigests | None:
    """A memo of digests of at most ``most`` bytes."""
    return _native.RecentDigests(most) if _used.get() else None


class _Nothing:
    """What watches the keys of a slice that is only written."""

    mask = 0

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def watch_unknown(self, h1: int, h2: int, new: bool) -> None: ...


def slice_writer(stated: StatedSlice) -> _native.SeenKernel | None:
    """A kernel that only sets bits in one slice."""
    if not _used.get():
        return None
    made = _native.SeenKernel("mmh3", bytes(4), 1, _Nothing())
    made.take((stated,), sys.maxsize)
    return made

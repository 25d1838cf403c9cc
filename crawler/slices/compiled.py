"""The parts of the seen-set that are also written in C (``native/``), where they were built.

    KeyHasher    digests of keys
    SeenKernel   test-and-set of a batch of keys over all Bloom slices of a chain, on the memory of the slices

The code in Python is the reference: both leave the same bits and give the same answers, so a filter may be filled by
the one and read by the other. Where nothing was built, everything here is None and the reference does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from crawler.slices import entropy

if TYPE_CHECKING:
    from crawler._native import KeyHasher, SeenKernel

_native: Any
try:
    from crawler import _native
except ImportError:  # no compiler was there
    _native = None

CHUNK = 4096  # keys that the kernel takes at once
LAYOUTS = ("blocked", "paired", "classic", "guava")  # of slices that the kernel knows

# Memory, layout, blocks of a region or bits, hashes.
StatedSlice = tuple[object, str, int, int]

_used = ContextVar("used", default=_native is not None)


def available() -> bool:
    """Whether they were built."""
    return _native is not None


@contextmanager
def reference() -> Iterator[None]:
    """Inside, whatever is made or grows does without them."""
    before = _used.set(False)
    try:
        yield
    finally:
        _used.reset(before)


def key_hasher(algorithm: str, secret: bytes) -> KeyHasher | None:
    """The hash of that name with that secret. Raises ``ValueError`` for a secret that it cannot have."""
    return _native.KeyHasher(algorithm, secret) if _used.get() else None


def seen_kernel(
    algorithm: str,
    secret: bytes,
    slices: Sequence[StatedSlice],
    known: dict[int, int],
    watch: Callable[[int, int, bool], object],
) -> SeenKernel | None:
    """The kernel for ``slices``, the newest first. ``known`` and ``watch`` are those of the watched keys."""
    if not _used.get():
        return None
    # Keys that are hostile to the table in which a batch is compared with itself cannot be made without knowing this.
    multiplier = int.from_bytes(entropy.random_bytes(8), "little") | 1
    made: SeenKernel = _native.SeenKernel(algorithm, secret, multiplier, tuple(slices), known, watch)
    return made

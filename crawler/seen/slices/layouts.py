"""The slice layouts by name. Creates slices of a given size, or from stored memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from crawler.seen.slices import compiled
from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.blocked_slice import LAYOUTS as BLOCKED
from crawler.seen.slices.blocked_slice import BlockedSlice
from crawler.seen.slices.classic_slice import POSITIONS, ClassicSlice
from crawler.seen.slices.contract import Slice
from crawler.seen.slices.counting_slice import CountingSlice
from crawler.seen.slices.cuckoo_slice import CuckooSlice
from crawler.seen.slices.digest_batch import Words
from crawler.seen.slices.errors import FilterError, real_number, whole_number
from crawler.seen.slices.fpp_model import BlockShape
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS
from crawler.seen.slices.table_slice import TableSlice

_BLOCKS = {layout: blocks for blocks, layout in BLOCKED.items()}
BLOOM_LAYOUTS = (*_BLOCKS, "classic")


def check_shape(capacity: SupportsIndex, fpp: float) -> tuple[int, float]:
    """Return ``capacity`` and ``fpp`` as plain numbers. Raises ``FilterError`` for invalid values."""
    fpp = real_number(fpp)
    if not 0 < fpp < 1:
        raise FilterError(f"fpp must be between 0 and 1, not {fpp}")
    keys = whole_number(capacity, "a capacity")
    if keys < 1:
        raise FilterError(f"the capacity must be at least 1, not {keys}")
    return keys, fpp


def sized_slice(layout: str, capacity: int, fpp: float) -> Slice:
    """Return the smallest Bloom slice of this layout that stays within ``fpp`` up to ``capacity`` keys.

    Raises ``FilterError`` for an unknown layout.
    """
    if layout in _BLOCKS:
        return BlockedSlice.sized(capacity, fpp, blocks=_BLOCKS[layout])
    if layout == "classic":
        return ClassicSlice.sized(capacity, fpp)
    raise FilterError(f"layout must be one of {', '.join(BLOOM_LAYOUTS)}, not {layout}")


def stored_slice(geometry: Mapping[str, Any], words: Words) -> Slice:
    """Rebuild a slice from its ``geometry()`` and ``words``. Raises ``ValueError`` if they do not fit together."""
    layout = geometry["layout"]
    if layout in _BLOCKS:
        shape = BlockShape(geometry["hashes"], _BLOCKS[layout])
        return BlockedSlice(shape, geometry["blocks_per_region"], words)
    if layout in ("classic", "counters") and geometry.get("positions") != POSITIONS:
        raise FilterError(f"the {layout} slice uses the positions of another version of the program")
    if layout == "classic":
        return ClassicSlice(geometry["bits"], geometry["hashes"], words)
    if layout in GUAVA_LAYOUTS:
        return GUAVA_LAYOUTS[layout](geometry["bits"], geometry["hashes"], words)
    if layout == "counters":
        return CountingSlice(geometry["counters"], geometry["hashes"], geometry["counter_bits"], words)
    if layout == "table":
        return TableSlice(
            geometry["buckets"],
            geometry["digest_bits"],
            words,
            geometry.get("multiplier", 1),
            crowded=bool(geometry.get("crowded")),
        )
    if layout == "cuckoo":
        stash = [(bucket, tag) for bucket, tag in geometry["stash"]]
        return CuckooSlice(geometry["buckets"], geometry["tag_bits"], words, stash, geometry.get("multiplier", 1))
    raise FilterError(f"unknown layout: {layout}")


def copied_slice(part: Slice) -> Slice:
    """Return a copy of the slice with its own memory. Raises ``FilterError`` if there is not enough memory."""
    words = zeroed_words(len(part.words))
    words[:] = part.words
    return stored_slice(part.geometry(), words)


def stated_for_kernel(slices: Sequence[Slice]) -> tuple[compiled.StatedSlice, ...] | None:
    """Return ``slices`` in the kernel's form, or None if it does not support one of their layouts."""
    stated: list[compiled.StatedSlice] = []
    for part in slices:
        if isinstance(part, BlockedSlice):
            stated.append((part.words, part.layout, part.blocks_per_region, part.hashes))
        elif isinstance(part, ClassicSlice) and part.layout in compiled.LAYOUTS:
            stated.append((part.words, part.layout, part.bits, part.hashes))
        else:
            return None
    return tuple(stated)

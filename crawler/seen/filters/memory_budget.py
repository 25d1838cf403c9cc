"""Checks whether a seen-set to be created or read fits into the free memory, before anything is allocated.

The filters also check before they allocate memory. The checks here name the purpose of the memory, and add up several
filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crawler.base.memory import available_memory, memory_left
from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters.chain_compaction import GROWTH, TIGHTENING
from crawler.seen.filters.guava import guava_size
from crawler.seen.filters.planning import SlicePlan, schedule
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS, GuavaSlice32

_FIXED = ("bloom", "bitmap")


def check_memory(size: int, what: str) -> None:
    """Check that ``size`` bytes are free. Raises FilterError."""
    free = available_memory()
    if free is not None and size > free:
        raise FilterError(f"{what} takes {size:,} bytes of memory, but {memory_left(free)}")


class Room:
    """Checks the memory for each slice of a seen-set with the given ``parameters()`` before it is created."""

    def __init__(self, parameters: Mapping[str, Any], opened: int = 0, compacted: int | None = None) -> None:
        """For a seen-set that already has ``opened`` slices; ``compacted`` is the capacity of the first one if it has
        replaced a chain. Raises FilterError if the slices cannot be planned."""
        self._planned: Iterator[SlicePlan] = schedule(parameters, compacted)
        self._reach: float = 0
        for _ in range(opened):
            self._next()

    def need(self, keys: int) -> None:
        """Call before the number of keys reaches ``keys``. Raises FilterError if the memory for their slices is
        short."""
        while self._reach < keys:
            part = self._next()
            if part is not None:
                check_memory(part.size, f"a slice for {part.capacity:,} keys")

    def _next(self) -> SlicePlan | None:
        try:
            part = next(self._planned, None)
        except (OverflowError, ZeroDivisionError):
            raise FilterError("the slice is larger than any machine's memory") from None
        self._reach = float("inf") if part is None else self._reach + part.capacity
        return part


def planned_parameters(settings: SeenSettings, layout: str) -> dict[str, Any]:
    """Return the part of a seen-set's ``parameters()`` that determines its size, computed from the settings."""
    made: dict[str, Any] = {"kind": settings.kind, "capacity": settings.capacity, "fpp": settings.fpp}
    made |= {"layout": layout, "counter_bits": 4, "digest_bits": 128, **geometry(settings, layout)}
    if settings.kind not in _FIXED:
        made["growth"] = GROWTH
    if settings.kind in ("scalable", "counting"):
        made["tightening"] = TIGHTENING
    return made


def geometry(settings: SeenSettings, layout: str) -> dict[str, int]:
    """Return the bits and hashes for Guava's layouts, which have their own formula."""
    if layout not in GUAVA_LAYOUTS:
        return {}
    words, hashes = guava_size(settings.capacity, settings.fpp, narrow=layout == GuavaSlice32.layout)
    return {"bits": words * 64, "hashes": hashes}

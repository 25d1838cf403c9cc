"""Checks whether a seen-set to be made or read fits into the free memory, before anything is allocated.

The filters also check before they take memory. The checks here say what the memory is for, and count several filters
together.
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
    """Raises FilterError when ``size`` bytes are not free."""
    free = available_memory()
    if free is not None and size > free:
        raise FilterError(f"{what} takes {size:,} bytes of memory, and {memory_left(free)}")


class Room:
    """The slices that a seen-set with some ``parameters()`` opens, each checked before it is made."""

    def __init__(self, parameters: Mapping[str, Any], opened: int = 0, compacted: int | None = None) -> None:
        """For a seen-set that has ``opened`` slices already; ``compacted`` is the capacity of the first one if it has
        replaced a chain. Raises FilterError when no such slice can be planned."""
        self._planned: Iterator[SlicePlan] = schedule(parameters, compacted)
        self._reach: float = 0
        for _ in range(opened):
            self._next()

    def need(self, keys: int, copies: int = 1) -> None:
        """Call before there are ``keys`` keys. Raises FilterError when there is not enough memory for their slices."""
        while self._reach < keys:
            part = self._next()
            if part is not None:
                times = f", {copies} times," if copies > 1 else ""
                check_memory(part.size * copies, f"a slice for {part.capacity:,} keys{times}")

    def _next(self) -> SlicePlan | None:
        try:
            part = next(self._planned, None)
        except (OverflowError, ZeroDivisionError):
            raise FilterError("such a slice is larger than any memory") from None
        self._reach = float("inf") if part is None else self._reach + part.capacity
        return part


def planned_parameters(settings: SeenSettings, layout: str) -> dict[str, Any]:
    """The ``parameters()`` of a seen-set made from these settings, as far as sizes depend on them."""
    made: dict[str, Any] = {"kind": settings.kind, "capacity": settings.capacity, "fpp": settings.fpp}
    made |= {"layout": layout, "counter_bits": 4, "digest_bits": 128, **geometry(settings, layout)}
    if settings.kind not in _FIXED:
        made["growth"] = GROWTH
    if settings.kind in ("scalable", "counting"):
        made["tightening"] = TIGHTENING
    return made


def geometry(settings: SeenSettings, layout: str) -> dict[str, int]:
    """The bits and hashes of a layout that has rules of its own for them."""
    if layout not in GUAVA_LAYOUTS:
        return {}
    words, hashes = guava_size(settings.capacity, settings.fpp, narrow=layout == GuavaSlice32.layout)
    return {"bits": words * 64, "hashes": hashes}

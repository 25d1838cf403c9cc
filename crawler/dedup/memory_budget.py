"""Whether what is to be made fits into the memory that is free, said before anything is made of it.

The filters look for themselves before they take memory. Here it is told what the memory is for, and several are counted
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crawler.filters import FilterError
from crawler.filters.advisor import SlicePlan, schedule
from crawler.memory import available_memory


def check_memory(size: int, what: str) -> None:
    """Raises FilterError when ``size`` bytes are not free."""
    free = available_memory()
    if free is not None and size > free:
        raise FilterError(f"{what} takes {size:,} bytes of memory, and {free:,} are free")


class Room:
    """The slices that a seen-set of some ``parameters()`` opens, each looked at before it is made."""

    def __init__(self, parameters: Mapping[str, Any], opened: int = 0) -> None:
        """For a seen-set that has ``opened`` slices already. Raises FilterError when no such slice can be planned."""
        self._planned: Iterator[SlicePlan] = schedule(parameters)
        self._reach: float = 0
        for _ in range(opened):
            self._next()

    def need(self, keys: int, copies: int = 1) -> None:
        """To be called before there are ``keys`` keys. Raises FilterError when a slice for them has no room."""
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

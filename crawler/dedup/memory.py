"""What the machine has left, and whether the next slice fits into it.

A slice's memory is promised by the system at once and taken page by page later, so that a slice too many shows as the
end of some process, not as an error. So it is compared with what is free before it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crawler.filters import FilterError
from crawler.filters.advisor import SlicePlan, schedule

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Bytes that can be taken without swapping, by the kernel's own estimate; None where it gives none.

    A limit of the control group (version 2) counts too, less what the group uses now.
    """
    text = _read(_MEMINFO)
    found = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:")]
    most, used = _read(_CGROUP / "memory.max").strip(), _read(_CGROUP / "memory.current").strip()
    if most.isdigit() and used.isdigit():
        found.append(max(0, int(most) - int(used)))
    return min(found, default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


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

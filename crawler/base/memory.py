"""How much memory is free: the only thing that a filter asks the machine.

The system promises the memory of a slice at once, but hands it out page by page later. If it runs out, the process is
killed without an error. So the size of a slice is compared with the free memory before the slice is created.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_STATM = Path("/proc/self/statm")
# Bytes of address space that a filter leaves for what cannot be refused: the tables that RocksDB keeps in memory, its
# threads and ours. RocksDB aborts the process if it gets none.
_LEFT_OVER = 384 * 2**20


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, by the kernel's own estimate; None if there is no estimate.

    The free part of the control group's limit (version 2) is an upper bound too, and so is what the limit on address
    space (``ulimit -v``) leaves.
    """
    return min([free for free in (_machine_memory(), _below_limit()) if free is not None], default=None)


def is_limited() -> bool:
    """True if the limit on address space leaves less than the machine has."""
    machine, below = _machine_memory(), _below_limit()
    return below is not None and (machine is None or below < machine)


def memory_left(free: int) -> str:
    """That only ``free`` bytes are left, and whether the limit on address space is the cause."""
    if is_limited():
        return f"the limit of this process on address space (ulimit -v) leaves {free:,}"
    return f"{free:,} are free"


def resident_memory() -> int | None:
    """Bytes of memory that this process holds; None if the system does not say."""
    pages = _read(_STATM).split()
    return int(pages[1]) * os.sysconf("SC_PAGESIZE") if pages else None


def _machine_memory() -> int | None:
    text = _read(_MEMINFO)
    found = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:")]
    most, used = _read(_CGROUP / "memory.max").strip(), _read(_CGROUP / "memory.current").strip()
    if most.isdigit() and used.isdigit():
        found.append(max(0, int(most) - int(used)))
    return min(found, default=None)


def _below_limit() -> int | None:
    space = address_space()
    return None if space is None else max(0, space - _LEFT_OVER)


def address_space() -> int | None:
    """Bytes that the process may still map; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read(_STATM).split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return max(0, limit - int(pages[0]) * os.sysconf("SC_PAGESIZE"))


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""

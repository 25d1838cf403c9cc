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
    text = _read(_MEMINFO)
    found = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:")]
    most, used = _read(_CGROUP / "memory.max").strip(), _read(_CGROUP / "memory.current").strip()
    if most.isdigit() and used.isdigit():
        found.append(max(0, int(most) - int(used)))
    space = address_space()
    if space is not None:
        found.append(max(0, space - _LEFT_OVER))
    return min(found, default=None)


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

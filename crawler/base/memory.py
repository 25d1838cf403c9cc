"""Measures free memory, and sets when freed memory returns to the system. A filter needs to know nothing else about the
machine.

The system grants all the memory of a slice at once, but provides it only later, page by page. If memory runs out, the
process is killed without an error. The size of a slice is therefore compared with the free memory before the slice is
created.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_STATM = Path("/proc/self/statm")
# Bytes of address space that a filter leaves for allocations that must not fail: RocksDB's in-memory tables and
# threads, and our threads. RocksDB aborts the process if an allocation fails.
_LEFT_OVER = 384 * 2**20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Freed memory that is kept for the next parse tree: requesting it from the kernel again would cost as much as building
# the tree.
KEPT_BYTES = 16 * 2**20


def available_memory() -> int | None:
    """Return the kernel's estimate of the bytes that can be allocated without swapping; None if there is no estimate.

    The result is at most what the limits of the control group (version 2) and on address space (``ulimit -v``) leave.
    """
    return min([free for free in (_machine_memory(), _below_limit()) if free is not None], default=None)


def is_limited() -> bool:
    """Return True if the limit on address space leaves less memory than the machine has free."""
    machine, below = _machine_memory(), _below_limit()
    return below is not None and (machine is None or below < machine)


def memory_left(free: int) -> str:
    """Return a clause saying that ``free`` bytes are left; it names the limit on address space if that limit is the
    cause."""
    if is_limited():
        return f"the address-space limit of this process (ulimit -v) leaves {free:,}"
    return f"{free:,} are free"


def resident_memory() -> int | None:
    """Return the bytes of memory that this process occupies; None if the system does not report it."""
    pages = _read(_STATM).split()
    return int(pages[1]) * os.sysconf("SC_PAGESIZE") if pages else None


def return_blocks(size: int) -> None:
    """Return each freed block of at least ``size`` bytes to the system, and of the rest what exceeds ``KEPT_BYTES``.

    Otherwise glibc raises both limits up to 32 and 64 MB, and the gaps between blocks that live on stay in memory."""
    with contextlib.suppress(AttributeError):  # other C libraries lack mallopt
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, size)
        libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


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
    """Return the bytes that the process may still map; None without a limit."""
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

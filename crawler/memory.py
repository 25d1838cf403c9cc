"""How much memory is free: the only thing that a filter asks the machine.

The system promises the memory of a slice at once, but hands it out page by page later. If it runs out, the process is
killed without an error. So the size of a slice is compared with the free memory before the slice is created.
"""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, by the kernel's own estimate; None if there is no estimate.

    The free part of the control group's limit (version 2) is an upper bound too.
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

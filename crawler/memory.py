"""How much memory is free: the one thing that a filter asks the machine.

The system promises a slice's memory at once, and hands it out page by page later. One slice too many shows as a killed
process, not as an error. So the size of a slice is compared with the free memory before the slice is made.
"""

from __future__ import annotations

from pathlib import Path

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

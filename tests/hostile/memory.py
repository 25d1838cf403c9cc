"""The most memory that a program and the processes that it starts held together."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.M)
_NOW = re.compile(r"^VmRSS:\s+(\d+) kB", re.M)
_PRIVATE = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", re.M)
_PAUSE = 0.02  # seconds between two looks


class PeakMemory:
    """Looks at a process until it has ended, from a thread.

    Of the process itself the kernel keeps the peak, so that nothing between two looks is missed. Added up is what all
    hold at one moment: its descendants share pages with it, so only their own count beside. For one that lives
    shorter than a pause see ``Started.peak_of_each``.
    """

    def __init__(self, pid: int) -> None:
        self.most = 0  # bytes
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        self._look()
        while not self._ended.wait(_PAUSE):
            self._look()

    def _look(self) -> None:
        # A process may end while its files are read.
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self._pid}/status").read_text()
            alone, held = sum(_kilobytes(_PEAK, status)), sum(_kilobytes(_NOW, status))
            for pid in _descendants(self._pid):
                held += sum(_kilobytes(_PRIVATE, Path(f"/proc/{pid}/smaps_rollup").read_text()))
            self.most = max(self.most, alone * 1024, held * 1024)


def _kilobytes(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    return map(int, pattern.findall(text))


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _descendants(child)

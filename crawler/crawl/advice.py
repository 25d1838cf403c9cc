"""What is ahead of the seen-set of a running crawl, at its present rate and in the memory that is free."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crawler.exact import Seen
from crawler.filters import FilterError, advise
from crawler.filters.advisor import Cause

log = logging.getLogger("crawler")

INTERVAL = 5.0  # seconds between two looks
WINDOW = 60.0  # seconds over which the rate is taken
_MEMINFO = Path("/proc/meminfo")
_AVAILABLE = re.compile(r"^MemAvailable:\s+([0-9]+) kB$", re.MULTILINE)


def free_memory() -> int | None:
    """Bytes that processes may still take, as Linux estimates them; None where nobody says."""
    try:
        found = _AVAILABLE.search(_MEMINFO.read_text("ascii"))
    except FileNotFoundError:
        return None
    return int(found[1]) * 1024 if found else None


class Adviser:
    """Looks ahead every few seconds, and warns of each cause once."""

    def __init__(self, compact_slices: int) -> None:
        self._compact_slices = compact_slices
        self._looks: deque[tuple[float, int]] = deque()
        self._warned: set[Cause] = set()
        self.advice: dict[str, Any] | None = None  # as ``stats --json`` has it; None for a kind without slices

    async def watch(self, seen: Seen, clock: Callable[[], float]) -> None:
        """Look, and log the warnings, until cancelled."""
        while True:
            warning = self.look(seen, clock(), free_memory())
            if warning is not None:
                log.warning("seen-set: %s", warning)
            await asyncio.sleep(INTERVAL)

    def look(self, seen: Seen, now: float, memory: int | None) -> str | None:
        """``now`` in seconds, ``memory``: free bytes. The warning, if there is one that was not given before."""
        count = len(seen)
        self._looks.append((now, count))
        while now - self._looks[0][0] > WINDOW:
            self._looks.popleft()
        since, before = self._looks[0]
        rate = (count - before) / (now - since) if now > since else None
        try:
            advice = advise(
                seen.statistics(), seen.parameters(), rate=rate, memory=memory, compact_slices=self._compact_slices
            )
        except FilterError:
            return None  # nothing can be planned for this kind
        self.advice = {**asdict(advice), "new_urls_per_second": rate}
        if advice.cause is None or advice.cause in self._warned:
            return None
        self._warned.add(advice.cause)
        return advice.warning

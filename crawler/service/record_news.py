"""Tells listeners of records as they are counted."""

from __future__ import annotations

from typing import Any

from crawler.service.record_counter import RecordCounter


class RecordNews:
    """What is new since listeners were told last."""

    def __init__(self, counter: RecordCounter) -> None:
        self._counter = counter
        self._told = 0
        self._tells = False

    def take(self) -> dict[str, Any]:
        """How many records were counted since the last call, and the newest of them, newest first. None while the
        records of earlier runs are counted."""
        now, told = self._counter.progress, self._told
        if not now.complete or not self._tells:
            self._told, self._tells = now.records, now.complete
            return {"records": [], "records_new": 0}
        self._told = now.records
        fresh = [row for row in now.recent if row["number"] > told]
        return {"records": fresh, "records_new": max(0, now.records - told)}

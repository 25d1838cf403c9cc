"""The statistics of several runs as those of one."""

from __future__ import annotations

from typing import Any

from crawler.engine.run import Run


def pooled(stats: list[dict[str, Any]]) -> dict[str, Any]:
    """Add what are numbers, at all depths; of everything else, the first that is not None counts."""
    keys = dict.fromkeys(key for each in stats for key in each)
    return {key: _pooled([each[key] for each in stats if key in each]) for key in keys}


def _pooled(values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, dict) for value in known):
        return pooled(known)
    if known and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        return sum(known)
    return known[0] if known else None


class Tally:
    """What the runs of a member that are over have done. Of a partition that was opened several times, the last run
    tells: counts are those of its job."""

    def __init__(self) -> None:
        self._stats: dict[int, dict[str, Any]] = {}
        self._seeds: dict[int, int] = {}
        self.last_seed_error: str | None = None

    def add(self, number: int, run: Run) -> None:
        """A run is over; its job is still open."""
        self._stats[number] = run.stats()
        self._seeds[number] = run.job.counters.seeds_fetched
        self.last_seed_error = run.last_seed_error or self.last_seed_error

    @property
    def seeds_fetched(self) -> int:
        """The seeds that were fetched in these partitions."""
        return sum(self._seeds.values())

    def stats(self, now: dict[int, Run]) -> dict[str, Any]:
        """The statistics of the runs that are over, and of those that are open now."""
        each = {**self._stats, **{number: run.stats() for number, run in now.items()}}
        return pooled(list(each.values()))

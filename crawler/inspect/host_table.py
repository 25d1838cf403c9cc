"""The hosts of a job as rows of a table, for people and for programs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from crawler.frontier import Host, decode_host
from crawler.frontier.host import host_name
from crawler.frontier.host_status import HostRow, describe
from crawler.kv import Family, Reader
from crawler.settings import BudgetSettings, PolitenessSettings, Settings

Row = dict[str, Any]
SORTS = tuple(name for name in HostRow.__dataclass_fields__ if name != "reason")
_COLUMNS = tuple(HostRow.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class HostTableSettings:
    """What rows of hosts are told."""

    politeness: PolitenessSettings
    budget: BudgetSettings

    @classmethod
    def of(cls, settings: Settings) -> HostTableSettings:
        return cls(settings.politeness, settings.budget)


def host_row(host: Host, now: float, in_flight: int, settings: HostTableSettings) -> Row:
    """One host at ``now`` (seconds since 1970), with ``in_flight`` of its URLs handed out: they are not pending."""
    if not host.leased and in_flight:
        # As the store has it: what is handed out is known to the running crawl alone.
        host.leased = host.queue.taken = in_flight
    row = describe(host, now, settings.politeness, settings.budget)
    values = {name: getattr(row, name) for name in _COLUMNS}
    values["pending"] -= row.in_flight
    return values


def host_rows(
    store: Reader,
    settings: HostTableSettings,
    now: float,
    in_flight: Mapping[str, int],
    known: Callable[[str], Host | None] | None = None,
) -> Iterator[Row | None]:
    """A row for each host of the job, by name; None now and then, where a long look may be broken off. ``in_flight``
    counts handed out URLs by host, ``known`` gives the working state of a host that has one."""
    for rows in store.pages(Family.HOSTS):
        for key, value in rows:
            name = host_name(key)
            host = known(name) if known is not None else None
            yield host_row(host or decode_host(name, value), now, in_flight.get(name, 0), settings)
        yield None


def choose(
    rows: Iterator[Row | None],
    *,
    sort: str = "pending",
    descending: bool = True,
    offset: int = 0,
    limit: int,
    q: str = "",
) -> Iterator[tuple[int, list[Row]] | None]:
    """Of the rows whose host contains ``q``: how many there are, and ``limit`` of them behind the first ``offset``.
    Gives None now and then, as ``rows`` does, and that pair at last; ``offset + limit`` rows are held at a time."""
    best: list[tuple[Any, int, Row]] = []
    total, most, wanted, order, value = 0, offset + limit, q.lower(), _order(descending), _value(sort)
    for row in rows:
        if row is None:
            yield None
            continue
        if wanted not in row["host"]:
            continue
        total += 1
        entry = (order(value(row)), -total, row)
        if len(best) < most:
            heapq.heappush(best, entry)
        elif most and entry[:2] > best[0][:2]:
            heapq.heapreplace(best, entry)
    yield total, [row for _, _, row in sorted(best, key=lambda entry: entry[:2], reverse=True)][offset:]


def _value(sort: str) -> Callable[[Row], Any]:
    """What of a row is compared. A host that is held for its errors has for a long time failed none of its URLs, and
    one without robots.txt never does: among as many failed ones the errors decide."""
    if sort == "failed":
        return lambda row: (row["failed"], sum(row["errors"].values()))
    if sort == "errors":
        return lambda row: sum(row["errors"].values())
    return lambda row: row[sort]


def _order(descending: bool) -> Callable[[Any], Any]:
    """A key under which what is to be shown first is the greatest; nothing to say comes last either way."""

    def compare(one: Any, other: Any) -> int:
        if one is None or other is None:
            return (one is not None) - (other is not None)
        return int((one > other) - (one < other)) * (1 if descending else -1)

    return cmp_to_key(compare)

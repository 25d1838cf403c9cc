"""The hosts of a job as rows of a table, for people and programs."""

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
    """The settings of rows of hosts."""

    politeness: PolitenessSettings
    budget: BudgetSettings

    @classmethod
    def of(cls, settings: Settings) -> HostTableSettings:
        return cls(settings.politeness, settings.budget)


def host_row(host: Host, now: float, in_flight: int, settings: HostTableSettings) -> Row:
    """Return the row of one host at ``now`` (seconds since 1970). ``in_flight`` of its URLs are handed out; they do not
    count as pending."""
    if not host.leased and in_flight:
        # As in the store: only the running crawl knows which URLs are handed out.
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
    """Yield a row for each host of the job, by name, and None at points where a long read may be abandoned.

    ``in_flight`` counts handed-out URLs by host; ``known`` returns the working state of a host that has one."""
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
    """Yield, after Nones as from ``rows``, the result: how many rows have a host that contains ``q``, and ``limit`` of
    them after the first ``offset``. Holds ``offset + limit`` rows at a time."""
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
    """Return what to compare for ``sort``. A host that is held for its errors fails none of its URLs for a long time,
    and one without robots.txt never does, so errors decide among hosts with as many failures."""
    if sort == "failed":
        return lambda row: (row["failed"], sum(row["errors"].values()))
    if sort == "errors":
        return lambda row: sum(row["errors"].values())
    return lambda row: row[sort]


def _order(descending: bool) -> Callable[[Any], Any]:
    """Return a sort key: the greatest comes first. Rows without a value come last in both directions."""

    def compare(one: Any, other: Any) -> int:
        if one is None or other is None:
            return (one is not None) - (other is not None)
        return int((one > other) - (one < other)) * (1 if descending else -1)

    return cmp_to_key(compare)

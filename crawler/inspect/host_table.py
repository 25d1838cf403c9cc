"""The hosts of a job as rows of a table, for people and programs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cmp_to_key
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.kv import Family, Reader
from crawler.base.settings.sites import Sites
from crawler.frontier.host import host_name, stored_host
from crawler.frontier.host_keys import NO_HOLD, KeyHold
from crawler.frontier.host_status import HostRow, HostState, describe
from crawler.inspect.hosts_now import HostsNow

Row = dict[str, Any]
# "work": busy hosts first, then those with the most pending URLs.
SORTS = ("work", "share", *(name for name in HostRow.__struct_fields__ if name not in ("reason", "grows")))
UNTOLD: Any = object()  # sort value of a host that must be taken from its row
_COLUMNS = tuple(HostRow.__struct_fields__)


def table_row(host: HostRow) -> Row:
    """Return a host as a row of the table. URLs in flight do not count as pending."""
    values = {name: getattr(host, name) for name in _COLUMNS}
    # Another process reads the two counts at different times: a URL just finished may still be listed as in flight.
    values["pending"] = max(0, values["pending"] - host.in_flight)
    return values | {"share": share(host.fetched, host.failed, values["pending"] + host.in_flight)}


def share(fetched: int, failed: int, left: int) -> float | None:
    """Return the share of a host's URLs that is finished; None if no page was fetched and no URL is left."""
    return (fetched + failed) / (fetched + failed + left) if fetched or left else None


class Table(NamedTuple):
    """The number of hosts that match, and the requested rows."""

    total: int
    rows: list[Row]


class HostsAsked(Struct, frozen=True):
    """A request for the hosts with ``q`` in their name: ``limit`` rows after the first ``offset``, in the order of
    ``sort``."""

    sort: str = "pending"
    descending: bool = True
    offset: int = 0
    limit: int = 50
    q: str = ""

    def of_partition(self) -> HostsAsked:
        """Return the request to send to each partition: for all rows up to the end of the page, because a single
        partition may hold all of them."""
        return replace(self, offset=0, limit=self.offset + self.limit)


class Chosen(NamedTuple):
    """A host chosen for a row: its name, its stored record, and the holds from other hosts with its host key."""

    name: str
    value: bytes
    held: KeyHold


def chosen_hosts(
    stored: Iterable[tuple[bytes, bytes]],
    sites: Sites,
    beside: HostsNow,
    wants: Callable[[str, bytes], bool] = lambda name, value: True,
) -> Iterator[Chosen]:
    """Yield the busy hosts, and the other hosts that ``wants`` accepts by name and record: making a row takes twenty
    times as long as checking a record. ``beside`` has the current state that is not in the records."""
    rows = list(stored)
    holds = beside.holds(rows, sites.politeness) if sites.settings.politeness.host_key == "host" else {}
    for key, value in rows:
        name = host_name(key)
        # Holds from other hosts with the same key are not in the record.
        if beside.is_busy(name) or name in holds or wants(name, value):
            yield Chosen(name, value, holds.get(name, NO_HOLD))


def host_rows(
    chosen: Iterable[Chosen], sites: Sites, now: float, beside: HostsNow, working: Mapping[str, HostRow]
) -> Iterator[Row]:
    """Yield a row for each host at ``now`` (seconds since 1970). ``working`` has the rows of hosts whose state is in
    the memory of the running crawl; its event loop makes these rows, as no other thread may read that state."""
    for name, value, held in chosen:
        row = working.get(name)
        if row is None:
            own = sites.of_host(name)
            row = describe(beside.host(name, value, held), now, own.politeness, own.budget, beside.serving)
        yield table_row(row)


def all_host_rows(
    store: Reader,
    sites: Sites,
    now: float,
    beside: HostsNow,
    wants: Callable[[str, bytes], bool] = lambda name, value: True,
) -> Iterator[Row]:
    """Yield ``host_rows`` for all hosts of a job by name, without the working state of a running crawl."""
    for page in store.pages(Family.HOSTS):
        yield from host_rows(chosen_hosts(page, sites, beside, wants), sites, now, beside, {})


class Selection:
    """Selects the requested rows; holds at most ``offset + limit`` rows at a time. ``told`` returns the sort value of a
    host from its name and stored record, or UNTOLD."""

    def __init__(self, asked: HostsAsked, told: Callable[[str, bytes], Any] = lambda name, value: UNTOLD) -> None:
        self.total = 0  # number of rows that match q
        self._best: list[tuple[Any, int, Row]] = []
        self._told: list[tuple[Any, int, Any]] = []  # the best sort values from records, as many as rows are held
        self._offset, self._most, self._wanted = asked.offset, asked.offset + asked.limit, asked.q.lower()
        self._order, self._value = _order(asked.descending), _value(asked.sort)
        self._told_of, self._descending = told, asked.descending

    def wants(self, name: str, stored: bytes) -> bool:
        """Return True if the host with that stored record may be among the rows; otherwise it is only counted. Call it
        once for each host that is not busy, before or while rows are added. Raises HostRecordError."""
        if self._wanted not in name:
            return False
        value, told = (self._told_of(name, stored), self._told) if self._most else (UNTOLD, [])
        if value is UNTOLD:
            return True
        if len(told) < self._most:
            heapq.heappush(told, (self._order(value), len(told), value))
            return True
        if self._is_before(value, told[0][2]):
            heapq.heapreplace(told, (self._order(value), told[0][1], value))
            return True
        self.total += 1  # of equal rows, the one added first is kept
        return False

    def _is_before(self, value: Any, last: Any) -> bool:
        if value is None or last is None:
            return value is not None and last is None
        return bool(value > last if self._descending else value < last)

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if self._wanted not in row["host"]:
                continue
            self.total += 1
            entry = (self._order(self._value(row)), -self.total, row)
            if len(self._best) < self._most:
                heapq.heappush(self._best, entry)
            elif self._most and entry[:2] > self._best[0][:2]:
                heapq.heapreplace(self._best, entry)

    def table(self) -> Table:
        ordered = sorted(self._best, key=lambda entry: entry[:2], reverse=True)
        return Table(self.total, [row for _, _, row in ordered][self._offset :])


def merged(tables: Iterable[tuple[dict[str, int], Table]], asked: HostsAsked) -> Table:
    """Return the table of a crawl, made from its partitions' tables for ``asked.of_partition()``. Each row names its
    partition, as in JSON. Hosts with equal sort values are ordered by name, as in a job."""
    total, rows = 0, list[Row]()
    for partition, table in tables:
        total += table.total
        rows += [row | partition for row in table.rows]
    selection = Selection(asked)
    selection.add(sorted(rows, key=lambda row: row["host"]))
    return Table(total, selection.table().rows)


_AT_WORK = (HostState.LEASED, HostState.ROBOTS)


def _value(sort: str) -> Callable[[Row], Any]:
    """Return the function that gives the value to compare for ``sort``. While a host is held after errors, none of its
    URLs fail for a long time; if its robots.txt cannot be fetched, they never do. So hosts with equal numbers of
    failures are ordered by errors."""
    if sort == "work":
        return lambda row: (row["state"] in _AT_WORK, row["pending"] + row["in_flight"])
    if sort == "failed":
        return lambda row: (row["failed"], sum(row["errors"].values()))
    if sort == "errors":
        return lambda row: sum(row["errors"].values())
    return lambda row: row[sort]


def _order(descending: bool) -> Callable[[Any], Any]:
    """Return a function that makes a sort key of a value. Rows with the greatest key come first; rows without a value
    come last, whether the order is descending or ascending."""

    def compare(one: Any, other: Any) -> int:
        if one is None or other is None:
            return (one is not None) - (other is not None)
        return int((one > other) - (one < other)) * (1 if descending else -1)

    return cmp_to_key(compare)


# -- sort values of hosts that have no row yet, from their stored records: a row costs ten times as much ---------------


def _failed(name: str, value: bytes) -> Any:
    tally = stored_host(value).tally
    return UNTOLD if tally.errors else (tally.failed, 0)


def _share(name: str, value: bytes) -> float | None:
    host = stored_host(value)
    return share(host.tally.fetched, host.tally.failed, host.size)


_OF_RECORD: dict[str, Callable[[str, bytes], Any]] = {
    "work": lambda name, value: (False, stored_host(value).size),
    "host": lambda name, value: name,
    "share": _share,
    "latency_seconds": lambda name, value: stored_host(value).politeness.latency,
    "pending": lambda name, value: stored_host(value).size,
    "fetched": lambda name, value: stored_host(value).tally.fetched,
    "failed": _failed,
    "needs_scripts": lambda name, value: stored_host(value).tally.scripted,
    "errors": lambda name, value: UNTOLD if stored_host(value).tally.errors else 0,
}


def told_by(sort: str) -> Callable[[str, bytes], Any]:
    """Return the function that gives a host's value for ``sort`` from its name and record, with no URLs in flight."""
    return _OF_RECORD.get(sort, lambda name, value: UNTOLD)

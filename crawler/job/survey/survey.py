"""Statistics over the records of a crawl, collected one record at a time in bounded memory: a map of paths, and top
rows.

The dashboard and the report share them. The dashboard adds each record as it arrives: a URL that is visited several
times counts once, with its first visit. Only the counts by host include all visits, and the list of failures holds the
last visit of each URL. The report adds only the last record of each URL. URLs that the crawler made up (``probe``) are
counted as probes and nowhere else.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from crawler.job.metrics.catalogue import URL_KINDS
from crawler.job.records import Outcome, url_kind
from crawler.job.survey.path_map import PathMap
from crawler.job.survey.record_kinds import clipped, is_unfetched, time_of
from crawler.job.survey.top_rows import TopRows
from crawler.url.urls.host_key import host_key

RECENT = 60  # number of newest records, by time, that are kept in full
LISTED = 100  # number of newest URLs kept for each kind of failure
HOSTS = 1_000  # maximum number of hosts kept
KINDS = 1_000  # maximum number of statuses, of types and of reasons kept
SHOWN_HOSTS = 50
SHOWN_TYPES = 20
LONGEST = 2_000  # maximum length of a URL in characters; longer ones are cut
_WORDS = 200  # maximum length of an error, a type or a reason in characters
ERROR = 20  # weight of a record with an error, relative to a good one, so that hosts with errors are kept

BROKEN_KINDS = ("server_errors", "client_errors", "soft404")  # responses that are not pages
WRONG = (*BROKEN_KINDS, "failed")
COLUMNS = (*URL_KINDS, "copies", "bytes")
_TOP = {"statuses": 1, "types": 2, "reasons": 1}  # number of columns


class Row(Struct):
    """A record, as the statistics keep it. ``number``: its position among all records, from 1. ``words``: the error, or
    the target of a redirect."""

    number: int
    url: str
    host: str
    status: int | None
    outcome: str
    words: str
    bytes: int | None
    seconds: float | None
    at: float | None
    via: str | None


class Survey(Struct):
    """The statistics.

    ``records``: number of records added, including ``probes``; ``urls``: number of URLs counted. ``totals`` has the
    columns of ``hosts``. ``wrong`` has the newest ``LISTED`` records of each kind of failure, by URL. ``top`` has
    numbers of URLs by status, type, and so on."""

    hosts: TopRows = field(default_factory=lambda: TopRows(HOSTS, len(COLUMNS)))
    records: int = 0
    probes: int = 0
    urls: int = 0
    recent: list[Row] = field(default_factory=list)
    wrong: dict[str, dict[str, Row]] = field(default_factory=lambda: {kind: {} for kind in WRONG})
    totals: TopRows = field(default_factory=lambda: TopRows(len(COLUMNS)))
    top: dict[str, TopRows] = field(
        default_factory=lambda: {name: TopRows(KINDS, columns) for name, columns in _TOP.items()}
    )
    map: PathMap = field(default_factory=PathMap)

    def add(self, record: Mapping[str, Any], *, last: bool = False) -> None:
        """Count a record. ``last``: the record is the last one of its URL, and the only one of that URL that is ever
        added."""
        self.records += 1
        if record.get("probe"):
            self.probes += 1
            return
        row = self._row(record)
        insort(self.recent, row, key=lambda each: each.at or 0.0)  # partitions are read in turn
        del self.recent[:-RECENT]
        column = URL_KINDS[url_kind(row.outcome, row.status)]
        self._list(row, column)
        self._count_host(record, row, column)
        if last or not _is_further(record):
            self._count(record, row, column)

    def total(self, *columns: str) -> int:
        """Return the sum of the values in these columns over all hosts."""
        return sum(self.totals.get(column)[0] for column in columns)

    def answer(self) -> dict[str, Any]:
        """Return the statistics for the dashboard."""
        sites, missed = self.map.answer()
        wrong = sorted((row for rows in self.wrong.values() for row in rows.values()), key=lambda row: -row.number)
        return {
            "records": self.records,
            "probes": self.probes,
            "urls": self.urls,
            "recent": msgspec.to_builtins(self.recent[::-1]),
            "failures": msgspec.to_builtins(wrong),
            "statuses": {status: number for status, (number,) in self.top["statuses"].items()},
            "hosts": self._worst(),
            "hosts_missed": self.hosts.missed,
            "types": [
                {"type": key, "records": n, "bytes": size} for key, (n, size) in self.top["types"].most(SHOWN_TYPES)
            ],
            "map": sites,
            "map_missed": missed,
        }

    def _list(self, row: Row, column: str) -> None:
        for rows in self.wrong.values():
            rows.pop(row.url, None)
        if column in self.wrong:
            rows = self.wrong[column]
            rows[row.url] = row
            if len(rows) > LISTED:
                del rows[next(iter(rows))]

    def _count_host(self, record: Mapping[str, Any], row: Row, column: str) -> None:
        column = "server_errors" if row.status == 429 else column  # 429 is about the host, not about the link
        values = dict.fromkeys(COLUMNS, 0) | {column: 1, "bytes": row.bytes or 0}
        values["copies"] = int(isinstance(record.get("duplicate_of"), str))
        self.hosts.add(row.host, values.values(), ERROR if column in WRONG else 1)

    def _count(self, record: Mapping[str, Any], row: Row, column: str) -> None:
        """Count a URL, given one of its records."""
        self.urls += 1
        kind = record.get("content_type")
        self.totals.add(column)
        self.totals.add("bytes", (row.bytes or 0,))
        if row.status is not None:
            self.top["statuses"].add(str(row.status))
        if isinstance(kind, str) and kind:
            self.top["types"].add(clipped(kind.lower(), _WORDS), (1, row.bytes or 0))
        if isinstance(record.get("duplicate_of"), str):
            self.totals.add("copies")
        if is_unfetched(record):
            why = str(record.get("rule") or record.get("error") or record["outcome"])
            self.top["reasons"].add(clipped(why.partition(":")[0], _WORDS))
        depth, at = _count(record.get("depth")) or 0, round(row.at or 0)
        self.map.add(row.host, str(record["url"]), row.bytes or 0, int(column in WRONG), depth, at)

    def _worst(self) -> list[dict[str, Any]]:
        """Return the hosts with the most errors, followed by those with the most records."""
        named = [{"host": host, **dict(zip(COLUMNS, row, strict=True))} for host, row in self.hosts.items()]
        named.sort(key=lambda row: [sum(row[name] for name in names) for names in (WRONG, COLUMNS[:-2])], reverse=True)
        return named[:SHOWN_HOSTS]

    def _row(self, record: Mapping[str, Any]) -> Row:
        href, outcome, via = str(record["url"]), str(record["outcome"]), record.get("via")
        status, size = _count(record.get("status")), _count(record.get("bytes"))
        moment, seconds = time_of(record.get("fetched_at")), record.get("seconds")
        if outcome == Outcome.REDIRECT:
            words = clipped(str(record.get("location") or ""), LONGEST)
        else:
            soft = "soft 404" if outcome == Outcome.SOFT404 else ""
            words = clipped(str(record.get("error") or soft), _WORDS)
        return Row(
            self.records,
            clipped(href, LONGEST),
            host_key(href),
            status,
            outcome,
            words,
            size,
            seconds if isinstance(seconds, int | float) and math.isfinite(seconds) else None,
            None if moment is None else moment / 1000,
            clipped(via, LONGEST) if isinstance(via, str) else None,
        )


def _is_further(record: Mapping[str, Any]) -> bool:
    """True if the URL was visited before."""
    visit = record.get("visit")
    return isinstance(visit, int) and visit > 1


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

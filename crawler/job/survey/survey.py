"""What the records of a crawl tell, counted one by one in bounded memory: a map of paths, and top rows.

Counted here once, for the dashboard and for the report. The dashboard has each record counted as it comes: a URL that
is visited again counts once, as its first visit found it. Only the answers of hosts are those of all visits, and the
list of what went wrong is that of the last ones. The report has the last record of each URL counted. URLs that the
crawl made up (``probe``) are counted as such and nowhere else.
"""

from __future__ import annotations

import math
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

RECENT = 60  # records that are kept whole
LISTED = 100  # URLs that are kept of each kind of failure, the newest
HOSTS = 1_000  # places
KINDS = 1_000  # places for statuses, types, reasons
SHOWN_HOSTS = 50
SHOWN_TYPES = 20
LONGEST = 2_000  # characters of a URL; longer ones are cut
_WORDS = 200  # characters of what went wrong, of a type or a reason
ERROR = 20  # an error weighs as much as so many good records, so that hosts with errors keep their places

BROKEN_KINDS = ("server_errors", "client_errors", "soft404")  # answers, but no pages
WRONG = (*BROKEN_KINDS, "failed")
COLUMNS = (*URL_KINDS, "copies", "bytes")
_TOP = {"statuses": 1, "types": 2, "reasons": 1}  # columns


class Row(Struct):
    """A record. ``number``: its place among all, from 1. ``words``: what went wrong; of a redirect, where it leads."""

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
    """``records``: how many were added, ``probes`` among them; ``urls``: how many count. ``totals`` are by the columns
    of ``hosts``. Of each kind of failure the newest ``LISTED`` are in ``wrong``, by URL. ``top`` has URLs by status,
    type, and so on."""

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
        """Count a record. ``last``: it is the last one of its URL, and the only one that is added."""
        self.records += 1
        if record.get("probe"):
            self.probes += 1
            return
        row = self._row(record)
        self.recent.append(row)
        del self.recent[:-RECENT]
        column = URL_KINDS[url_kind(row.outcome, row.status)]
        self._list(row, column)
        self._count_host(record, row, column)
        if last or not _is_further(record):
            self._count(record, row, column)

    def total(self, *columns: str) -> int:
        """How many URLs are of these kinds; bytes, copies."""
        return sum(self.totals.get(column)[0] for column in columns)

    def answer(self) -> dict[str, Any]:
        """What the dashboard shows."""
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
        column = "server_errors" if row.status == 429 else column  # the host is in trouble, not the link to the page
        values = dict.fromkeys(COLUMNS, 0) | {column: 1, "bytes": row.bytes or 0}
        values["copies"] = int(isinstance(record.get("duplicate_of"), str))
        self.hosts.add(row.host, values.values(), ERROR if column in WRONG else 1)

    def _count(self, record: Mapping[str, Any], row: Row, column: str) -> None:
        """Count a URL by one of its records."""
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
        """The hosts with most errors, then those with most records."""
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
    """Whether the URL was visited before."""
    visit = record.get("visit")
    return isinstance(visit, int) and visit > 1


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

"""What the records of a crawl tell, counted one by one as they come, in bounded memory.

Each visit of a page has a record. Statuses, outcomes, types, depths and sizes are those of the first visit, so that a
URL counts once. What is wrong is that of the last one (``wrong_now``): a URL that fails again counts once, and one that
answers again does not count any more. URLs that the crawl made up (``probe``) are counted as such and nowhere else.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from crawler.job.records import Outcome
from crawler.job.survey.path_map import PathMap
from crawler.job.survey.record_kinds import clipped, time_of
from crawler.job.survey.top_rows import TopRows
from crawler.job.survey.wrong_now import Wrong, WrongNow
from crawler.url.urls import host_key

RECENT = 60  # records that are kept whole
FAILURES = 300
SEEDS = 20
HOSTS = 1_000  # places
SHOWN_HOSTS = 50
TYPES = 200  # places
SHOWN_TYPES = 20
DEEPEST = 20  # what is deeper counts as this
STATUSES = 1_000  # more than there are
LONGEST = 500  # characters of a URL; longer ones are cut
_WORDS = 200  # characters of what went wrong, or of a type
ERROR = 20  # an error weighs as much as so many good records, so that hosts with errors keep their places

HOST_COLUMNS = (
    "ok",
    "redirects",
    "client_errors",
    "server_errors",
    "soft404",
    "blocked",
    "failed",
    "excluded",
    "bytes",
)
_ERRORS = tuple(Wrong)
_PLACES = {name: place for place, name in enumerate(HOST_COLUMNS)}
_UNITS = [tuple(int(other == place) for other in range(len(HOST_COLUMNS) - 1)) for place in _PLACES.values()]

Row = dict[str, Any]


class SurveyError(ValueError):
    """What is stored is not a survey."""


class Survey:
    """``records``: how many were added. ``probes``: those of made-up URLs among them. ``urls``: those of first visits.
    ``seeds``: the first seeds that were visited, and how many there were."""

    def __init__(self) -> None:
        self.records = self.probes = self.urls = 0
        self.seeds: tuple[list[str], int] = [], 0
        self.recent: deque[Row] = deque(maxlen=RECENT)
        self._wrong = WrongNow(FAILURES)
        self._outcomes: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._depths = [0] * (DEEPEST + 1)
        self._hosts = TopRows(HOSTS, len(HOST_COLUMNS))
        self._types = TopRows(TYPES, 2)
        self._map = PathMap()

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a record."""
        self.records += 1
        if record.get("probe"):
            self.probes += 1
            return
        href, outcome, status = str(record["url"]), str(record["outcome"]), _status(record.get("status"))
        host, column, again = host_key(href), _column(outcome, status), _is_further(record)
        row = self._row(record, href, status, outcome)
        self.recent.append(row)
        if not again:
            self._first(record, href, host, column)
        wrong = Wrong(column) if column in _ERRORS else None
        if wrong is None and not again:
            return
        failure = {"host": host} | {key: row[key] for key in _FAILURE}
        before = self._wrong.visited(href, wrong, failure, again)
        if before is not None:
            self._hosts.change(host, _PLACES[before], -1)
        if wrong is not None:
            self._hosts.add(host, _UNITS[_PLACES[wrong]], ERROR if again else ERROR - 1)
        self._map.change(host, href, int(wrong in _BROKEN) - int(before in _BROKEN))

    def _first(self, record: Mapping[str, Any], href: str, host: str, column: str) -> None:
        """Count the first visit of a URL."""
        self.urls += 1
        status, depth, kind = _status(record.get("status")), record.get("depth"), record.get("content_type")
        size = _count(record.get("bytes"))
        self._outcomes[str(record["outcome"])] += 1
        if status is not None and (len(self._statuses) < STATUSES or str(status) in self._statuses):
            self._statuses[str(status)] += 1
        if isinstance(depth, int):
            self._depths[min(max(0, depth), DEEPEST)] += 1
            if depth == 0 and record.get("via") is None:
                self._seed(href)
        if isinstance(kind, str) and kind:
            self._types.add(clipped(kind.lower(), _WORDS), (1, size))
        self._map.add(host, href, size)
        # The first column has all, and what the others leave of it is good.
        values = _UNITS[_PLACES["ok"]] if column in _ERRORS else (1, *_UNITS[_PLACES[column]][1:])
        self._hosts.add(host, (*values, size))

    def answer(self) -> dict[str, Any]:
        """All that is known, for the dashboard."""
        sites, missed = self._map.answer()
        return {
            "records": self.records,
            "probes": self.probes,
            "recent": list(reversed(self.recent)),
            "urls": self.urls,
            **self._wrong.answer(),
            "statuses": dict(sorted(self._statuses.items())),
            "outcomes": dict(sorted(self._outcomes.items())),
            "hosts": self._worst(),
            "hosts_missed": self._hosts.missed,
            "depths": self._depths[: max((n + 1 for n, count in enumerate(self._depths) if count), default=0)],
            "types": [{"type": key, "records": n, "bytes": size} for key, (n, size) in self._types.most(SHOWN_TYPES)],
            "map": sites,
            "map_missed": missed,
        }

    def dump(self) -> dict[str, Any]:
        """All of it, for ``restore``."""
        return {
            "records": self.records,
            "probes": self.probes,
            "seeds": list(self.seeds),
            "recent": list(self.recent),
            "urls": self.urls,
            "wrong": self._wrong.dump(),
            "outcomes": dict(self._outcomes),
            "statuses": dict(self._statuses),
            "depths": " ".join(map(str, self._depths)),
            "hosts": self._hosts.dump(),
            "types": self._types.dump(),
            "map": self._map.dump(),
        }

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> Survey:
        """The survey of which that is the dump. Raises SurveyError if it is none."""
        found = cls()
        try:
            found._restore(stored)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SurveyError(f"what is stored is no survey: {type(error).__name__}: {error}") from error
        return found

    def _restore(self, stored: Mapping[str, Any]) -> None:
        self.records, self.probes, self.urls = (_stored(stored[key]) for key in ("records", "probes", "urls"))
        urls, count = stored["seeds"]
        self.seeds = [str(url) for url in urls][:SEEDS], _stored(count)
        self.recent.extend(_rows(stored["recent"], "depth"))
        self._wrong.restore(stored["wrong"])
        self._outcomes.update({str(key): _stored(count) for key, count in stored["outcomes"].items()})
        self._statuses.update({str(int(key)): _stored(count) for key, count in stored["statuses"].items()})
        self._depths = [int(text) for text in stored["depths"].split(" ")]
        if len(self._depths) != DEEPEST + 1:
            raise ValueError(f"{len(self._depths)} depths")
        self._hosts.restore(stored["hosts"])
        self._types.restore(stored["types"])
        self._map.restore(stored["map"])

    def _seed(self, href: str) -> None:
        first, count = self.seeds
        if len(first) < SEEDS and href not in first:
            first.append(clipped(href, LONGEST))
        self.seeds = first, count + 1

    def _worst(self) -> list[dict[str, Any]]:
        """The hosts with most errors, then those with most records."""
        named = [
            {"host": host, **dict(zip(HOST_COLUMNS, (max(0, row[0] - sum(row[1:-1])), *row[1:]), strict=True))}
            for host, row in self._hosts.items()
        ]
        return sorted(named, key=_trouble, reverse=True)[:SHOWN_HOSTS]

    def _row(self, record: Mapping[str, Any], href: str, status: int | None, outcome: str) -> Row:
        moment, via, seconds = time_of(record.get("fetched_at")), record.get("via"), record.get("seconds")
        size, depth = record.get("bytes"), record.get("depth")
        return {
            "number": self.records,
            "url": clipped(href, LONGEST),
            "status": status,
            "outcome": outcome,
            "words": _words(record, outcome),
            "bytes": size if isinstance(size, int) else None,
            "seconds": seconds if isinstance(seconds, int | float) and math.isfinite(seconds) else None,
            "at": None if moment is None else moment / 1000,
            "depth": depth if isinstance(depth, int) else None,
            "via": clipped(via, LONGEST) if isinstance(via, str) else None,
        }


_BROKEN = (Wrong.CLIENT_ERROR, Wrong.SERVER_ERROR, Wrong.SOFT404)
_FAILURE = ("number", "url", "status", "outcome", "words", "via", "at")


def _words(record: Mapping[str, Any], outcome: str) -> str:
    """What went wrong; of a redirect, where it leads."""
    if outcome == Outcome.REDIRECT:
        return clipped(str(record.get("location") or ""), LONGEST)
    words = record.get("error") or ("soft 404" if outcome == Outcome.SOFT404 else "")
    return clipped(str(words), _WORDS)


def _is_further(record: Mapping[str, Any]) -> bool:
    """Whether the URL was visited before."""
    visit = record.get("visit")
    return isinstance(visit, int) and visit > 1


def _column(outcome: str, status: int | None) -> str:
    if outcome == Outcome.FETCHED:
        if status is None or status < 400:
            return "ok"
        return "client_errors" if status < 500 else "server_errors"
    return _OUTCOMES.get(outcome, "failed")


_OUTCOMES: dict[str, str] = {
    Outcome.REDIRECT: "redirects",
    Outcome.SOFT404: "soft404",
    Outcome.BLOCKED: "blocked",
    Outcome.FAILED: "failed",
    Outcome.EXCLUDED: "excluded",
}


def _trouble(row: dict[str, Any]) -> tuple[int, int]:
    return sum(row[name] for name in _ERRORS), sum(row[name] for name in HOST_COLUMNS[:-1])


def _status(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _stored(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _rows(stored: object, key: str) -> list[Row]:
    if not isinstance(stored, list) or not all(isinstance(row, dict) and key in row for row in stored):
        raise ValueError("rows of another kind")
    return stored

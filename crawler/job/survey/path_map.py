"""Sites and the directories of their paths, two levels deep, by how many URLs and bytes they have.

The largest of any number have places (``top_rows``): ``SITES`` hosts and ``PARTS`` directories. What is not in a
directory with a place counts for its site, and what is of no site with a place counts as missed: so the sums of an
answer always add up to the totals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from crawler.job.survey.record_kinds import clipped
from crawler.job.survey.top_rows import TopRows

SITES = 500
PARTS = 4_000
SHOWN_SITES = 60
SHOWN_PARTS = 400  # directories in an answer, over all sites
LONGEST = 100  # characters of a directory

_COLUMNS = ("records", "bytes", "broken")
REST = ""  # the name of what has no place in its site or directory


class PathMap:
    """Counts of URLs by site and directory; ``records`` are those of first visits."""

    def __init__(self) -> None:
        self._totals = [0] * len(_COLUMNS)
        self._sites = TopRows(SITES, len(_COLUMNS))
        self._parts = TopRows(PARTS, len(_COLUMNS))

    def add(self, host: str, href: str, size: int) -> None:
        """Count a URL."""
        values = (1, size, 0)
        for column, value in enumerate(values):
            self._totals[column] += value
        self._sites.add(host, values)
        self._parts.add(_part(host, href), values)

    def change(self, host: str, href: str, step: int) -> None:
        """Count a URL as broken (1), or not any more (-1)."""
        if step:
            column = _COLUMNS.index("broken")
            self._totals[column] = max(0, self._totals[column] + step)
            self._sites.change(host, column, step)
            self._parts.change(_part(host, href), column, step)

    def answer(self) -> tuple[list[dict[str, Any]], int]:
        """The largest sites, the largest first, each with its largest directories, which add up to it; and how many
        records are not of these sites."""
        shown: defaultdict[str, defaultdict[str, dict[str, list[int]]]] = defaultdict(lambda: defaultdict(dict))
        sums: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(_COLUMNS))
        for number, (key, row) in enumerate(self._parts.most(PARTS)):
            host, first, second = key.split(" ")
            _sum(sums[host], row)
            if number < SHOWN_PARTS:
                shown[host][first][second] = row
        for host, row in self._sites.items():
            # A site that lost its place for a while lacks what its directories have kept, or the other way round.
            sums[host] = [max(each) for each in zip(row, sums[host], strict=True)]
        largest = sorted(sums.items(), key=lambda each: each[1], reverse=True)[:SHOWN_SITES]
        sites = [_site(host, row, shown[host]) for host, row in largest]
        return sites, self._totals[0] - sum(row[0] for _, row in largest)

    def dump(self) -> dict[str, Any]:
        return {"totals": self._totals, "sites": self._sites.dump(), "parts": self._parts.dump()}

    def restore(self, stored: dict[str, Any]) -> None:
        """Take what ``dump`` returned. Raises ValueError, KeyError and TypeError if it cannot be that."""
        self._totals = [int(each) for each in stored["totals"]]
        self._sites.restore(stored["sites"])
        self._parts.restore(stored["parts"])
        if len(self._totals) != len(_COLUMNS) or any(key.count(" ") != 2 for key, _ in self._parts.items()):
            raise ValueError("a map of other parts")


def _part(host: str, href: str) -> str:
    return f"{host} {' '.join(directories(href))}"


def directories(href: str) -> tuple[str, str]:
    """The first two directories of the path of an href: ``/a/`` and ``/a/b/``; ``/`` and an empty text for a page at
    the top, ``/a/`` and an empty text for one right in the first directory."""
    start = href.find("/", 8)
    path = href[start:].partition("?")[0].replace(" ", "%20")
    first = path.find("/", 1) + 1
    if not first:
        return "/", ""
    second = path.find("/", first) + 1
    return clipped(path[:first], LONGEST), clipped(path[:second], LONGEST) if second else ""


def _site(host: str, row: list[int], parts: dict[str, dict[str, list[int]]]) -> dict[str, Any]:
    found, left = [], row.copy()
    for name, below in parts.items():
        sums = [0] * len(_COLUMNS)
        for each in below.values():
            _sum(sums, each)
        left = [one - other for one, other in zip(left, sums, strict=True)]
        # What is right in the directory has its name.
        leaves = [_node(second or name, each) for second, each in below.items()] if below.keys() != {""} else []
        found.append(_node(name, sums, leaves))
    if left[0] and found:
        found.append(_node(REST, left))
    return _node(host, row, found)


def _node(name: str, row: list[int], parts: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    ordered = sorted(parts, key=lambda part: part["records"] if part["name"] else -1, reverse=True)
    return {"name": name, **dict(zip(_COLUMNS, row, strict=True)), "parts": ordered}


def _sum(sums: list[int], row: list[int]) -> None:
    for column, value in enumerate(row):
        sums[column] += value

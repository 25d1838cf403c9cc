"""Counts URLs and bytes by site and by directory, two levels deep. Depths and times of visits are summed: divided by
the number of URLs, they give means.

Only the largest sites and directories are kept (``top_rows``): ``SITES`` hosts and ``PARTS`` directories. URLs of a
directory that is not kept count for its site, and URLs of a site that is not kept count as missed: so the parts of a
result always add up to the totals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from crawler.job.survey.record_kinds import clipped
from crawler.job.survey.top_rows import TopRows

SITES = 500
PARTS = 4_000
SHOWN_SITES = 60
SHOWN_PARTS = 400  # maximum number of directories in a result, over all sites
LONGEST = 100  # maximum length of a directory in characters

_COLUMNS = ("records", "bytes", "broken", "depth", "at")
REST = ""  # the name of the remainder of a site or directory


class PathMap(Struct):
    """Counts of URLs by site and directory, and in total."""

    records: int = 0
    sites: TopRows = field(default_factory=lambda: TopRows(SITES, len(_COLUMNS)))
    parts: TopRows = field(default_factory=lambda: TopRows(PARTS, len(_COLUMNS)))

    def add(self, host: str, href: str, *counted: int) -> None:
        """Count a URL. ``counted``: its bytes, 1 if it is broken or failed (else 0), its depth, the time of its
        visit."""
        self.records += 1
        values = (1, *counted)
        self.sites.add(host, values)
        self.parts.add(f"{host} {' '.join(directories(href))}", values)

    def answer(self) -> tuple[list[dict[str, Any]], int]:
        """Return two values: the largest sites, the largest first, each with its largest directories, whose counts add
        up to the site's; and the number of URLs of all other sites."""
        shown: defaultdict[str, defaultdict[str, dict[str, list[int]]]] = defaultdict(lambda: defaultdict(dict))
        sums: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(_COLUMNS))
        for number, (key, row) in enumerate(self.parts.most(PARTS)):
            host, first, second = key.split(" ")
            _sum(sums[host], row)
            if number < SHOWN_PARTS:
                shown[host][first][second] = row
        for host, row in self.sites.items():
            # A site that was not kept for a while lacks URLs that its directories have counted, or vice versa.
            sums[host] = [max(each) for each in zip(row, sums[host], strict=True)]
        largest = sorted(sums.items(), key=lambda each: each[1], reverse=True)[:SHOWN_SITES]
        sites = [_site(host, row, shown[host]) for host, row in largest]
        return sites, self.records - sum(row[0] for _, row in largest)


def directories(href: str) -> tuple[str, str]:
    """Return the first two directories of the path of an href: ``/a/`` and ``/a/b/``.

    For a page at the top these are ``/`` and an empty string, for a page directly in ``/a/`` they are ``/a/`` and an
    empty string."""
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
        # URLs directly in the directory are listed under its name.
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

"""Searches and reads the main texts that a job or crawl keeps (``--output text``), running or not.

A search reads all texts. Of each page only the last text counts. Memory holds some 500 bytes for each page that
matches."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crawler.base.faults import UserFault
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.export.kept_parts import KeptParts
from crawler.inspect.export.tables import Source
from crawler.job.directory import PAGES
from crawler.job.output import Record
from crawler.job.output.reverse_reader import last_record
from crawler.url.urls.typed import completed
from crawler.url.urls.whatwg import Rejected

_IN_TITLE = 10  # occurrences in the text that one in the title is worth
_MOST = 20  # occurrences of a word that count, so that no page wins by its length alone
_AROUND = 120  # characters shown on each side of the first occurrence
_TITLE = 200  # characters shown of a title


class Hit(NamedTuple):
    """A page that contains all words of a query, with the text around the first of them."""

    score: int
    url: str
    title: str
    snippet: str


def search_texts(directory: Path, query: str, most: int) -> tuple[int, list[Hit]]:
    """Return the number of pages that contain all words of the query, in any case, and the ``most`` best of them.
    Raises UserFault for a query without words, and the errors of reading a job."""
    words = query.lower().split()
    if not words:
        raise UserFault("the query has no words")
    found = dict[str, Hit]()
    for row, _ in Source(directory).rows("text"):
        if "error" in row:
            continue  # the text of an earlier visit is still current
        found.pop(row["url"], None)
        hit = _hit(row, words)
        if hit is not None:
            found[hit.url] = hit
    return len(found), heapq.nlargest(most, found.values(), key=lambda hit: hit.score)


def _hit(row: Record, words: Sequence[str]) -> Hit | None:
    text, title = str(row.get("text", "")), str(row.get("title", ""))[:_TITLE]
    lower, lower_title = text.lower(), title.lower()
    counts = [min(_MOST, lower.count(word)) + _IN_TITLE * (word in lower_title) for word in words]
    if not all(counts):
        return None
    start = max(0, lower.find(words[0]) - _AROUND)
    return Hit(sum(counts), str(row["url"]), title, " ".join(text[start : start + 2 * _AROUND].split()))


def row_of_page(directory: Path, word: str) -> Record:
    """Return the row with the text of a page as its last visit found it. Raises UserFault with the reason if there is
    none, and the errors of reading a job."""
    crawl = crawl_partitions(directory)
    url = crawl.canonicaliser().canonicalise(completed(word) or word)
    if isinstance(url, Rejected):
        raise UserFault(f"{word!r} is not a URL: {url.reason}")
    for job in crawl.jobs:
        for record in last_record(job / PAGES, url.href):
            if record is not None:
                return _row_of(record, job)
    raise UserFault(f"{url.href} is not among the finished URLs of this crawl")


def _row_of(record: Record, job: Path) -> Record:
    with KeptParts(job, "text") as parts:
        row: Record = json.loads(parts.of(record) or b"{}")
    if "text" in row:
        return row
    error = row.get("error") or record["error"]
    why = f"it redirects to {record['location']}" if "location" in record else str(record["outcome"])
    why += "" if record["status"] is None else f", status {record['status']}"
    raise UserFault(f"{record['url']} has no text: {why}{f': {error}' if error else ''}")

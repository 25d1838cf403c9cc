"""Searches and reads the main texts that a job or crawl keeps (``--output text``), running or not.

A search reads all texts, but only the last text of each page counts. Memory holds some 500 bytes for each page that
matches."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from pathlib import Path

from crawler.base.faults import UserFault
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.export.kept_parts import KeptParts
from crawler.inspect.export.tables import Source
from crawler.job.directory import PAGES
from crawler.job.output import Record
from crawler.job.output.reverse_reader import last_record
from crawler.job.run_settings import read_run
from crawler.url.urls.typed import completed
from crawler.url.urls.whatwg import Rejected

_IN_TITLE = 10  # score of a word in the title; an occurrence in the text scores 1
_MOST = 20  # maximum score of a word in the text, so that no page wins by its length alone
_AROUND = 120  # characters shown on each side of the first occurrence
_TITLE = 200  # characters shown of a title


def search_texts(directory: Path, query: str, most: int) -> tuple[int, list[Record]]:
    """Return the number of pages that contain all words of the query, ignoring case, and the best of them (at most
    ``most``), each with the text around the first word as ``snippet``. Raises UserFault for a query without words and
    for a crawl that keeps no texts, and the errors of reading a job."""
    words = query.lower().split()
    if not words:
        raise UserFault("the query has no words")
    source, found = Source(directory), dict[str, tuple[int, Record]]()
    if not source.keeps("text") and "text" not in read_run(source.jobs[0]).settings.output.keep:
        raise UserFault(f"{directory.name} keeps no texts: crawl it with `--output text`")
    for row, _ in source.rows("text"):
        if "error" in row:
            continue  # the text of an earlier visit is still current
        found.pop(row["url"], None)
        score, hit = _hit(row, words)
        if score:
            found[row["url"]] = score, hit
    return len(found), [hit for _, hit in heapq.nlargest(most, found.values(), key=lambda each: each[0])]


def _hit(row: Record, words: Sequence[str]) -> tuple[int, Record]:
    """Return the score of a page (0 if a word is missing), and its entry in the search results."""
    text, title = str(row.get("text", "")), str(row.get("title", ""))[:_TITLE]
    lower, lower_title = text.lower(), title.lower()
    counts = [min(_MOST, lower.count(word)) + _IN_TITLE * (word in lower_title) for word in words]
    start = max(0, lower.find(words[0]) - _AROUND)
    snippet = " ".join(text[start : start + 2 * _AROUND].split())
    return sum(counts) * all(counts), {"url": row["url"], "title": title, "snippet": snippet}


def row_of_page(directory: Path, word: str) -> Record:
    """Return the row with the text that the last visit to a page found. Raises UserFault, with the reason, if the page
    has no text; also raises the errors of reading a job."""
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
        row: Record = record | json.loads(parts.of(record) or b"{}")
    if "text" not in row:
        why = (str(row[key]) for key in ("outcome", "status", "location", "error") if row.get(key))
        raise UserFault(f"{row['url']} has no text: {', '.join(why)}")
    return row

"""Finds URLs that now refuse use for a purpose, and the pages from these URLs that a job still holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from crawler.inspect.record_stream import final_records
from crawler.job.output import Record
from crawler.job.records import Outcome
from crawler.job.revisit import NOT_MODIFIED

Purposes = Collection[str]


def refuses(record: Record, purposes: Purposes) -> bool:
    """Return True if a record states that its URL must not be used for one of the purposes."""
    consent = record.get("consent")
    return isinstance(consent, Mapping) and any(consent.get(purpose) == "no" for purpose in purposes)


def refused(jobs: Iterable[Path], purposes: Purposes) -> dict[str, Record]:
    """Return the URLs that now refuse one of the purposes, with details from the last record that states the refusal. A
    visit that returned a page can add or remove a refusal; other visits, such as those with status 304, can only add
    one. Raises JobError, OSError and JournalError."""
    found: dict[str, Record] = {}
    for job in jobs if purposes else ():
        for record, _ in final_records(job):
            href = str(record["url"])
            if refuses(record, purposes):
                found[href] = {name: record[name] for name in ("fetched_at", "consent", "consent_by") if name in record}
            elif href in found and _is_page(record):
                del found[href]
    return found


def retracted(jobs: Collection[Path], purposes: Purposes) -> Iterator[Record]:
    """Yield each refused URL from which a job holds pages, with the time and source of the refusal, and the times of
    the visits with these pages. Raises JobError, OSError and JournalError."""
    found, held = refused(jobs, purposes), dict[str, list[object]]()
    for job in jobs:
        for record, _ in final_records(job):
            if record["url"] in found and _is_page(record) and record["outcome"] == Outcome.FETCHED:
                held.setdefault(str(record["url"]), []).append(record["fetched_at"])
    for href, visits in held.items():
        yield {"url": href, **found[href], "held": visits}


def _is_page(record: Record) -> bool:
    status = record["status"]
    good = isinstance(status, int) and 200 <= status < 400 and status != NOT_MODIFIED
    return good and record["outcome"] in (Outcome.FETCHED, Outcome.EXCLUDED)

"""The change that a record means for copies of the site, and the cursor with which readers keep their place.

The change follows from the record alone, without earlier records:

    insert, update   the URL has a page, and this visit fetched it: add it to the copy
    unchanged        nothing new is known about the page: leave the copy as it is
    delete           the URL has no page: remove it from the copy

``insert`` is a first visit. All four are idempotent. ``docs/how-to/keep-a-copy.md`` has the table.

A cursor is ``1-0-END-MARK``: its version, the offset after the last record read, and a hash of that record, which shows
whether the file still holds the record there. ``0`` is the beginning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple

from crawler.base.faults import UserFault
from crawler.job.output.record_reader import Record
from crawler.job.records import Outcome

_MARK = 8  # bytes
_CURSOR = re.compile(r"1-0-([1-9]\d{0,18})-([0-9a-f]{16})")
# Statuses of transient errors: a later request may still get the page.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
# Rules that do not depend on the URL: the page may still exist. The rule is the first word of ``error``.
_NOT_NOW = frozenset({"budget", "blocked", "too_large"})


class Change(StrEnum):
    """The operation to apply to a copy of the site."""

    INSERT = "insert"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"


def change_of(record: Record) -> Change:
    """Return the change that a record means for a copy."""
    if record.get("probe") or record.get("gone"):
        return Change.DELETE
    match record["outcome"]:
        case Outcome.FETCHED:
            return _of_answer(record)
        case Outcome.FAILED | Outcome.BLOCKED | Outcome.PAYMENT:
            return Change.UNCHANGED  # the visit did not reach the page
        case Outcome.EXCLUDED if str(record["error"]).partition(":")[0] in _NOT_NOW:
            return Change.UNCHANGED
        case _:
            return Change.DELETE


def _of_answer(record: Record) -> Change:
    status = record["status"]
    if not isinstance(status, int) or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING:
        return Change.UNCHANGED
    if status == HTTPStatus.NOT_MODIFIED:
        return Change.UNCHANGED
    if not 200 <= status < 400:
        return Change.DELETE
    if record.get("visit", 1) == 1:
        return Change.INSERT
    # If ``changed`` is null, there was no earlier page to compare with, so the copy may lack the page.
    return Change.UNCHANGED if record.get("changed") is False else Change.UPDATE


class CursorError(UserFault, ValueError):
    """The text is not a cursor, or belongs to another job."""


class Cursor(NamedTuple):
    """A place between two records: the offset after the last record read, and its hash."""

    end: int
    mark: str

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Parse a cursor. Raises CursorError."""
        if text == str(BEGINNING):
            return BEGINNING
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise CursorError(f"{text!r} is not a cursor: give the cursor of a record, or 0 for the beginning")
        return cls(int(found[1]), found[2])

    @classmethod
    def after(cls, line: bytes, end: int) -> Cursor:
        """Return the cursor after a record whose line ends at the offset ``end``."""
        return cls(end, hashlib.blake2b(line, digest_size=_MARK).hexdigest())

    def __str__(self) -> str:
        return f"1-0-{self.end}-{self.mark}" if self.end else "0"

    def check(self, durable: int, line_before: Callable[[int], bytes | None]) -> None:
        """Check that the last record read is still in its place, within the first ``durable`` bytes of the file. Raises
        CursorError.

        ``line_before`` returns the line that ends at an offset."""
        if self == BEGINNING:
            return
        line = None if self.end > durable else line_before(self.end)
        if line is None or self != Cursor.after(line, self.end):
            raise CursorError(
                f"the cursor {self} does not belong to this job, or its record was removed by `crawler repair` or by "
                "restoring a backup: start again with 0 and an empty copy"
            )


BEGINNING = Cursor(0, "")


def with_change(line: bytes, record: Record, end: int) -> bytes:
    """Return a record's line with two more fields: its change, and the cursor after the record."""
    return told_change(line, record, str(Cursor.after(line, end)))


def told_change(line: bytes, record: Record, cursor: str) -> bytes:
    """Like ``with_change``, but add the given ``cursor``."""
    said = f',"change":"{change_of(record)}","cursor":"{cursor}"}}\n'
    return line.rstrip()[:-1] + said.encode("ascii")

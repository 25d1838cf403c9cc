"""What a record says to a copy of the site, and cursors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from crawler.job.output.changes import BEGINNING, Change, Cursor, CursorError, change_of, with_change
from crawler.job.output.reverse_reader import line_before
from crawler.job.records import Outcome
from tests.documents import page


def record(outcome: str = "fetched", status: int | None = 200, **fields: Any) -> dict[str, object]:
    return {"url": "http://h.test/", "status": status, "error": None, "outcome": outcome, **fields}


@pytest.mark.parametrize(
    ("found", "change"),
    [
        (record(), "insert"),
        (record(visit=2, changed=True), "update"),
        (record(visit=2, changed=None), "update"),
        (record(visit=2, changed=False), "unchanged"),
        (record(status=304, visit=2, changed=False), "unchanged"),
        (record(status=304, visit=2, changed=None), "unchanged"),
        (record(status=404), "delete"),
        (record(status=410, visit=3, changed=False, gone=True), "delete"),
        (record(status=404, visit=2, changed=False), "delete"),
        (record(status=403), "delete"),
        (record(status=300), "insert"),
        (record(status=429, visit=2, changed=True), "unchanged"),
        (record(status=408), "unchanged"),
        (record(status=503, visit=2, changed=True), "unchanged"),
        (record(status=500), "unchanged"),
        (record("redirect", 301, visit=2, changed=True), "delete"),
        (record("failed", None), "unchanged"),
        (record("failed", 200, error="internal: a bug"), "unchanged"),
        (record("blocked", visit=2, changed=None), "unchanged"),
        (record("payment", 402, visit=2, changed=None), "unchanged"),
        (record("soft404", visit=2, changed=False), "delete"),
        (record("excluded", None, error="disallowed by robots.txt"), "delete"),
        (record("excluded", None, error="blocked-port: 22", rule="blocked-port"), "delete"),
        (record("excluded", None, error="traps.max_variants: more than 500"), "delete"),
        (record("excluded", None, error="budget: host_pages: 5 of 5 responses have been used", visit=2), "unchanged"),
        (record("excluded", None, error="blocked: its host was blocked by hand", visit=2), "unchanged"),
        (record("excluded", None, error="too_large: more than 10 bytes", visit=2), "unchanged"),
        (record(probe=True), "delete"),
        (record("soft404", probe=True), "delete"),
    ],
)
def test_a_record_alone_tells_its_change(found: dict[str, object], change: str) -> None:
    assert change_of(found) == change


def test_the_table_of_changes_names_every_outcome_and_every_change() -> None:
    table = [line for line in page("keep-a-copy.md").splitlines() if line.startswith("| ")]
    for word in [*Outcome, *Change]:
        assert any(re.search(rf"`{word}`", line) for line in table), word


LINES = [json.dumps(record(n=number)).encode() + b"\n" for number in range(3)]


def cursors(lines: list[bytes]) -> list[Cursor]:
    return [Cursor.after(line, len(b"".join(lines[: n + 1]))) for n, line in enumerate(lines)]


def test_a_line_with_its_change_is_the_record_and_two_more_fields() -> None:
    line = with_change(LINES[1], json.loads(LINES[1]), len(LINES[0] + LINES[1]))
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        **json.loads(LINES[1]),
        "change": "insert",
        "cursor": str(cursors(LINES)[1]),
    }


def test_a_cursor_is_read_back_and_belongs_where_its_record_ends(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"".join(LINES))
    size = path.stat().st_size

    def check(cursor: Cursor, durable: int = size) -> None:
        assert Cursor.parse(str(cursor)) == cursor
        cursor.check(durable, lambda end: line_before(path, end))

    check(BEGINNING, 0)
    for cursor in cursors(LINES):
        check(cursor)
        check(cursor, cursor.end)
        with pytest.raises(CursorError, match="does not belong"):
            check(cursor, cursor.end - 1)
        for moved in (cursor.end - 1, cursor.end + 1):
            with pytest.raises(CursorError):
                check(cursor._replace(end=moved))
    other = [LINES[0], LINES[1].replace(b"200", b"404"), LINES[2]]
    path.write_bytes(b"".join(other))
    check(cursors(LINES)[0])
    with pytest.raises(CursorError):
        check(cursors(LINES)[1])
    check(cursors(LINES)[2])  # the line before it is the same, so what follows it is too


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "1",
        "now",
        "2-0-5-0011223344556677",
        "1-0-0-0011223344556677",
        "1-0-5-00",
        "1-0-\u0663-0011223344556677",
        "1-0-5-0011223344556677\n",
        "1-0-05-0011223344556677",
    ],
)
def test_what_is_no_cursor(text: str) -> None:
    with pytest.raises(CursorError, match="is not a cursor"):
        Cursor.parse(text)

"""The page about fetching names what there is."""

from __future__ import annotations

from crawler.web.fetch import FailureKind
from tests.documents import page

PAGE = page("fetching.md")


def test_every_kind_of_failure_has_its_row() -> None:
    rows = {
        line.split("|")[1].strip(): line.split("|")[3].strip() for line in PAGE.splitlines() if line.startswith("| `")
    }
    for kind in FailureKind:
        fate = "again" if kind.transient else "excluded" if kind.excluded else ""
        assert rows.get(f"`{kind}`") == fate

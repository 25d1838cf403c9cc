"""The page about fetching names what there is."""

from __future__ import annotations

from pathlib import Path

from crawler.fetch import FailureKind

PAGE = (Path(__file__).parents[2] / "docs" / "fetching.md").read_text()


def test_every_kind_of_failure_has_its_row() -> None:
    rows = {
        line.split("|")[1].strip(): line.split("|")[3].strip() for line in PAGE.splitlines() if line.startswith("| `")
    }
    for kind in FailureKind:
        fate = "again" if kind.transient else "excluded" if kind.excluded else ""
        assert rows.get(f"`{kind}`") == fate

"""The pages of docs/, by name: a test of what a page says does not care in which folder it lies."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def page(name: str) -> str:
    """The text of the one page of that name."""
    found = sorted(DOCS.rglob(name))
    assert len(found) == 1, f"{name}: {len(found)} pages of that name under docs/"
    return found[0].read_text("utf-8")

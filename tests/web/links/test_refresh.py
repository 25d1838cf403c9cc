"""Where a declarative refresh leads."""

from __future__ import annotations

import pytest

from crawler.web.links.refresh import Refresh, parse_refresh


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0; url=a", (0, "a")),
        ("0;URL='a b' c", (0, "a b")),
        ('5 , url = "a', (5, "a")),
        ("0 a", (0, "a")),
        ("0;a", (0, "a")),
        ("  1.5;url=a ", (1, "a")),
        (".5;a", (0, "a")),
        ("0;urla", (0, "urla")),
        ("0;url", (0, "url")),
        ("0;url=", (0, "")),
        ("0", (0, "")),
        ("5;", (5, "")),
        ("9" * 99 + ";a", (999_999_999, "a")),
        ("", None),
        ("x; url=a", None),
        ("0x; url=a", None),
        ("-1; url=a", None),
    ],
)
def test_it_is_read_as_browsers_read_it(text: str, found: tuple[int, str] | None) -> None:
    assert parse_refresh(text) == (None if found is None else Refresh(*found))

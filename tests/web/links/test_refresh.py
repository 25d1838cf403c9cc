"""Where a declarative refresh leads."""

from __future__ import annotations

import pytest

from crawler.web.links.refresh import refresh_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("0; url=a", "a"),
        ("0;URL='a b' c", "a b"),
        ('5 , url = "a', "a"),
        ("0 a", "a"),
        ("0;a", "a"),
        ("  1.5;url=a ", "a"),
        (".5;a", "a"),
        ("0;urla", "urla"),
        ("0;url", "url"),
        ("0;url=", None),
        ("0", None),
        ("5;", None),
        ("", None),
        ("x; url=a", None),
        ("0x; url=a", None),
        ("-1; url=a", None),
    ],
)
def test_the_target_is_read_as_browsers_read_it(text: str, target: str | None) -> None:
    assert refresh_target(text) == target

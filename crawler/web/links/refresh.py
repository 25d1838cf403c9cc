"""The target of a declarative refresh, in ``<meta http-equiv=refresh content="5; url=next.html">`` or in the header.

These are the "shared declarative refresh steps" of the HTML Standard (4.2.5.3).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_DIGITS_MOST = 9
_SPACE = r"[\t\n\f\r ]"
_REFRESH = (
    rf"(?is:{_SPACE}*+(?:(?P<whole>[0-9]++)[0-9.]*+|\.[0-9.]*+)(?:{_SPACE}*+[;,]{_SPACE}*+|{_SPACE}++|$)"
    rf"(?:url{_SPACE}*+={_SPACE}*+)?+(?P<rest>.*))"
)


class Refresh(NamedTuple):
    """A page redirects its visitors to ``target``, a URL as written, after ``seconds`` whole seconds. Without a target
    it reloads itself."""

    seconds: int
    target: str


def parse_refresh(text: str) -> Refresh | None:
    """Return the parsed value of a refresh; None if it is not valid."""
    found = re.match(_REFRESH, text)
    if found is None:
        return None
    rest = found["rest"]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    target = rest.strip("\t\n\f\r ")
    # A longer number exceeds any limit, and is slow to parse.
    return Refresh(int((found["whole"] or "0")[:_DIGITS_MOST]), target)

"""Where a declarative refresh leads: ``<meta http-equiv=refresh content="5; url=next.html">``, and the header.

These are the "shared declarative refresh steps" of the HTML Standard (4.2.5.3).
"""

from __future__ import annotations

import re

_SPACE = r"[\t\n\f\r ]"
_REFRESH = (
    rf"(?is:{_SPACE}*+(?:[0-9]++[0-9.]*+|\.[0-9.]*+)(?:{_SPACE}*+[;,]{_SPACE}*+|{_SPACE}++)"
    rf"(?:url{_SPACE}*+={_SPACE}*+)?+(?P<rest>.+))"
)


def refresh_target(text: str) -> str | None:
    """The URL in the value of a refresh, as written; None if it names none, so that the page reloads itself."""
    found = re.match(_REFRESH, text)
    if found is None:
        return None
    rest = found["rest"]
    if rest[0] in "\"'":
        rest = rest[1:].partition(rest[0])[0]
    return rest.strip("\t\n\f\r ") or None

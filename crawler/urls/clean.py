"""Patterns for text that the parser would give back unchanged, so that it need not be asked.

*Clean* text has three properties: the parser's href is the text itself (behind the base, if relative), so
is the key, and no part of it can be read differently by any base with http or https. The patterns therefore
leave out whatever needs a second look, valid or not: capitals in the host, labels in punycode, hosts that
end in a number, default ports, triplets of unreserved characters or in lower case, every segment that
begins with a dot. What is left out goes to the parser, so a pattern may be too narrow, never too wide.

All of them are meant for text cut at its first ``#``: that is where the fragment starts whenever the rest
is clean.
"""

from __future__ import annotations

import re

# Upper-case triplets of characters that are not unreserved (RFC 3986, 2.3).
_TRIPLET = "%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"
# What the path, and the query of http, take without encoding (URL Standard, 1.3), less a few rare characters.
_PATH = r"[A-Za-z0-9\-._~!$&'()*+,;=:@/]"
_FIRST_SEGMENT = r"[A-Za-z0-9\-._~!$&'()*+,;=@]"
_QUERY = r"[A-Za-z0-9\-._~!$&()*+,;=:@/?]"


def _run(character: str) -> str:
    return f"{character}*(?:{_TRIPLET}{character}*)*"


_SEARCH = rf"(?:\?(?!\Z){_run(_QUERY)})?"
_LABEL = "(?!xn--)[a-z0-9_-]+"
_HOST = rf"(?:{_LABEL}\.)*(?!xn--)[a-z][a-z0-9_-]*"
_PORT = r"(?::(?!(?:80|443)(?:/|\Z))(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"

#: ``https://example.com/a/b?c``; group 1 starts at the path and is None where there is none.
absolute = re.compile(rf"https?://{_HOST}{_PORT}(/{_run(_PATH)}{_SEARCH})?").fullmatch

#: ``/a/b?c``, not ``//a``.
from_root = re.compile(rf"/(?!/){_run(_PATH)}{_SEARCH}").fullmatch

#: ``a/b?c``: no leading slash, dot or question mark, and no colon in the first segment.
from_directory = re.compile(rf"(?![./?]|\Z){_run(_FIRST_SEGMENT)}(?:/{_run(_PATH)})?{_SEARCH}").fullmatch

#: ``?c``.
from_page = re.compile(rf"(?=\?){_SEARCH}").fullmatch


def no_dot_segment(text: str) -> bool:
    """True if no segment after a slash begins with a dot."""
    return "/." not in text

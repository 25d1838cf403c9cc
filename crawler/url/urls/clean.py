"""Recognises links that the parser would return unchanged, so that it need not be called.

A *clean* link has three properties: the parser's href is the link itself (after its base, if relative), the key is the
same, and both hold for every http or https base. Two checks decide whether a link is clean: its characters here, for
all links of a page in a few passes of C, and its structure in ``Base``.

Both checks leave out everything that needs a closer look, valid or not: capitals in the host, labels in punycode, hosts
that end in a number, default ports, triplets of unreserved characters or in lower case, quotation marks, most segments
that start with a dot, empty queries. The parser handles what is left out: this code may be too narrow, never too wide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import itemgetter

from crawler.url.urls.whatwg import TRIMMED, scalar_values

# Characters allowed unencoded in both path and query (URL Standard, 1.3), except a few rare ones.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&()*+,;=:@/?"
_PLAIN_CLASS = r"[A-Za-z0-9\-._~!$&()*+,;=:@/?]*+"
# Upper-case triplets of characters that are not unreserved (RFC 3986, 2.3).
_TRIPLET = "%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"
_LABEL = "(?!xn--)[a-z0-9_-]+"

#: Matches a clean link, without its fragment, that has odd bytes; ``root`` checks its root.
although_odd = re.compile(rf"(?!\.|.*/\.){_PLAIN_CLASS}(?:{_TRIPLET}{_PLAIN_CLASS})*+(?<!\?)").fullmatch

#: Matches a clean root of a site; a last label that starts with a letter is not a number.
root = re.compile(
    rf"https?://(?:{_LABEL}\.)*(?!xn--)[a-z][a-z0-9_-]*"
    r"(?::(?!(?:80|443)/)(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?/"
).fullmatch

#: Stands for a slash and a dot in the odd bytes of a link.
DOT_SEGMENT = b"\0"

_VISIBLE = bytes(range(0x21, 0x100))


def distinct_links(texts: Iterable[str]) -> tuple[list[str], list[bytes]]:
    """Return the distinct texts in order, without their fragments, and the odd bytes of each.

    Every byte that is not plain is odd, and so are a slash followed by a dot, and a question mark at the end. A page's
    links are examined as one text, one per line, because a pass in C over all of them costs less than one loop
    iteration per link.

    A fragment starts at the first ``#``, whatever state the parser is in. Cutting it before the parser trims the text
    may leave a space or control at the end, where the parser would trim it; the ``#`` must then be put back. No other
    link ends in a space or control.
    """
    several = list(texts)
    links = list(dict.fromkeys(map(itemgetter(0), map(str.partition, several, repeat("#")))))
    lines = _ascii("\n".join(links))
    if len(lines.translate(None, _VISIBLE)) > len(links) - 1:
        # The parser removes line breaks anywhere, after conversion to scalar values: they separate surrogate pairs.
        scalar = (scalar_values(text).strip(TRIMMED).replace("\n", "") for text in several)
        links = list(dict.fromkeys([text.partition("#")[0] for text in scalar]))
        lines = _ascii("\n".join(links))
    return links, _odd(lines) if links else []


def oddities(links: Sequence[str]) -> list[bytes]:
    """Return the odd bytes of each link, as ``distinct_links`` does, but for links without fragments, and for repeated
    links too.

    The result has an item for each line, so it has more items than links if a link contains a line break. Here, white
    space is also odd.
    """
    return _odd(_ascii("\n".join(links))) if links else []


def _odd(lines: bytes) -> list[bytes]:
    odd = lines.replace(b"/.", DOT_SEGMENT).replace(b"?\n", b"\0\n").translate(None, _PLAIN).split(b"\n")
    if lines.endswith(b"?"):
        odd[-1] += b"\0"
    return odd


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "backslashreplace")

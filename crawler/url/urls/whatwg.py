"""From the text of a link to an href, by the WHATWG URL Standard (https://url.spec.whatwg.org/).

The parser is ada. This module adds what a crawler needs: it handles text that is not a scalar-value string, accepts
only http and https, removes fragments and credentials, and gives a reason if there is nothing to fetch.
"""

from __future__ import annotations

import re

from ada_url import join_url, parse_url
from msgspec import Struct

from crawler.url.urls.normalising_steps import drop_userinfo


class Rejected(Struct, frozen=True):
    """The text names nothing that can be fetched."""

    reason: str  # one short phrase


NOT_HTTP = Rejected("not http or https")
NO_HOST = Rejected("no host")
INVALID = Rejected("invalid URL")
RELATIVE = Rejected("relative URL without a base")
BAD_BASE = Rejected("invalid base URL")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
#: What the parser trims from both ends: C0 controls and space.
TRIMMED = "".join(map(chr, range(0x21)))
# Characters that the parser removes everywhere.
_REMOVED = re.compile(r"[\t\n\r]")
_HOSTLESS = re.compile(r"https?:[/\\]*+(?:[^/\\?#]*@)?(?::[0-9]*)?(?:[/\\?#]|\Z)", re.IGNORECASE)


def scalar_values(text: str) -> str:
    """Return the text as a scalar-value string: surrogate pairs joined, each lone surrogate replaced by U+FFFD.

    The standard's parser accepts no other strings (WebIDL, "convert to a USVString"), and a lone surrogate cannot be
    encoded.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def foreign_scheme(text: str) -> bool:
    """Return True if the text clearly starts with a scheme other than http and https."""
    found = _SCHEME.match(text)
    return found is not None and found[0].lower() not in ("http:", "https:")


def parse(text: str, base: str | None = None) -> str | Rejected:
    """Return the parser's serialisation of ``text`` against ``base``, fragment included, if it is http or https.

    Both must be scalar-value strings. A base that does not parse rejects even absolute text, as in browsers.
    """
    try:
        href = parse_url(text, ("href",))["href"] if base is None else join_url(base, text)
    except ValueError:
        return _reason(text, base)
    return href if href.startswith(("http://", "https://")) else NOT_HTTP


def drop_fragment(href: str) -> str:
    """Return everything before the first ``#``; no other part of an href contains one."""
    return href.partition("#")[0]


def requested(href: str) -> str:
    """Return the part of a parsed href that is fetched: no fragment, and no credentials, which pages must not
    choose."""
    href = drop_fragment(href)
    return drop_userinfo(href) if "@" in href else href


def has_userinfo(text: str) -> bool:
    """Return True if an absolute URL names a user or a password."""
    if "@" not in text:
        return False
    href = parse(scalar_values(text))
    return not isinstance(href, Rejected) and drop_fragment(href) != requested(href)


def resolve(text: str, base: str | None = None) -> str | Rejected:
    """Return the href of any text, or why there is nothing to fetch."""
    href = parse(scalar_values(text), None if base is None else scalar_values(base))
    return href if isinstance(href, Rejected) else requested(href)


def _reason(text: str, base: str | None) -> Rejected:
    if base is not None and isinstance(parse(base), Rejected) and not _parses(base):
        return BAD_BASE
    text = _REMOVED.sub("", text.strip(TRIMMED))
    if foreign_scheme(text):
        return NOT_HTTP
    if _SCHEME.match(text) is None and base is None:
        return RELATIVE
    return NO_HOST if _HOSTLESS.match(text) else INVALID


def _parses(text: str) -> bool:
    try:
        parse_url(text, ())
    except ValueError:
        return False
    return True

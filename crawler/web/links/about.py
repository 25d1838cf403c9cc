"""A page's metadata: its title, its language, its canonical URL.

All of it is untrusted text that is stored in records and shown on screens, so it is cut and cleaned here: the results
are short, and contain no control characters and no lone surrogates.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from crawler.web.links.headers import SPACE

TITLE_MOST = 1_000  # maximum characters of a title
LANGUAGE_MOST = 35  # maximum characters of a language tag, as RFC 5646, 4.4.1 recommends
CANONICAL_MOST = 16_384  # maximum characters of a canonical URL as written; longer than any URL that is fetched

_SPACES = re.compile("[\t\n\f\r ]+")
_SURROGATE = re.compile("[\ud800-\udfff]").search
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LANGUAGE = re.compile("[A-Za-z0-9]{1,8}(?:[-_][A-Za-z0-9]{1,8})*").fullmatch
_ROOM = 4  # the limit before white space is folded, as a multiple of the limit after it


class About(NamedTuple):
    """The metadata of a page; None where it has none. ``canonical`` is as written."""

    title: str | None = None
    language: str | None = None
    canonical: str | None = None


NOTHING_SAID = About()


def clean(text: str, most: int) -> str | None:
    """Return the text on one line of at most ``most`` characters, without control characters and lone surrogates; white
    space is folded as in the title of a browser's window. None if nothing is left."""
    text = text[: _ROOM * most].strip(SPACE)
    if not text.isprintable() or "  " in text:
        text = _UNFIT.sub("", _SPACES.sub(" ", text)).strip(SPACE)
    return text[:most].rstrip(SPACE) or None


def language(text: str | None) -> str | None:
    """Return a language tag as written, if it is well-formed."""
    if text is None:
        return None
    text = text[: _ROOM * LANGUAGE_MOST].strip(SPACE)
    return text if len(text) <= LANGUAGE_MOST and _LANGUAGE(text) else None


def about(title: str | None, tag: str | None, canonical: str | None) -> About:
    """Return the cleaned metadata of a page."""
    own = None if canonical is None else canonical.strip(SPACE)
    if not own or len(own) > CANONICAL_MOST or _SURROGATE(own):
        own = None
    return About(None if title is None else clean(title, TITLE_MOST), language(tag), own)

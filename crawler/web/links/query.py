"""Encodes the query of a link on a page that is not in UTF-8.

The scripts of such a site expect queries in the page's own encoding, so browsers use it: the WHATWG URL Standard
percent-encodes the query of a URL in the document's encoding, everything else in UTF-8. A character that the encoding
lacks becomes a numeric reference, as in forms.
"""

from __future__ import annotations

import codecs
import re
import sys
from functools import lru_cache

from crawler.web.links.encoding import python_codec

_UNICODE = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})
_STATEFUL = frozenset({"iso-2022-jp"})  # the encoded form of a character depends on the previous one
_REFERENCE = "crawler.reference"  # the error handler for characters that an encoding lacks
_FOREIGN = re.compile(r"[^\x00-\x7f]++")
_UNSEEN = re.compile(r"[\t\n\r]+")  # URLs drop these characters
_KEPT = 30_000  # maximum cached characters of an encoding; texts do not use more
_LEAST = 6  # minimum length of an encoded character in a stateful encoding


def encode_queries(hrefs: list[str], encoding: str, longest: int | None = None) -> list[str]:
    """Return the hrefs in the form for the parser, which knows only UTF-8. ``encoding`` is a WHATWG name.

    With ``longest``, hrefs whose query alone would have more characters are omitted. The time taken is proportional to
    the length of the hrefs."""
    encoding = encoding.lower()
    if encoding in _UNICODE:
        return hrefs
    stateful = encoding in _STATEFUL
    codec = python_codec(encoding)
    table = None if stateful else _table(codec)
    most = sys.maxsize if longest is None else longest
    encoded = (href if href.isascii() else _encode_query(href, codec, table, most) for href in hrefs)
    return [href for href in encoded if href is not None]


def _encode_query(href: str, codec: str, table: _Table | None, longest: int) -> str | None:
    rest, hash_mark, fragment = href.partition("#")
    path, question_mark, query = rest.partition("?")
    if query.isascii():
        return href
    query = _UNSEEN.sub("", query)
    if table is not None:
        sent = query.translate(table)
    elif _LEAST * len(query) - (_LEAST - 1) * len(query.encode("ascii", "ignore")) > longest:
        return None
    else:
        sent = _FOREIGN.sub(lambda found: _sent(found[0], codec), query)
    return f"{path}{question_mark}{sent}{hash_mark}{fragment}" if len(sent) <= longest else None


class _Table(dict[int, str]):
    """The encoded form of each character, by its code point, filled on demand."""

    def __init__(self, codec: str) -> None:
        super().__init__({point: chr(point) for point in range(128)})
        self._codec = codec

    def __missing__(self, point: int) -> str:
        try:
            sent = "%" + chr(point).encode(self._codec).hex("%").upper()
        except UnicodeEncodeError:
            sent = _numbered(point)
        if len(self) < _KEPT:
            self[point] = sent
        return sent


@lru_cache(maxsize=4)
def _table(codec: str) -> _Table:
    return _Table(codec)


def _sent(text: str, codec: str) -> str:
    """Return the encoded form of non-ASCII text, as a form would send it."""
    # NUL, which none of these characters produces, encloses the references for characters that the encoding lacks.
    parts = text.encode(codec, _REFERENCE).split(b"\0")
    parts[::2] = [b"%" + part.hex("%").upper().encode() if part else b"" for part in parts[::2]]
    return b"".join(parts).decode("ascii")


def _numbered(point: int) -> str:
    return f"%26%23{point}%3B"


def _reference(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "\0" + "".join([_numbered(ord(character)) for character in missing]) + "\0", error.end


codecs.register_error(_REFERENCE, _reference)

"""The query of a link on a page that is not in UTF-8.

The scripts of such a site expect queries in the page's own encoding, so browsers use it: the WHATWG URL Standard
percent-encodes the query of a URL "after encoding" with that of the document, everything else as UTF-8. A character
that the encoding lacks becomes the numeric reference that a form would send.
"""

from __future__ import annotations

import codecs
import re

from crawler.links.encoding import python_codec

_UNICODE = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})
_REFERENCE = "crawler.reference"  # the error handler for what an encoding lacks
_FOREIGN = re.compile(r"[^\x00-\x7f]++")


def encode_queries(hrefs: list[str], encoding: str) -> list[str]:
    """The hrefs as they must be passed to the parser, which knows only UTF-8. ``encoding`` is a WHATWG name."""
    if encoding.lower() in _UNICODE:
        return hrefs
    codec = python_codec(encoding)
    return [href if href.isascii() else _encode_query(href, codec) for href in hrefs]


def _encode_query(href: str, codec: str) -> str:
    rest, hash_mark, fragment = href.partition("#")
    path, question_mark, query = rest.partition("?")
    if query.isascii():
        return href
    sent = _FOREIGN.sub(lambda found: _sent(found[0], codec), query)
    return f"{path}{question_mark}{sent}{hash_mark}{fragment}"


def _sent(text: str, codec: str) -> str:
    """Text of other than ASCII characters, as a form would send it."""
    # Between two NUL, which no such character gives, stands what is sent for those that the encoding lacks.
    parts = text.encode(codec, _REFERENCE).split(b"\0")
    parts[::2] = [b"%" + part.hex("%").upper().encode() if part else b"" for part in parts[::2]]
    return b"".join(parts).decode("ascii")


def _reference(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "\0" + "".join([f"%26%23{ord(character)}%3B" for character in missing]) + "\0", error.end


codecs.register_error(_REFERENCE, _reference)

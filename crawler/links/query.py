"""The query of a link on a page that is not in UTF-8.

The scripts of such a site expect queries in the page's own encoding, so browsers use it: the WHATWG URL Standard
percent-encodes the query of a URL "after encoding" with that of the document, everything else as UTF-8. A character
that the encoding lacks becomes the numeric reference that a form would send.
"""

from __future__ import annotations

from crawler.links.encoding import python_codec

_UNICODE = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})


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
    sent = "".join(character if character.isascii() else _sent(character, codec) for character in query)
    return f"{path}{question_mark}{sent}{hash_mark}{fragment}"


def _sent(character: str, codec: str) -> str:
    try:
        return "".join(f"%{byte:02X}" for byte in character.encode(codec))
    except UnicodeEncodeError:
        return f"%26%23{ord(character)}%3B"

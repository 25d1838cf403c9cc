"""Sitemaps: URLs that a site lists of itself, in XML (https://www.sitemaps.org/protocol.html), compressed or not.

A sitemap lists pages, a sitemap index lists sitemaps; both name each in a ``loc``. Read in pieces, and never as a
whole: what has been decompressed is parsed and dropped. Nothing a sitemap says can make it grow: a document type, with
which entities are declared, ends the reading, as do elements nested deeper than any sitemap has, markup without end,
and more bytes than the protocol allows. What was read before stands.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from xml.parsers import expat

from crawler.settings import LinkSettings

XML_TYPES = frozenset(("text/xml", "application/xml"))
TYPES = XML_TYPES | frozenset(
    (
        "application/gzip",
        "application/x-gzip",
        "application/octet-stream",
        "binary/octet-stream",
        "text/plain",
    )
)

_PIECE = 64 * 1024  # bytes decompressed and parsed at a time
_MARKUP_MOST = 4 * _PIECE  # bytes without one whole piece of markup or text
_DEPTH_MOST = 16  # elements in each other; extensions of the protocol use 5
_GZIP = b"\x1f\x8b"
_GZIP_BITS = 31  # zlib's word for gzip with any window
_INPUT = 8 * 1024  # compressed bytes handed over at a time
_HEAD = 8 * 1024  # bytes in which the root element must begin
_ROOT = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s++|<\?[^>]*+>|<!--(?:[^-]|-(?!->))*+-->)*+<(?:[\w.-]++:)?(?:urlset|sitemapindex)(?=[\s/>])"
)
_named = re.compile(r"(?:sitemap[^/]*|\.xml(?:\.gz)?)\Z", re.I).search


@dataclass(frozen=True, slots=True)
class Listed:
    """A URL that a sitemap names, as written, and the priority from 0 to 1 that it gives it among the site's own; None
    where it gives none."""

    href: str
    priority: float | None


def named_like_sitemap(href: str) -> bool:
    """Whether the address alone lets one expect a sitemap: ``.xml``, ``.xml.gz``, or "sitemap" in its last segment."""
    return _named(href.partition("?")[0]) is not None


def is_sitemap(body: bytes) -> bool:
    """Whether the root element is that of a sitemap or of a sitemap index."""
    head = body[:_HEAD]
    if body.startswith(_GZIP):
        try:
            head = zlib.decompressobj(_GZIP_BITS).decompress(body, _HEAD)
        except zlib.error:
            return False
    return _ROOT.match(head) is not None


class Sitemap:
    """The URLs of one sitemap: an iterator over groups of them. ``fault`` says why reading ended early, if it did."""

    def __init__(self, body: bytes, settings: LinkSettings) -> None:
        self.fault: str | None = None
        self.is_index = False  # known with the first group
        self.found = 0
        self._body = body
        self._settings = settings
        self._listed: list[Listed] = []
        self._depth = 0
        self._field: str | None = None  # text of the element that is being read
        self._loc: str | None = None
        self._priority: float | None = None
        self._fed = self._parsed = 0  # bytes handed to the parser; as many when it last told of something

    def __iter__(self) -> Iterator[list[Listed]]:
        parser = expat.ParserCreate()
        parser.buffer_text = False
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._heard
        parser.StartDoctypeDeclHandler = _refuse_doctype
        try:
            for piece in self._pieces():
                self._fed += len(piece)
                parser.Parse(piece, False)
                if self._fed - self._parsed > _MARKUP_MOST:
                    raise _Odd("markup without end")
                yield self._take()
            parser.Parse(b"", True)
        except (_Odd, expat.ExpatError, zlib.error) as error:
            self.fault = str(error)
        yield self._take()

    def _pieces(self) -> Iterator[bytes]:
        """The document, decompressed piece by piece."""
        left = self._settings.max_sitemap_bytes
        for piece in _decompressed(self._body):
            if len(piece) > left:
                yield piece[:left]
                raise _Odd(f"larger than {self._settings.max_sitemap_bytes} bytes (links.max_sitemap_bytes)")
            left -= len(piece)
            yield piece

    def _take(self) -> list[Listed]:
        listed, self._listed = self._listed, []
        return listed

    def _heard(self, *_: object) -> None:
        self._parsed = self._fed

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._parsed = self._fed
        self._depth += 1
        if self._depth > _DEPTH_MOST:
            raise _Odd(f"elements nested deeper than {_DEPTH_MOST}")
        if self._depth == 1:
            self.is_index = _local(name) == "sitemapindex"
        if self._depth == 2:
            self._loc = self._priority = None
        self._field = "" if self._depth == 3 and _local(name) in ("loc", "priority") else None

    def _text(self, text: str) -> None:
        self._parsed = self._fed
        # One character too many is enough to call it too long.
        if self._field is not None and len(self._field) <= self._settings.max_url_length:
            self._field += text[: self._settings.max_url_length + 1]

    def _end(self, name: str) -> None:
        self._parsed = self._fed
        if self._field is not None and _local(name) == "loc":
            self._loc = self._field.strip()
        elif self._field is not None:
            self._priority = _priority(self._field)
        elif self._depth == 2 and self._loc and _local(name) in ("url", "sitemap"):
            if self.found >= self._settings.max_links:
                raise _Odd(f"more than {self._settings.max_links} URLs (links.max_links)")
            self.found += 1
            self._listed.append(Listed(self._loc, self._priority))
        self._field = None
        self._depth -= 1


class _Odd(Exception):
    """Something that no honest sitemap has."""


def _refuse_doctype(*_: object) -> None:
    raise _Odd("a document type is declared")


def _decompressed(body: bytes) -> Iterator[bytes]:
    if not body.startswith(_GZIP):
        yield from (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))
        return
    stream = zlib.decompressobj(_GZIP_BITS)
    for at in range(0, len(body), _INPUT):
        data = body[at : at + _INPUT]
        while data:
            if stream.eof:  # a file may have several members
                stream = zlib.decompressobj(_GZIP_BITS)
            yield stream.decompress(data, _PIECE)
            data = stream.unused_data.lstrip(b"\0") if stream.eof else stream.unconsumed_tail  # padded, some are
    while piece := stream.decompress(b"", _PIECE):
        yield piece
    if not stream.eof:
        raise zlib.error("the compressed data are cut off")


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _priority(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None

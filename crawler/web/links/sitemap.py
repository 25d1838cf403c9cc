"""Sitemaps: a site's lists of its own URLs, in XML (https://www.sitemaps.org/protocol.html), compressed or not.

A sitemap lists pages, a sitemap index lists sitemaps; both name each in a ``loc``. The protocol has two more forms: a
text with one URL on each line, and feeds (RSS 2.0 and 1.0, Atom), in which the ``link`` of each item counts. Texts and
feeds are common, so they are read as sitemaps only if the site says that they are.

The encoding is found as browsers find it, among all of the Encoding Standard, and bytes that it does not know are
replaced. The parser only sees UTF-8.

A sitemap is read in pieces: each piece is decompressed, parsed and dropped. A hostile sitemap cannot make memory grow.
Reading ends at the declaration of an entity or of attributes, which could make much of little, at elements nested
deeper than in any real sitemap, at markup without end, and at more bytes than the protocol allows. The URLs read before
still count. What a document type names outside is never fetched.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import IntEnum
from xml.parsers import expat

from msgspec import Struct

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.encoding import python_codec, sniff_xml_encoding

XML_TYPES = frozenset(("text/xml", "application/xml"))
FEED_TYPES = frozenset(("application/rss+xml", "application/atom+xml", "application/rdf+xml"))
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
_MEMBERS_MOST = 1_024
_INPUT = 8 * 1024  # compressed bytes handed over at a time
_HEAD = 8 * 1024  # bytes in which the root element must begin
_FIELD_MOST = 64  # characters of a date or a number
_OF_LISTINGS = frozenset(("priority", "changefreq"))
_DAY = 86_400.0
_DATE_LENGTH = 10  # of a date without time
_GROUP_MOST = 1_000  # URLs of a text given out at a time
_QUOTED_IN_TAG = rb"""|"[^">]*+"|'[^'>]*+'"""
_QUOTED = rb"""|"[^"]*+"|'[^']*+'"""
_DOCTYPE = rb"(?:[^\[>\"']" + _QUOTED + rb")*+(?:\[(?:[^]\"']" + _QUOTED + rb")*+\]\s*+)?>"
_PROLOG = (
    rb"\A(?:\xef\xbb\xbf)?(?:\s++|<\?[^>]*+>|<!--(?:[^-]|-(?!->))*+-->|<!DOCTYPE\s" + _DOCTYPE + rb")*+"
    rb"<(?:!DOCTYPE\s++)?(?:[\w.-]++:)?"
)
_DECLARATION = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*+<\?xml\s[^>]*+>")
_ROOT = re.compile(_PROLOG + rb"(?:urlset|sitemapindex)(?=[\s/>[])")
_FEED = re.compile(_PROLOG + rb"(?:rss|RDF|feed)(?=[\s/>[])")
_TEXT = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*+https?://\S++[ \t]*+(?:[\r\n]|\Z)", re.I)
_LINE_END = re.compile(rb"[\r\n]+")  # with the empty lines behind it: a body of line ends alone costs next to nothing
# The beginning of a page of HTML, as nearly all have it.
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml\s[^>]*+>\s*+)?<!doctype\s++html(?:[^\[>\"']"
    + _QUOTED_IN_TAG
    + rb")*+>\s*+<html[\s>]",
    re.I,
)


class Listed(Struct, frozen=True):
    """A URL in a sitemap, as written, and its priority from 0 to 1 among the site's URLs; None if it has none.
    ``begin`` and ``end`` enclose the time of its last change (seconds since 1970; 0: not stated): a date may be that of
    a whole day. ``frequency``: how often it changes by the site's guess, from 1 (hourly) to 3 (rarely); 0: no guess."""

    href: str
    priority: float | None
    begin: float = 0.0
    end: float = 0.0
    frequency: int = 0


class SitemapForm(IntEnum):
    """What a body looks like."""

    NONE = 0
    LISTING = 1  # a sitemap, or a sitemap index
    FEED = 2
    TEXT = 3


def form_of(body: bytes) -> SitemapForm:
    """What the beginning of a body looks like."""
    head = _head(body)
    if _ROOT.match(head) is not None:
        return SitemapForm.LISTING
    if _FEED.match(head) is not None:
        return SitemapForm.FEED
    return SitemapForm.NONE if _TEXT.match(head) is None else SitemapForm.TEXT


def is_page(body: bytes) -> bool:
    """Whether the body plainly begins as a page of HTML, so that ``form_of`` it is ``NONE``."""
    return _PAGE.match(body) is not None


def named_like_sitemap(href: str) -> bool:
    """Whether the URL looks like that of a sitemap: ``.xml``, ``.xml.gz``, or "sitemap" in its last segment."""
    name = _last_segment(href)
    return name.endswith((".xml", ".xml.gz")) or "sitemap" in name


def called_sitemap(href: str) -> bool:
    """Whether the last segment of the URL contains "sitemap"."""
    return "sitemap" in _last_segment(href)


def _last_segment(href: str) -> str:
    """The last segment of the path, in lower case."""
    return href.partition("?")[0].rpartition("/")[2].lower()


def is_text_sitemap(body: bytes) -> bool:
    """Whether the first line is an absolute URL and nothing else."""
    return _TEXT.match(_head(body)) is not None


def _head(body: bytes) -> bytes:
    """The beginning in an encoding that keeps ASCII bytes as they are."""
    head = _raw_head(body)
    wide = sniff_xml_encoding(head, None)
    return head.decode(python_codec(wide), "replace").encode() if wide.startswith("utf-16") else head


def _raw_head(body: bytes) -> bytes:
    if not body.startswith(_GZIP):
        return body[:_HEAD]
    try:
        return zlib.decompressobj(_GZIP_BITS).decompress(body, _HEAD)
    except zlib.error:
        return b""


class _Form(Struct, frozen=True):
    """Where an XML document names URLs: in elements ``items`` at a depth, by the text of their child ``url`` or, where
    that is None, by the ``href`` of their link to the page itself; and in which of their children it dates the last
    change, the best first."""

    items: tuple[str, ...]
    depth: int
    url: str | None
    dates: tuple[str, ...]


_LISTING = _Form(("url", "sitemap"), 2, "loc", ("lastmod",))
_FORMS = {
    "rss": _Form(("item",), 3, "link", ("updated", "date", "pubDate")),
    "RDF": _Form(("item",), 2, "link", ("modified", "date")),
    "feed": _Form(("entry",), 2, None, ("updated", "published")),
}
FREQUENCY_MOST = 3
_FREQUENCIES = {"always": 1, "hourly": 1, "daily": 2, "weekly": 3, "monthly": 3, "yearly": 3, "never": 3}


class Sitemap:
    """The URLs of one sitemap: an iterator over groups of them. ``charset`` is the label in the Content-Type header."""

    def __init__(self, body: bytes, settings: LinkSettings, charset: str | None = None) -> None:
        self._ended: _Ended | None = None
        self.is_index = False  # known with the first group
        self.found = 0
        self._body = body
        self._settings = settings
        self._codec = python_codec(sniff_xml_encoding(_raw_head(body), charset))
        self._form = _LISTING
        self._listed: list[Listed] = []
        self._depth = 0
        self._field: str | None = None  # text of the element that is being read
        self._loc: str | None = None
        self._texts: dict[str, str] = {}  # of the other children of an item
        self._silent = 0  # bytes handed to the parser since it last told of something

    @property
    def fault(self) -> str | None:
        """Why reading ended early, if it did."""
        return None if self._ended is None else self._ended.why

    @property
    def limit(self) -> str | None:
        """The setting that ended the reading, if one did."""
        return None if self._ended is None else self._ended.limit

    def __iter__(self) -> Iterator[list[Listed]]:
        return self._lines() if is_text_sitemap(self._body) else self._elements()

    def _lines(self) -> Iterator[list[Listed]]:
        # Four bytes a character at most, and one more is enough to call a URL too long.
        longest = 4 * (self._settings.max_url_length + 1)
        rest, odd = b"\n", 0
        try:
            for piece in self._pieces():
                *lines, rest = _LINE_END.split(rest + piece)
                rest = rest[:longest]
                for line in lines:
                    odd += self._line(line[:longest])
                    if len(self._listed) == _GROUP_MOST:
                        yield self._take()
                yield self._take()  # also where there is none: the caller has its turn
            odd += self._line(rest)
        except (_Odd, zlib.error) as error:
            self._ended = _Ended(str(error), getattr(error, "limit", None))
        if odd and self._ended is None:
            self._ended = _Ended("1 line is no URL" if odd == 1 else f"{odd} lines are no URL")
        yield self._take()

    def _line(self, line: bytes) -> bool:
        """Whether the line holds something that is not a URL."""
        text = line.decode("utf-8", "replace").strip("\ufeff \t\f\v\0")
        if not text.lower().startswith(("http://", "https://")):
            return bool(text)
        self._list(text[: self._settings.max_url_length + 1], None)
        return False

    def _elements(self) -> Iterator[list[Listed]]:
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = False
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._heard
        parser.EntityDeclHandler = parser.AttlistDeclHandler = _refuse_declaration
        parser.SkippedEntityHandler = self._skipped
        try:
            for number, piece in enumerate(self._pieces()):
                self._silent += len(piece)
                # The encoding is known, and what the declaration calls it is often no name that XML permits.
                parser.Parse(piece if number else _DECLARATION.sub(b"", piece, 1), False)
                if self._silent > _MARKUP_MOST:
                    raise _Odd("markup without end")
                yield self._take()
            parser.Parse(b"", True)
        except (_Odd, expat.ExpatError, zlib.error) as error:
            self._ended = _Ended(str(error), getattr(error, "limit", None))
        yield self._take()

    def _pieces(self) -> Iterator[bytes]:
        """The document in UTF-8, decompressed piece by piece."""
        left = self._settings.max_sitemap_bytes
        decoder = codecs.getincrementaldecoder(self._codec)("replace")
        for piece in _decompressed(self._body):
            if len(piece) > left:
                yield _encoded(decoder.decode(piece[:left]))
                raise _Limit(f"larger than {self._settings.max_sitemap_bytes} bytes", "links.max_sitemap_bytes")
            left -= len(piece)
            yield _encoded(decoder.decode(piece))
        yield _encoded(decoder.decode(b"", True))

    def _take(self) -> list[Listed]:
        listed, self._listed = self._listed, []
        return listed

    def _heard(self, *_: object) -> None:
        self._silent = 0

    def _skipped(self, name: str, _: bool) -> None:
        if self._field is not None:
            raise _Odd("an undefined entity in a URL")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._silent = 0
        self._depth += 1
        if self._depth > _DEPTH_MOST:
            raise _Odd(f"elements nested deeper than {_DEPTH_MOST}")
        if self._depth == 1:
            self.is_index = _local(name) == "sitemapindex"
            self._form = _FORMS.get(_local(name), _LISTING)
        if self._depth == self._form.depth:
            self._loc = None
            self._texts.clear()
        self._field = None
        if self._depth == self._form.depth + 1:
            local = _local(name)
            if local == self._form.url or local in _OF_LISTINGS or local in self._form.dates:
                self._field = ""
            elif self._form.url is None and local == "link" and attributes.get("rel", "alternate") == "alternate":
                self._loc = self._loc or attributes.get("href", "")[: self._settings.max_url_length + 1].strip()

    def _text(self, text: str) -> None:
        self._silent = 0
        # One character too many is enough to call it too long.
        if self._field is not None and len(self._field) <= self._settings.max_url_length:
            self._field += text[: self._settings.max_url_length + 1]

    def _end(self, name: str) -> None:
        self._silent = 0
        if self._field is not None and _local(name) == self._form.url:
            # In a feed there may be an `atom:link` beside it, which has no text.
            self._loc = self._field.strip() or self._loc
        elif self._field is not None:
            self._texts[_local(name)] = self._field[:_FIELD_MOST]
        elif self._depth == self._form.depth and self._loc and _local(name) in self._form.items:
            self._list(self._loc, *self._stated())
        self._field = None
        self._depth -= 1

    def _stated(self) -> tuple[float | None, float, float, int]:
        """What the item says of its URL."""
        texts = self._texts
        if not texts:
            return None, 0.0, 0.0, 0
        date = next((texts[name] for name in self._form.dates if name in texts), None)
        begin, end = (0.0, 0.0) if date is None else parse_date(date)
        frequency = _FREQUENCIES.get(texts.get("changefreq", "").strip().lower(), 0)
        return _priority(texts.get("priority", "")), begin, end, frequency

    def _list(
        self, href: str, priority: float | None, begin: float = 0.0, end: float = 0.0, frequency: int = 0
    ) -> None:
        if self.found >= self._settings.max_links:
            raise _Limit(f"more than {self._settings.max_links} URLs", "links.max_links")
        self.found += 1
        self._listed.append(Listed(href, priority, begin, end, frequency))


class _Ended(Struct, frozen=True):
    """Why reading ended early, and the setting that ended it, if one did."""

    why: str
    limit: str | None = None


class _Odd(Exception):
    """A feature that no honest sitemap has."""


class _Limit(_Odd):
    """More than a setting allows."""

    def __init__(self, why: str, limit: str) -> None:
        super().__init__(f"{why} ({limit})")
        self.limit = limit


def _refuse_declaration(*_: object) -> None:
    raise _Odd("entities or attributes are declared")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _decompressed(body: bytes) -> Iterator[bytes]:
    if not body.startswith(_GZIP):
        yield from (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))
        return
    stream, members = zlib.decompressobj(_GZIP_BITS), 1
    for at in range(0, len(body), _INPUT):
        data = body[at : at + _INPUT]
        while data:
            if stream.eof:  # a file may have several members
                stream, members = zlib.decompressobj(_GZIP_BITS), members + 1
                if members > _MEMBERS_MOST:
                    raise _Odd(f"more than {_MEMBERS_MOST} members of gzip")
            yield stream.decompress(data, _PIECE)
            data = stream.unused_data.lstrip(b"\0") if stream.eof else stream.unconsumed_tail  # padded, some are
    while piece := stream.decompress(b"", _PIECE):
        yield piece
    if not stream.eof:
        raise zlib.error("the compressed data are cut off")


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def parse_date(text: str) -> tuple[float, float]:
    """The times between which a date lies, as sitemaps and Atom write it (W3C Date and Time Formats) or RSS does
    (RFC 822), in seconds since 1970; 0 and 0 if it is none, or of a month or year as a whole."""
    text = text.strip()
    try:
        date = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
        begin = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0, 0.0
    if begin <= 0.0:
        return 0.0, 0.0
    return begin, begin + _DAY if len(text) <= _DATE_LENGTH else begin


def _priority(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None

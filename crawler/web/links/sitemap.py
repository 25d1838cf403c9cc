"""Sitemaps: a site's lists of its own URLs, in XML (https://www.sitemaps.org/protocol.html), compressed or not.

A sitemap lists pages, a sitemap index lists sitemaps; in both, each URL is in a ``loc``. The protocol has two more
forms: a text with one URL on each line, and feeds (RSS 2.0 and 1.0, Atom), in which the ``link`` of each item counts.
Texts and feeds are common, so they are read as sitemaps only if the site declares them as such.

The encoding is determined as in browsers, among all of the Encoding Standard, and invalid bytes are replaced. The
parser only sees UTF-8.

A sitemap is read in pieces: each piece is decompressed, parsed and dropped. A hostile sitemap cannot make memory grow.

An XML parser reads it first. Many sitemaps are not quite XML: at the first fault a tolerant reader takes over. It reads
the document again from the start, as tags and text, and skips the URLs that were already found. Both readers call the
same methods, which check the names of elements and not their depth. The fault is still recorded.

Reading stops at the declaration of an entity or of attributes, which could expand a small document; at more bytes than
the protocol allows; and at markup without end, even in the tolerant reader. The URLs found before that still count.
External references of a document type are never fetched.
"""

from __future__ import annotations

import codecs
import contextlib
import html
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import IntEnum
from functools import cached_property
from itertools import chain
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

SITEMAP_BYTES_MOST = 50 * 2**20  # maximum bytes of a decompressed sitemap, set by the protocol
_PIECE = 64 * 1024  # bytes decompressed and parsed at a time
_MARKUP_MOST = 4 * _PIECE  # maximum bytes without one complete piece of markup or text
_HELD_MOST = 16 * _PIECE  # characters of one piece of markup or text that the tolerant reader holds
_DEPTH_MOST = 16  # maximum nesting of elements; extensions of the protocol use 5
_GZIP = b"\x1f\x8b"
_GZIP_BITS = 31  # zlib's value for gzip with any window size
_MEMBERS_MOST = 1_024
_INPUT = 8 * 1024  # compressed bytes passed on at a time
_HEAD = 8 * 1024  # bytes in which the root element must start
_FIELD_MOST = 64  # maximum characters of a date or a number
_BARE_MOST = 16 * 1024  # maximum characters of text outside of a ``loc``
_DAY = 86_400.0
_DATE_LENGTH = 10  # length of a date without a time
_GROUP_MOST = 1_000  # URLs of a text sitemap in one group
_QUOTED_IN_TAG = rb"""|"[^">]*+"|'[^'>]*+'"""
_QUOTED = rb"""|"[^"]*+"|'[^']*+'"""
_DOCTYPE = rb"(?:[^\[>\"']" + _QUOTED + rb")*+(?:\[(?:[^]\"']" + _QUOTED + rb")*+\]\s*+)?>"
_PROLOG = (
    rb"\A(?:\xef\xbb\xbf)*+(?:\s++|<\?[^>]*+>|<!--(?:[^-]|-(?!->))*+-->|<!DOCTYPE\s" + _DOCTYPE + rb")*+"
    rb"<(?:!DOCTYPE\s++)?(?:[\w.-]++:)?"
)
_DECLARATION = re.compile(rb"\A(?:\xef\xbb\xbf)*+(?:\s*+<\?xml\s[^>]*+>)?")
_ROOT = re.compile(_PROLOG + rb"(?:urlset|sitemapindex)(?=[\s/>[])", re.I)
_FEED = re.compile(_PROLOG + rb"(?:rss|rdf|feed)(?=[\s/>[])", re.I)
# The first element shows whether a document is a page or a sitemap.
_LOOSE = re.compile(
    rb"<(?:[\w.-]++:)?(?:(?:html|head|body)|(urlset|sitemapindex|url|sitemap|loc|rss|rdf|feed))(?=[\s/>])", re.I
)
_TEXT = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*+https?://\S++[ \t]*+(?:[\r\n]|\Z)", re.I)
_LINE_END = re.compile(rb"[\r\n]+")  # with the empty lines after it, so that bodies of line ends cost almost nothing
# The start of nearly every HTML page.
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml\s[^>]*+>\s*+)?<!doctype\s++html(?:[^\[>\"']"
    + _QUOTED_IN_TAG
    + rb")*+>\s*+<html[\s>]",
    re.I,
)


class Listed(Struct, frozen=True):
    """A URL in a sitemap, as written, and its priority from 0 to 1 among the site's URLs; None if it has none.
    ``begin`` and ``end`` enclose the time of its last change (seconds since 1970; 0: not stated), because a date may
    stand for a whole day. ``frequency``: the site's estimate of how often it changes, from 1 (hourly) to 3 (rarely); 0:
    none."""

    href: str
    priority: float | None
    begin: float = 0.0
    end: float = 0.0
    frequency: int = 0


class SitemapForm(IntEnum):
    """The apparent form of a body."""

    NONE = 0
    LISTING = 1  # a sitemap or a sitemap index
    FEED = 2
    TEXT = 3
    LOOSE = 4  # a sitemap or a feed after other content, or without its root


def form_of(body: bytes) -> SitemapForm:
    """Return the form that the start of a body suggests."""
    head = _head(body)
    for form, pattern in ((SitemapForm.LISTING, _ROOT), (SitemapForm.FEED, _FEED), (SitemapForm.TEXT, _TEXT)):
        if pattern.match(head) is not None:
            return form
    loose = _LOOSE.search(head)
    return SitemapForm.NONE if loose is None or loose[1] is None else SitemapForm.LOOSE


def is_page(body: bytes) -> bool:
    """Return True if the body clearly starts as an HTML page, so that its ``form_of`` is ``NONE``."""
    return _PAGE.match(body) is not None


def named_like_sitemap(href: str) -> bool:
    """Return True if the URL looks like a sitemap's: ``.xml``, ``.xml.gz``, or "sitemap" in its last segment."""
    name = _last_segment(href)
    return name.endswith((".xml", ".xml.gz")) or "sitemap" in name


def called_sitemap(href: str) -> bool:
    """Return True if the last segment of the URL contains "sitemap"."""
    return "sitemap" in _last_segment(href)


def _last_segment(href: str) -> str:
    """Return the last segment of the path, in lower case."""
    return href.partition("?")[0].rpartition("/")[2].lower()


def _head(body: bytes) -> bytes:
    """Return the start of the body in an encoding that keeps ASCII bytes unchanged."""
    head = _raw_head(body)
    wide = sniff_xml_encoding(head, None)
    return head.decode(python_codec(wide), "replace").encode() if wide.startswith("utf-16") else head


def _raw_head(body: bytes) -> bytes:
    head = b""
    with contextlib.suppress(_Odd, zlib.error):
        for piece in _decompressed(body):
            head += piece
            if len(head) >= _HEAD:
                break
    return head[:_HEAD]


class _Form(Struct, frozen=True, dict=True):
    """Where a kind of XML document names URLs. Each element in ``items`` names one: in the text of its ``url`` child
    or, if ``url`` is None, in the ``href`` of its link to the page itself. ``dates`` are the elements that date the
    last change, in order of preference. ``bare``: elements whose own text counts if it is an absolute URL."""

    items: tuple[str, ...]
    url: str | None
    dates: tuple[str, ...]
    bare: tuple[str, ...] = ()

    @cached_property
    def fields(self) -> frozenset[str | None]:
        """Elements whose text counts."""
        return frozenset((self.url, *self.bare, *self.dates, "priority", "changefreq"))


_LISTING = _Form(("url", "sitemap"), "loc", ("lastmod",), ("url", "sitemap", "urlset", "sitemapindex"))
_FORMS = {
    **dict.fromkeys((*_LISTING.bare, "loc"), _LISTING),
    "rss": _Form(("item",), "link", ("updated", "date", "pubdate")),
    "rdf": _Form(("item",), "link", ("modified", "date")),
    "feed": _Form(("entry",), None, ("updated", "published")),
}
# Elements (and prefixes) with URLs and dates of other objects: extensions of sitemaps, and parts of feeds.
_FOREIGN = frozenset(("image", "video", "news", "source", "content"))
_TOKEN = re.compile(
    r"""<!--.*?--> | <!\[CDATA\[(?P<data>.*?)\]\]> | (?P<text>[^<]++)(?=<)
      | <(?!!--|!\[CDATA\[)(?=[^<]++<)  # up to the next one all is known, so that pieces make no difference
        (?: [?!][^<>]*+>
          | (?P<end>/?)(?P<name>[^\W\d][^\s<>/]*+)(?P<attributes>(?:[^<>"']|"[^<"]*+"|'[^<']*+')*+|[^<>]*+)> )
      | (?P<stray><)(?!!--|!\[CDATA\[)(?=[^<]*+<)""",
    re.DOTALL | re.VERBOSE | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""(?<![^\s/"'])([^\s=/"'<>]++)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+))""")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]\w{1,31});", re.IGNORECASE | re.ASCII)
FREQUENCY_MOST = 3
_FREQUENCIES = {"always": 1, "hourly": 1, "daily": 2, "weekly": 3, "monthly": 3, "yearly": 3, "never": 3}


class Sitemap:
    """The URLs of one sitemap: an iterator over groups of them. ``charset`` is the label in the Content-Type header."""

    def __init__(self, body: bytes, settings: LinkSettings, charset: str | None = None) -> None:
        self._ended: _Ended | None = None
        self._body = body
        self._settings = settings
        self._codec = python_codec(sniff_xml_encoding(_raw_head(body), charset))
        self._found = _Found(settings.max_links)
        self._items = _Items(self._found.add, settings.max_url_length, tolerant=False)

    @property
    def is_index(self) -> bool:
        """True if it lists sitemaps; known with the first group."""
        return self._items.is_index

    @property
    def fault(self) -> str | None:
        """The reason why reading stopped early, if it did."""
        return None if self._ended is None else self._ended.why

    @property
    def limit(self) -> str | None:
        """The setting that stopped reading, if one did."""
        return None if self._ended is None else self._ended.limit

    def __iter__(self) -> Iterator[list[Listed]]:
        return self._lines() if form_of(self._body) is SitemapForm.TEXT else self._elements()

    def _lines(self) -> Iterator[list[Listed]]:
        # A character has at most four bytes, and one excess character is enough to reject a URL as too long.
        longest = 4 * (self._settings.max_url_length + 1)
        rest, odd = b"\n", 0
        try:
            for piece in self._pieces():
                *lines, rest = _LINE_END.split(rest + piece)
                rest = rest[:longest]
                for line in lines:
                    odd += self._line(line[:longest])
                    if len(self._found.listed) == _GROUP_MOST:
                        yield self._found.take()
                yield self._found.take()  # even if empty, so that the caller gets a turn
            odd += self._line(rest)
        except (_Odd, zlib.error) as error:
            self._ended = _Ended(str(error), getattr(error, "limit", None))
        if odd and self._ended is None:
            self._ended = _Ended("1 line is not a URL" if odd == 1 else f"{odd} lines are not URLs")
        yield self._found.take()

    def _line(self, line: bytes) -> bool:
        """Return whether the line is neither empty nor a URL."""
        text = line.decode("utf-8", "replace").strip("\ufeff \t\f\v\0")
        if not text.lower().startswith(("http://", "https://")):
            return bool(text)
        self._found.add(text[: self._settings.max_url_length + 1], None)
        return False

    def _elements(self) -> Iterator[list[Listed]]:
        for read in (self._strictly, self._tolerantly):
            try:
                for _ in read():
                    yield self._found.take()
                break
            except (_Odd, expat.ExpatError, zlib.error) as error:
                why = str(error) if self._ended is None else self._ended.why
                self._ended = _Ended(why, getattr(error, "limit", None))
                if self._items.tolerant or not isinstance(error, _Fault | expat.ExpatError):
                    break
                yield self._found.take()
                self._found.known = self._found.count
                self._items = _Items(self._found.add, self._settings.max_url_length, tolerant=True)
        if self._found.count < self._settings.max_links:
            self._items.flush()
        yield self._found.take()

    def _strictly(self) -> Iterator[None]:
        items, parser = self._items, expat.ParserCreate("utf-8")
        parser.buffer_text = False
        parser.StartElementHandler = items.start
        parser.EndElementHandler = items.end
        parser.CharacterDataHandler = items.text
        parser.CommentHandler = parser.ProcessingInstructionHandler = items.heard
        parser.EntityDeclHandler = parser.AttlistDeclHandler = _refuse_declaration
        parser.SkippedEntityHandler = items.skipped
        for number, piece in enumerate(self._pieces()):
            items.silent += len(piece)
            # The encoding is known, and XML often does not permit the name in the declaration.
            parser.Parse(piece if number else _DECLARATION.sub(b"", piece, 1), False)
            if items.silent > _MARKUP_MOST:
                raise _Fault("markup without end")
            yield
        parser.Parse(b"", True)

    def _tolerantly(self) -> Iterator[None]:
        held = ""
        for piece in chain(self._pieces(), (b"<",)):  # the added "<" ends the text before it
            held += piece.decode("utf-8", "replace")
            at = 0
            while (token := _TOKEN.match(held, at)) is not None:
                at = token.end()
                self._items.token(token)
            held = held[at:]
            if len(held) > _HELD_MOST:
                raise _Fault("markup without end")
            yield

    def _pieces(self) -> Iterator[bytes]:
        """Yield the document in UTF-8, decompressed piece by piece."""
        left = SITEMAP_BYTES_MOST
        decoder = codecs.getincrementaldecoder(self._codec)("replace")
        for piece in _decompressed(self._body):
            if len(piece) > left:
                yield _encoded(decoder.decode(piece[:left]))
                raise _Limit(f"larger than {SITEMAP_BYTES_MOST} bytes", "links.max_sitemap_bytes")
            left -= len(piece)
            yield _encoded(decoder.decode(piece))
        yield _encoded(decoder.decode(b"", True))


class _Found:
    """The URLs that were found, at most ``most``, without the first ``known``."""

    def __init__(self, most: int) -> None:
        self.count = self.known = 0
        self.listed: list[Listed] = []
        self._most = most

    def add(self, href: str, priority: float | None, begin: float = 0.0, end: float = 0.0, frequency: int = 0) -> None:
        if self.known:
            self.known -= 1
            return
        if self.count >= self._most:
            raise _Limit(f"more than {self._most} URLs", "links.max_links")
        self.count += 1
        self.listed.append(Listed(href, priority, begin, end, frequency))

    def take(self) -> list[Listed]:
        listed, self.listed = self.listed, []
        return listed


class _Items:
    """Interprets the elements of a document: each URL, with its date and priority, is passed to ``listed``."""

    def __init__(self, listed: Callable[..., None], longest: int, *, tolerant: bool) -> None:
        self.tolerant = tolerant
        self.is_index = False
        self.silent = 0  # bytes passed to the parser since its last callback
        self._list = listed
        self._longest = longest  # maximum characters of a URL
        self._form: _Form | None = None  # known with the first element of a form
        self._open: list[str] = []  # the open elements; in tolerant mode, those since the last item started
        self._item = 0  # number of open elements up to the current item; 0 outside an item
        self._field: str | None = None  # text of the element being read, the last of ``_of`` open ones
        self._name, self._of = "", 0
        self._loc: str | None = None
        self._texts: dict[str, str] = {}  # texts of the other children of an item

    def token(self, token: re.Match[str]) -> None:
        kind, name = token.lastgroup, token["name"]
        if kind == "data":
            self.text(token["data"])
        elif kind in ("text", "stray"):
            self.text(_unescape(token[kind]))
        elif token["end"]:
            self.end(name)
        elif name is not None:
            stated = token["attributes"]
            self.start(name, _attributes(stated) if name.lower().endswith("link") else {})
            if stated.endswith("/"):
                self.end(name)

    def heard(self, *_: object) -> None:
        self.silent = 0

    def skipped(self, name: str, _: bool) -> None:
        if self._field is not None:
            raise _Fault("an undefined entity in a URL")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.silent = 0
        prefix, _, local = name.lower().rpartition(":")
        if self._form is None:
            if local not in _FORMS:
                return
            self._form, self.is_index = _FORMS[local], local in ("sitemapindex", "sitemap")
        form = self._form
        foreign = self._is_foreign(prefix)
        if local in form.items and not (foreign and form is _LISTING):
            self._close()
            self.flush()
            self._texts.clear()
            if self.tolerant:
                self._open.clear()  # earlier items may lack end tags
            self._item = len(self._open) + 1
        if len(self._open) < _DEPTH_MOST:
            self._open.append(local)
        elif not self.tolerant:
            raise _Fault(f"elements nested deeper than {_DEPTH_MOST}")
        if not foreign and local in form.fields:
            self._close()
            self._field, self._name, self._of = "", local, len(self._open)
        elif self._name != form.url:
            self._field = None
        elif foreign:
            self._close()
        if form.url is None and local == "link" and not foreign and attributes.get("rel", "alternate") == "alternate":
            self._loc = self._loc or attributes.get("href", "")[: self._longest + 1].strip()

    def _is_foreign(self, prefix: str) -> bool:
        """Return whether an element that starts here is not about the URL of an item."""
        if self._form is _LISTING:
            return prefix in _FOREIGN or not _FOREIGN.isdisjoint(self._open)
        if not self._item:
            return True
        inside = self._open[self._item :]
        return not _FOREIGN.isdisjoint(inside) if self.tolerant else bool(inside)

    def text(self, text: str) -> None:
        self.silent = 0
        if self._field is not None and self._form is not None:
            # One excess character is enough to reject the URL as too long.
            longest = _BARE_MOST if self._name in self._form.bare else self._longest
            if len(self._field) <= longest:
                self._field += text[: longest + 1]

    def end(self, name: str) -> None:
        self.silent = 0
        local = name.lower().rpartition(":")[2]
        if local not in self._open:
            return
        while self._open.pop() != local:
            pass
        if len(self._open) < self._of:
            self._close()
        if len(self._open) < self._item:
            self.flush()
            self._item = 0

    def _close(self) -> None:
        """Process a complete element whose text counts."""
        field, self._field = self._field, None
        if field is None or self._form is None:
            return
        if self._name in self._form.bare:
            urls = [text for text in field.split() if text.lower().startswith(("http://", "https://"))]
            if len(field) > _BARE_MOST:
                urls = urls[:-1]  # the last URL may be cut off
        elif self._name == self._form.url:
            urls = [field.strip()] if field.strip() else []
        else:
            self._texts[self._name] = field[:_FIELD_MOST]
            return
        for url in urls:
            if self._form is _LISTING:  # in a feed, the last link of an item counts
                self.flush()
            self._loc = url

    def flush(self) -> None:
        """List the URL of an item that is complete."""
        if self._loc:
            self._list(self._loc, *self._stated())
            self._texts.clear()
        self._loc = None

    def _stated(self) -> tuple[float | None, float, float, int]:
        """Return the item's priority, the bounds of its date, and its change frequency."""
        texts = self._texts
        if not texts or self._form is None:
            return None, 0.0, 0.0, 0
        date = next((texts[name] for name in self._form.dates if name in texts), None)
        begin, end = (0.0, 0.0) if date is None else parse_date(date)
        frequency = _FREQUENCIES.get(texts.get("changefreq", "").strip().lower(), 0)
        return _priority(texts.get("priority", "")), begin, end, frequency


class _Ended(Struct, frozen=True):
    """Why reading stopped early, and the setting that stopped it, if one did."""

    why: str
    limit: str | None = None


class _Odd(Exception):
    """A feature that no honest sitemap has."""


class _Fault(_Odd):
    """A fault after which a tolerant reader may find more."""


class _Limit(_Odd):
    """A setting's limit was exceeded."""

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
                    raise _Odd(f"more than {_MEMBERS_MOST} gzip members")
            yield stream.decompress(data, _PIECE)
            data = stream.unused_data.lstrip(b"\0") if stream.eof else stream.unconsumed_tail  # some files are padded
    while piece := stream.decompress(b"", _PIECE):
        yield piece
    if not stream.eof:
        raise zlib.error("the compressed data is cut off")


def _unescape(text: str) -> str:
    """Decode entities that end with a semicolon; others are parts of queries."""
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): _unescape("".join(values)) for name, *values in _ATTRIBUTE.findall(text)}


def parse_date(text: str) -> tuple[float, float]:
    """Return the times between which a date lies, as in sitemaps and Atom (W3C Date and Time Formats) or RSS (RFC 822),
    in seconds since 1970; 0 and 0 if it is invalid, or only a month or year."""
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

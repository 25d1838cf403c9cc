"""Determines the encoding of a page: byte order mark, HTTP header, ``<meta>``, XML declaration, windows-1252.

This is the order of the HTML Standard, 13.2.3 "The input byte stream", without the steps that need a user or a history.
A ``<meta>`` counts where Blink and WebKit find it: as a real tag, in the first ``PRESCAN_BYTES`` or in the head, up to
``HEAD_BYTES``. So pages never have to be read again in another encoding.

Labels and encodings come from the Encoding Standard (https://encoding.spec.whatwg.org/#names-and-labels); an unknown
label counts as absent.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from html import unescape

try:
    from crawler.base.native import compiled as _native
except ImportError:  # fall back to the Python code
    _stated_encoding = None
else:
    _stated_encoding = _native.stated_encoding

PRESCAN_BYTES = 1024  # bytes in which a `<meta>` counts even outside of the head (HTML Standard, 13.2.3.2)
HEAD_BYTES = 2**19  # maximum bytes of a head, which may contain long scripts; searching it takes at most 40 ms
FALLBACK = "windows-1252"
_DECODED_AT_ONCE = 2**20  # bytes of a document that are decoded at a time

# Name of the encoding, Python's codec for it, and its labels. Encodings that the standard maps to "replacement"
# (iso-2022-kr, hz-gb-2312 ...) are omitted, because no link can be read from them.
_ENCODINGS = """
utf-8 | utf-8 | unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8
ibm866 | cp866 | 866 cp866 csibm866 ibm866
iso-8859-2 | iso8859-2 | csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 \
l2 latin2
iso-8859-3 | iso8859-3 | csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 \
l3 latin3
iso-8859-4 | iso8859-4 | csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 \
l4 latin4
iso-8859-5 | iso8859-5 | csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 \
iso_8859-5:1988
iso-8859-6 | iso8859-6 | arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 \
iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
iso-8859-7 | iso8859-7 | csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 \
iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek
iso-8859-8 | iso8859-8 | csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 \
iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual
iso-8859-8-i | iso8859-8 | csiso88598i iso-8859-8-i logical
iso-8859-10 | iso8859-10 | csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6
iso-8859-13 | iso8859-13 | iso-8859-13 iso8859-13 iso885913
iso-8859-14 | iso8859-14 | iso-8859-14 iso8859-14 iso885914
iso-8859-15 | iso8859-15 | csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9
iso-8859-16 | iso8859-16 | iso-8859-16
koi8-r | koi8-r | cskoi8r koi koi8 koi8-r koi8_r
koi8-u | koi8-u | koi8-ru koi8-u
macintosh | mac-roman | csmacintosh mac macintosh x-mac-roman
windows-874 | cp874 | dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874
windows-1250 | cp1250 | cp1250 windows-1250 x-cp1250
windows-1251 | cp1251 | cp1251 windows-1251 x-cp1251
windows-1252 | cp1252 | ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 \
iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252 x-user-defined
windows-1253 | cp1253 | cp1253 windows-1253 x-cp1253
windows-1254 | cp1254 | cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 \
iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254
windows-1255 | cp1255 | cp1255 windows-1255 x-cp1255
windows-1256 | cp1256 | cp1256 windows-1256 x-cp1256
windows-1257 | cp1257 | cp1257 windows-1257 x-cp1257
windows-1258 | cp1258 | cp1258 windows-1258 x-cp1258
x-mac-cyrillic | mac-cyrillic | x-mac-cyrillic x-mac-ukrainian
gbk | gb18030 | chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk
gb18030 | gb18030 | gb18030
big5 | big5hkscs | big5 big5-hkscs cn-big5 csbig5 x-x-big5
euc-jp | euc-jp | cseucpkdfmtjapanese euc-jp x-euc-jp
iso-2022-jp | iso2022-jp | csiso2022jp iso-2022-jp
shift_jis | cp932 | csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis
euc-kr | cp949 | cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 \
ksc_5601 windows-949
utf-16be | utf-16-be | unicodefffe utf-16be
utf-16le | utf-16-le | csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le
"""


def _tables() -> tuple[dict[str, str], dict[str, str]]:
    names: dict[str, str] = {}
    codecs: dict[str, str] = {}
    for line in _ENCODINGS.strip().splitlines():
        name, codec, labels = (part.strip() for part in line.split("|"))
        codecs[name] = codec
        names.update(dict.fromkeys(labels.split(), name))
    return names, codecs


NAMES, _CODECS = _tables()

_ASCII_SPACE = "\t\n\f\r "

# A comment, a tag with its attributes, or any other markup. Quoted values are skipped, so that a ">" inside them does
# not end the tag. Markup that is cut off extends to the end of the bytes.
_ATTRIBUTE = rb"""
    [\t\n\f\r\ /]*+ (?P<name>[^\t\n\f\r\ />][^\t\n\f\r\ />=]*+)
    (?: [\t\n\f\r\ ]*+ = [\t\n\f\r\ ]*+
        (?P<value> "[^"]*+"? | '[^']*+'? | [^\t\n\f\r\ >"'][^\t\n\f\r\ >]*+ | ) )?+
"""
_UNNAMED = re.sub(rb"\?P<\w+>", rb"?:", _ATTRIBUTE)
_attributes = re.compile(_ATTRIBUTE, re.X)
_markup = re.compile(
    rb"<(?: !--(?:-?> | (?s:.)*?--!?> | (?s:.)*+)"
    rb" | (?P<end>/?)(?P<tag>[a-zA-Z][^\t\n\f\r\ />]*+) (?P<attributes>(?:"
    + _UNNAMED
    + rb")*+) [\t\n\f\r\ /]*+(?P<closed>>?+)"
    rb" | [!/?][^>]*+ )",
    re.X,
)
_OF_HEAD = frozenset(b"base link meta noscript object script style title".split())
_OPENS_HEAD = frozenset((b"html", b"head"))
_charset_in_content = re.compile(
    r"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\"'\t\n\f\r ;][^\t\n\f\r ;]*))", re.I
)

_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16le", b"\xfe\xff": "utf-16be"}
_WIDE_XML = {b"<\0?\0x\0": "utf-16le", b"\0<\0?\0x": "utf-16be"}
_WIDE = {b"<\0": "utf-16le", b"\0<": "utf-16be"}
_XML_DECLARATION = re.compile(rb"""\s*+<\?xml\s[^>]*?\sencoding\s*+=\s*+["']([^"'>]*+)""")
# The algorithm "get an XML encoding" for HTML (HTML Standard, 13.2.3.2).
_XML_ENCODING = re.compile(rb"""<\?xml(?:(?!encoding)[^>])*+encoding[\0-\ ]*+=[\0-\ ]*+(["'])([^\0-\ >]*?)\1[^>]*+>""")


def sniff_encoding(body: bytes, charset: str | None) -> str:
    """Return the encoding of an HTML page, as browsers determine it: a name of the Encoding Standard in lower case.

    ``charset`` is the label in the Content-Type header. If a ``<meta>`` names UTF-16, the result is utf-8, because the
    element could not have been read otherwise."""
    certain = _mark(body) or (None if charset is None else encoding_name(charset)) or _WIDE_XML.get(body[:6])
    if certain is not None:
        return certain
    head = body[:HEAD_BYTES]
    stated = stated_encoding(head) if _stated_encoding is None else _stated_encoding(head, PRESCAN_BYTES, _meaning)
    if stated is None and (declared := _XML_ENCODING.match(head)) is not None:
        stated = _readable(declared[2].decode("latin-1"))
    return stated or FALLBACK


def sniff_xml_encoding(head: bytes, charset: str | None) -> str:
    """Return the encoding of an XML document or a plain text that starts with ``head``, in the form of
    ``sniff_encoding``. It is taken from the byte order mark, or else the HTTP header (RFC 7303, 3), or else the XML
    declaration or its bytes; otherwise it is UTF-8."""
    wide = _mark(head) or _WIDE.get(head[:2])
    if wide is not None:
        return wide
    stated = _XML_DECLARATION.match(head)
    for label in (charset, None if stated is None else stated[1].decode("latin-1")):
        name = None if label is None else encoding_name(label)
        if name is not None and not name.startswith("utf-16"):  # UTF-16 would be visible in the bytes above
            return name
    return "utf-8"


def _mark(body: bytes) -> str | None:
    """Return the encoding of the byte order mark, or None."""
    return _MARKS.get(body[:3]) or _MARKS.get(body[:2])


def python_codec(encoding: str) -> str:
    """Return Python's codec for a name from ``sniff_encoding``. Raises KeyError for any other."""
    return _CODECS[encoding]


def as_utf8(body: bytes, encoding: str) -> bytearray:
    """Return a document in UTF-8. A large one is converted in pieces, because one string could take four times the
    memory."""
    decoder = codecs.getincrementaldecoder(python_codec(encoding))("replace")
    html = bytearray()
    for at in range(0, len(body), _DECODED_AT_ONCE):
        final = at + _DECODED_AT_ONCE >= len(body)
        html += decoder.decode(body[at : at + _DECODED_AT_ONCE], final).encode("utf-8", "replace")
    return html


@lru_cache(maxsize=256)
def encoding_name(label: str) -> str | None:
    """Return the encoding that a label names; None if the label is unknown."""
    return NAMES.get(label.strip(_ASCII_SPACE).lower())


def stated_encoding(head: bytes) -> str | None:
    """Return the encoding from the first ``meta`` element of a page's head."""
    from crawler.web.links.scan_tags import end_of_raw_text  # noqa: PLC0415, its patterns are large and often unused

    at, in_head = 0, True
    while (markup := _markup.search(head, at)) is not None and (in_head or markup.start() < PRESCAN_BYTES):
        at = markup.end()
        if markup["tag"] is None:
            continue
        tag, begins = markup["tag"].lower(), not markup["end"]
        in_head = in_head and (tag in _OF_HEAD or (begins and tag in _OPENS_HEAD))
        if not begins:
            continue
        if tag == b"meta" and markup["closed"] and (name := _meta_encoding(markup["attributes"])) is not None:
            return name
        end = end_of_raw_text(tag, head, at)
        if end is None:
            return None
        at = end
    return None


def _meta_encoding(text: bytes) -> str | None:
    attributes: dict[str, str] = {}
    for found in _attributes.finditer(text):
        value = (found["value"] or b"").decode("latin-1")
        if value[:1] in ('"', "'"):
            value = value.strip(value[0])
        attributes.setdefault(found["name"].decode("latin-1").lower(), value)
    return _meaning(attributes.get("charset"), attributes.get("http-equiv"), attributes.get("content"))


def _meaning(label: str | None, pragma: str | None, content: str | None) -> str | None:
    """Return the encoding that a ``meta`` element states: in its ``charset``, or in the ``content`` of a Content-Type.
    The values are as written."""
    if label is None:
        if pragma is None or content is None or unescape(pragma).lower() != "content-type":
            return None
        stated = _charset_in_content.search(unescape(content))
        if stated is None:
            return None
        label = stated[1] or stated[2] or stated[3] or ""
    return _readable(unescape(label))


def _readable(label: str) -> str | None:
    """Return the encoding for a label that was read as ASCII: UTF-8 if the label names UTF-16."""
    name = encoding_name(label)
    return "utf-8" if name in ("utf-16le", "utf-16be") else name

"""Which encoding a page is in, against html5lib, and its bytes against Python's codecs.

Labels, byte order marks and meta elements are made, broken and moved. Whatever encoding is found, any bytes have a text
in it.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import webencodings
from html5lib._inputstream import HTMLBinaryInputStream
from webencodings.labels import LABELS

from crawler.web.links.encoding import FALLBACK, PRESCAN_BYTES, python_codec, sniff_encoding, stated_encoding

_LABELS = (
    *LABELS,
    *("utf-7", "nonsense", "", " utf-8 ", "\tUTF-8\n", "utf_8", "x-user-defined", "replacement", "hz-gb-2312"),
)
_PIECES = (
    *("<meta ", "<META\n", "<meta/", "charset=", "CHARSET = ", "http-equiv=", "content=", "content-type"),
    *("text/html;", "'", '"', ">", "/>", " ", "/", "<", "<!--", "-->", "--!>", "<!-->", "<!doctype html>"),
    *("<?xml ?>", "</p ", "<p ", "<a b=", "charset", "=", ";", "a", "<title>", "<script>", "</script>", "\x00"),
    *("\x0c", "<metadata ", "<svg>", "é", "<!", "</", "</>"),
)
_SPACE = b"\t\n\f\r "
_TAG_END = b"/" + _SPACE + b">"
# Comments that end as they begin, tags in which a "<" stands, "</>", names that begin as "meta" does, and a byte order
# mark of UTF-32: html5lib differs from the standard.
_HTML5LIB_DIFFERS = re.compile(rb"<!--?-?>|<[^>]*<|</>|<meta[^\t\n\f\r />]|\A\xff\xfe\0\0", re.I)
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb", b"\xff")


class Case(NamedTuple):
    """A body and the charset of its header."""

    body: bytes
    charset: str | None


def make(chance: random.Random) -> Case:
    """A head with a declaration somewhere, or of pieces of declarations, and noise behind it."""
    charset = chance.choice(_LABELS) if chance.random() < 0.3 else None
    mark = chance.choice(_MARKS) if chance.random() < 0.1 else b""
    head = "".join(_piece(chance) for _ in range(chance.randrange(12)))
    if chance.random() < 0.1:
        head = " " * chance.randrange(PRESCAN_BYTES + 10) + head
    return Case(mark + head.encode() + chance.randbytes(chance.randrange(40)), charset)


def _piece(chance: random.Random) -> str:
    match chance.randrange(6):
        case 0:
            return chance.choice(_LABELS)
        case 1:
            quote = chance.choice(("", "'", '"'))
            return f"<meta charset={quote}{chance.choice(_LABELS)}{quote}>"
        case 2:
            return f'<meta http-equiv=content-type content="text/html; charset={chance.choice(_LABELS)}">'
        case _:
            return chance.choice(_PIECES)


def check(case: Case) -> str:
    """The same encoding, with the module and without it, and a text."""
    found = sniff_encoding(case.body, case.charset)
    text = case.body.decode(python_codec(found), "replace")
    text.encode()  # no lone surrogate
    wanted = reference(case)
    assert found == wanted, f"{found}, not {wanted}"
    stated = stated_encoding(case.body[:PRESCAN_BYTES])
    assert stated == Prescan(case.body[:PRESCAN_BYTES]).run(), f"without the module: {stated}"
    if not _HTML5LIB_DIFFERS.search(case.body):
        other = html5(case)
        # A page of this encoding is not read at all by browsers, and by us as if its label were unknown.
        assert other in (found, "replacement", "x-user-defined"), f"{found}, not {other} of html5lib"
    return found


def html5(case: Case) -> str:
    """What html5lib finds."""
    stream = HTMLBinaryInputStream(case.body, transport_encoding=case.charset, useChardet=False)
    return str(stream.charEncoding[0].name)


def reference(case: Case) -> str:
    """The HTML Standard, 13.2.3, step by step."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be")):
        if case.body.startswith(mark):
            return name
    stated = None if case.charset is None else _encoding(case.charset)
    return stated or Prescan(case.body[:PRESCAN_BYTES]).run() or FALLBACK


def _encoding(label: str) -> str | None:
    found = webencodings.lookup(label.encode("ascii", "replace").decode())
    return None if found is None or found.name in ("replacement", "x-user-defined") else str(found.name)


class Prescan:
    """The algorithms of 13.2.3.2, one byte after the other."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._at = 0

    def run(self) -> str | None:
        """The encoding that a meta element names."""
        while self._at < len(self._head):
            if self._is(b"<!--"):
                end = self._head.find(b"-->", self._at + 2)
                self._at = len(self._head) if end < 0 else end + 2
            elif self._is(b"<meta") and self._byte(5) in _TAG_END[:6] and self._byte(5):
                self._at += 5
                if (name := self._meta()) is not None:
                    return name
            elif re.match(rb"</?[A-Za-z]", self._head[self._at :]):
                while self._byte() and self._byte() not in _TAG_END[1:]:
                    self._at += 1
                while self._attribute() is not None:
                    pass
            elif self._byte() == b"<" and self._byte(1) and self._byte(1) in b"!/?":
                end = self._head.find(b">", self._at)
                self._at = len(self._head) if end < 0 else end
            self._at += 1
        return None

    def _is(self, text: bytes) -> bool:
        return self._head[self._at : self._at + len(text)].lower() == text

    def _byte(self, ahead: int = 0) -> bytes:
        return self._head[self._at + ahead : self._at + ahead + 1]

    def _meta(self) -> str | None:
        attributes: dict[bytes, bytes] = {}
        pragma, need, charset = False, None, b""
        while (attribute := self._attribute()) is not None:
            name, value = attribute
            if name in attributes:
                continue
            attributes[name] = value
            if name == b"http-equiv" and value == b"content-type":
                pragma = True
            elif name == b"content" and need is None and (label := _label_in_content(value)) is not None:
                if _encoding(label) is not None:
                    charset, need = label.encode("latin-1"), True
            elif name == b"charset":
                charset, need = value, False
        if not self._byte() or need is None or (need and not pragma):
            return None
        found = _encoding(charset.decode("latin-1"))
        return "utf-8" if found in ("utf-16le", "utf-16be") else found

    def _attribute(self) -> tuple[bytes, bytes] | None:
        while self._byte() and self._byte() in _SPACE + b"/":
            self._at += 1
        if self._byte() in (b"", b">"):
            return None
        name = value = b""
        while True:
            byte = self._byte()
            if byte == b"=" and name:
                break
            if byte and byte in _SPACE:
                while self._byte() and self._byte() in _SPACE:
                    self._at += 1
                if self._byte() != b"=":
                    return name, b""
                break
            if byte in (b"", b"/", b">"):
                return name, b""
            name += byte.lower()
            self._at += 1
        self._at += 1
        while self._byte() and self._byte() in _SPACE:
            self._at += 1
        if self._byte() in (b'"', b"'"):
            end = self._head.find(self._byte(), self._at + 1)
            end = len(self._head) if end < 0 else end
            value, self._at = self._head[self._at + 1 : end].lower(), end + 1
            return name, value
        while self._byte() and self._byte() not in _SPACE + b">":
            value += self._byte().lower()
            self._at += 1
        return name, value


def _label_in_content(value: bytes) -> str | None:
    text = value.decode("latin-1")
    while "charset" in text:
        text = text.partition("charset")[2].lstrip(_SPACE.decode())
        if text[:1] != "=":
            continue
        text = text[1:].lstrip(_SPACE.decode())
        if text[:1] in ("'", '"'):
            return text[1:].partition(text[0])[0] if text[0] in text[1:] else None
        return re.split(r"[\t\n\f\r ;]", text, maxsplit=1)[0]
    return None

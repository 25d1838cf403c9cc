"""Which encoding a page is in, against html5lib, and its bytes against Python's codecs.

Labels, byte order marks and meta elements are made, broken and moved. Whatever encoding is found, any bytes have a text
in it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import NamedTuple

import webencodings
from html5lib._tokenizer import HTMLTokenizer
from html5lib.constants import tokenTypes
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
    *(
        "\x0c",
        "<metadata ",
        "<svg>",
        "é",
        "<!",
        "</",
        "</>",
        "</title>",
        "<style>",
        "</style>",
        "<p>",
        "</head>",
        "&#45;",
    ),
    *("<?xml ", "<?xml encoding=", "encoding", "?>"),
)
_SPACE = "\t\n\f\r "
# States of html5lib's tokeniser, by the elements that bring it there.
_STATES = {
    **dict.fromkeys(("title", "textarea"), "rcdataState"),
    **dict.fromkeys(("iframe", "noembed", "noframes", "style", "xmp"), "rawtextState"),
    "script": "scriptDataState",
    "plaintext": "plaintextState",
}
_XML = re.compile(rb"""<\?xml((?!encoding)[^>])*encoding[\0-\ ]*=[\0-\ ]*(["'])(?P<label>[^\0-\ >]*?)\2[^>]*>""")
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
    page = b" " + case.body  # no mark, and no XML declaration, is in front of it
    alone = stated_encoding(page) or FALLBACK
    assert sniff_encoding(page, None) == alone, f"without the module: {alone}"
    if len(case.body) <= PRESCAN_BYTES:  # where every tag counts, in the head or not
        wanted = reference(case)
        assert found == wanted, f"{found}, not {wanted}"
    return found


def reference(case: Case) -> str:
    """The HTML Standard, 13.2.3, step by step, with the tokens of html5lib in place of the prescan."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be")):
        if case.body.startswith(mark):
            return name
    stated = None if case.charset is None else _encoding(case.charset)
    return stated or _stated(case.body) or _declared(case.body) or FALLBACK


def _encoding(label: str) -> str | None:
    found = webencodings.lookup(label.encode("ascii", "replace").decode())
    if found is None or found.name == "replacement":
        return None
    return FALLBACK if found.name == "x-user-defined" else str(found.name)


def _narrow(label: str) -> str | None:
    found = _encoding(label)
    return "utf-8" if found in ("utf-16le", "utf-16be") else found


def _stated(body: bytes) -> str | None:
    """What the first meta element states that states something."""
    tokeniser = HTMLTokenizer(body.decode("latin-1"))
    for token in tokeniser:
        if token["type"] != tokenTypes["StartTag"]:
            continue
        if token["name"] in _STATES:
            tokeniser.state = getattr(tokeniser, _STATES[token["name"]])
        if token["name"] == "meta" and (name := _of_meta(token["data"])) is not None:
            return name
    return None


def _of_meta(attributes: Mapping[str, str]) -> str | None:
    if "charset" in attributes:
        return _narrow(attributes["charset"])
    if attributes.get("http-equiv", "").lower() != "content-type":
        return None
    label = _label_in_content(attributes.get("content", "").lower())
    return None if label is None else _narrow(label)


def _declared(body: bytes) -> str | None:
    found = _XML.match(body)
    return None if found is None else _narrow(found["label"].decode("latin-1"))


def _label_in_content(text: str) -> str | None:
    while "charset" in text:
        text = text.partition("charset")[2].lstrip(_SPACE)
        if text[:1] != "=":
            continue
        text = text[1:].lstrip(_SPACE)
        if text[:1] in ("'", '"'):
            return text[1:].partition(text[0])[0] if text[0] in text[1:] else None
        return re.split(r"[\t\n\f\r ;]", text, maxsplit=1)[0]
    return None

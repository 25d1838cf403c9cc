"""The tags of a page that can matter to a crawler, found in one pass without a tree.

This is for pages whose tree would cost too much: for each start tag, the parser may search all open elements; for each
attribute, the earlier ones; and for each paragraph, it may copy all open formatting elements (16 KB can take half a
gigabyte). This pass follows the tokeniser of the HTML Standard (13.2.5) with one regular expression that never
backtracks, skips comments, raw text, templates and all other elements, and yields the start tags of interest as bytes.
Only these are passed to the parser. Time and memory are linear in the page, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from html import unescape

from crawler.web.links.embedded import TAGS

MAX_ATTRIBUTES = 256  # start tags with more attributes are ignored ...
MAX_TAG = 256 * 1024  # ... and so are those with more bytes
MAX_TITLE = 16 * 1024  # bytes of a title's text that are read

_SPACE = rb"\t\n\f\r\ "
_ATTRIBUTE = rb"""
    [^%(s)s/>][^%(s)s/>=]*+
    (?: [%(s)s]*+ = [%(s)s]*+ (?: "[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z) | [^%(s)s>"'][^%(s)s>]*+ | (?=>) ) )?+
""" % {b"s": _SPACE}
_REST = rb"(?: [%(s)s/]++ | %(attribute)s )*+ >" % {b"s": _SPACE, b"attribute": _ATTRIBUTE}
_RAW_TEXT = rb"script|style|textarea|title|xmp|iframe|noembed|noframes|plaintext"
_LINKS = rb"a|area|base|frame|html|link|meta|/?template"
_EMBEDDED = b"|".join(tag.encode("ascii") for tag in TAGS)


def _stepper(names: bytes) -> re.Pattern[bytes]:
    """Return a pattern that skips everything up to the next tag of these names."""
    wanted = rb"(?i:%(names)s|%(raw)s)(?=[%(s)s/>])" % {b"names": names, b"raw": _RAW_TEXT, b"s": _SPACE}
    return re.compile(_STEP % {b"wanted": wanted, b"rest": _REST, b"s": _SPACE}, re.X)


_STEP = rb"""
    (?: [^<]++
      | < (?: (?!%(wanted)s) /?+ [a-zA-Z] [^%(s)s/>]*+ %(rest)s
            | !-- (?: -?+> | (?: [^-]++ | -(?!-!?+>) )*+ (?: --!?+> | \Z ) )
            | (?: [!?] | /(?![a-zA-Z]) ) [^>]*+ >?+
            | (?![a-zA-Z!?/]) )
    )*+
    (?P<tag> < (?P<name> %(wanted)s ) %(rest)s )
    """
_step = _stepper(_LINKS)
_step_embedded = _stepper(_LINKS + b"|" + _EMBEDDED)
_step_any = _stepper(rb"/?template|[a-zA-Z][^%(s)s/>]*+" % {b"s": _SPACE})
_attribute = re.compile(_ATTRIBUTE, re.X)
_raw_text_end = {
    name: re.compile(rb"</%b(?=[%b/>])" % (name, _SPACE), re.I)
    for name in _RAW_TEXT.split(b"|")
    if name != b"plaintext"
}
_script_mark = re.compile(rb"<!--|-->|</?script(?=[%b/>])" % _SPACE, re.I)


def link_tags(html: bytes | bytearray, *, embedded: bool = False) -> Iterator[bytes]:
    """Yield the start tags of ``a``, ``area``, ``base``, ``frame``, ``iframe``, ``link`` and ``meta``, in document
    order; with ``embedded`` also those of elements that embed resources. Also yield the first one of ``html``, and the
    first ``title`` with its text.

    ``html`` is in any encoding that keeps ASCII bytes as they are (UTF-8 does)."""
    raw = (b"iframe", b"script") if embedded else (b"iframe",)
    return _tags(html, (_step_embedded if embedded else _step).match, raw)


def all_tags(html: bytes | bytearray) -> Iterator[bytes]:
    """Yield all start tags of a document in the same encodings."""
    return _tags(html, _step_any.match, _raw_text_end)


def attributes_of_tag(tag: bytes) -> dict[str, str]:
    """Return the attributes of a start tag in UTF-8, by their names in lower case; for a repeated name the first one.
    The tag name is included too, without a value."""
    found: dict[str, str] = {}
    for part in _attribute.finditer(tag, 1):
        name, _, value = part[0].partition(b"=")
        text = value.strip(b"\t\n\f\r ")
        if text[:1] in (b'"', b"'"):
            text = text.strip(text[:1])
        found.setdefault(name.strip().decode("utf-8", "replace").lower(), unescape(text.decode("utf-8", "replace")))
    return found


def _tags(
    html: bytes | bytearray, step_of: Callable[[bytes | bytearray, int], re.Match[bytes] | None], raw: Container[bytes]
) -> Iterator[bytes]:
    position = 0
    templates = 0  # number of open templates, whose content belongs to no page until a script copies it
    once = {b"html", b"title"}
    while (step := step_of(html, position)) is not None:
        position = step.end()
        name = bytes(step["name"]).lower()
        if name == b"template":
            templates += 1
        elif name == b"/template":
            templates = max(0, templates - 1)
        elif name == b"plaintext":
            return
        elif name in _raw_text_end:
            if name in raw and not (name == b"title" and name in once) and not templates and _is_bounded(step):
                yield bytes(step["tag"])
            end = end_of_raw_text(name, html, position)
            if name in once and not templates and _is_bounded(step):
                once.discard(name)
                behind = len(html) if end is None else end
                text = html[position : min(behind, position + MAX_TITLE)]
                yield b"%b%b</title>" % (bytes(step["tag"]), bytes(text))
            if end is None:
                return
            position = end
        elif not templates and _is_bounded(step) and (name != b"html" or name in once):
            once.discard(name)
            yield bytes(step["tag"])


def end_of_raw_text(name: bytes, html: bytes | bytearray, position: int) -> int | None:
    """Return where the end tag of an element starts, given its name in lower case and the end of its start tag;
    ``position`` itself if it may contain markup, None if its text extends to the end of the page."""
    if name == b"plaintext":
        return None
    if name not in _raw_text_end:
        return position
    end = _script_end(html, position) if name == b"script" else _raw_text_end[name].search(html, position)
    return None if end is None else end.start()


def _script_end(html: bytes | bytearray, position: int) -> re.Match[bytes] | None:
    """Find the end tag of a script. After ``<!--``, a script may contain another script with its own end tag (13.2.5.15
    to 13.2.5.31)."""
    escaped = inner = False
    while (mark := _script_mark.search(html, position)) is not None:
        position = mark.end()
        match bytes(mark[0]).lower():
            case b"<!--":
                escaped = True
                position -= 2  # "<!-->" is both a start and an end
            case b"-->":
                escaped = inner = False
            case b"<script":
                inner = escaped
            case _ if inner:
                inner = False
            case _:
                return mark
    return None


def _is_bounded(step: re.Match[bytes]) -> bool:
    length = step.end("tag") - step.start("tag")
    if length <= 2 * MAX_ATTRIBUTES:
        return True
    return length <= MAX_TAG and sum(1 for _ in _attribute.finditer(step["tag"])) <= MAX_ATTRIBUTES

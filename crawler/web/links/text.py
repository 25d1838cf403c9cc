"""The text of a page that a reader may see, for comparing two visits to the page.

It is the content outside tags, without comments, scripts, style sheets and templates; a tag separates words, and white
space is folded. So invisible differences between visits (a nonce, the address of an advertisement, a new build of the
scripts) are ignored. Text that a style sheet hides counts, and so does a clock on the page.

No tree is built: regular expressions that never backtrack remove the markup, piece by piece, in time and memory linear
in the page. Where only a tree could identify the markup, two visits to the same page are treated alike.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from functools import lru_cache
from hashlib import blake2b

from crawler.web.links.encoding import as_utf8, sniff_encoding

DIGEST_SIZE = 16
_PIECE = 256 * 1024  # bytes read at a time, which takes a few milliseconds
HIDDEN_MOST = 10_000  # scripts, comments and other hidden parts of one page that are removed
_DEAR = 1_024  # the fixed cost of a piece, as the bytes of text that take as long
_KINDS = {b"!--": rb"-->"} | {name: rb"</(?i:%b)[^>]*+(?:>|\Z)" % name for name in (b"script", b"style", b"template")}
_ends = {name: re.compile(end) for name, end in _KINDS.items()}
_tag = re.compile(rb"""<[/!?a-zA-Z](?:[^>"']++|"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))*+(?:>|\Z)""")
# Encodings in which bytes below 128 may be part of other characters.
_WIDE = frozenset(("utf-16le", "utf-16be", "iso-2022-jp"))


def text_digest(body: bytes, charset: str | None) -> Generator[None, None, bytes | None]:
    """Return a digest of the text of a page, or None if it has none. ``charset`` is the label in its Content-Type
    header. The work may be interrupted at each yield."""
    encoding = sniff_encoding(body, charset)
    html = as_utf8(body, encoding) if encoding in _WIDE else body
    digest, found, read = blake2b(digest_size=DIGEST_SIZE), False, 0
    for piece in _visible(html):
        words = _tag.sub(b" ", piece).split()
        if words:
            found = True
            digest.update(b" ".join(words) + b" ")
        read += _DEAR + len(piece)
        if read > _PIECE:
            read = 0
            yield
    return digest.digest() if found else None


def _visible(html: bytes | bytearray) -> Iterator[bytes | bytearray]:
    """Yield the page without its hidden parts except tags, in pieces that end before a tag."""
    at, hidden, kinds = 0, 0, frozenset(_KINDS)
    while at < len(html):
        end = at + _PIECE
        tag = html.rfind(b"<", at + 1, end) if end < len(html) else -1
        end = min(len(html), end) if tag < 0 else tag
        begin = _begin(kinds).search(html, at, end) if kinds and hidden < HIDDEN_MOST else None
        if begin is None:
            yield html[at:end]
            at = end
            continue
        hidden += 1
        yield html[at : begin.start()]
        kind = bytes(begin[1]).lower()
        close = _ends[kind].search(html, begin.end())
        if close is None:
            kinds -= {kind}  # if a hidden part has no end, do not look for others of its kind
        at = begin.end() if close is None else close.end()


@lru_cache(maxsize=16)
def _begin(kinds: frozenset[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that matches the start of hidden parts of these kinds."""
    return re.compile(
        b"<(" + b"|".join(sorted(b"!--" if kind == b"!--" else rb"(?i:%b)(?=[\s/>])" % kind for kind in kinds)) + b")"
    )

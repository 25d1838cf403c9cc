"""What is taken out of a page: its main text, as text or Markdown, and its structured data; and the rows of both.

What is asked of the processes that extract, and what they answer, is MessagePack. A process read a stranger's page, so
the crawler trusts its answers no more than that page.
"""

from __future__ import annotations

from enum import IntFlag
from hashlib import sha256
from json.encoder import encode_basestring as quoted
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from crawler.web.parsing.wire import label_bytes

BYTES_MOST = 4 * 2**20  # of a text; what is longer is cut
# Line ends for some readers of lines, which JSON leaves as they are.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# The values are not made: they may take many times the room.
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_Short = Annotated[str, Meta(max_length=200)]


class Forms(IntFlag):
    """What is wanted of a page."""

    TEXT = 1
    MARKDOWN = 2
    STRUCTURED = 4


class Extracted(Struct, frozen=True):
    """What was taken out of a page. ``text``, ``markdown`` and ``structured`` are None if they were not wanted.

    ``language``: the one that the text is written in, if it can be told: a code of ISO 639, of two letters if there is
    one. ``structured``: an object of JSON on one line, the members of the page's row. ``extractor``: its name and
    version. ``cut``: a part is longer than what is kept.
    """

    text: str | None = None
    markdown: str | None = None
    structured: bytes | None = None
    language: _Short | None = None
    extractor: _Short = ""
    cut: bool = False


_EXTRACTED = msgspec.msgpack.Decoder(Extracted)


class NoText(Struct, frozen=True):
    """A page has no text because it could not be extracted: why."""

    reason: str


def encode_asked(forms: Forms, url: str, charset: str | None) -> bytes:
    """What is asked of a page."""
    return msgspec.msgpack.encode((int(forms), url, label_bytes(charset)))


def decode_asked(stated: bytes) -> tuple[Forms, str, str | None]:
    """The inverse of ``encode_asked``."""
    forms, url, label = msgspec.msgpack.decode(stated, type=tuple[int, str, bytes | None])
    return Forms(forms), url, None if label is None else label.decode("utf-8", "replace")


def encode_text(found: Extracted) -> bytes:
    """What was taken out of a page."""
    named = {"text": found.text, "markdown": found.markdown}
    texts = {
        name: text.replace("\0", "").encode("utf-8", "replace") for name, text in named.items() if text is not None
    }
    cut = found.cut or any(len(text) > BYTES_MOST for text in texts.values())
    kept = {name: text[:BYTES_MOST].decode("utf-8", "ignore") for name, text in texts.items()}
    return msgspec.msgpack.encode(replace(found, cut=cut, **kept))


def decode_text(parts: list[bytes]) -> Extracted:
    """The inverse of ``encode_text``; raises an exception if that is none."""
    found = _EXTRACTED.decode(parts[-1])
    structured = found.structured or b"{}"
    if max(map(len, (found.text or "", found.markdown or "", structured))) > BYTES_MOST:
        raise ValueError("it is too long")
    if b"\n" in structured or b"\r" in structured:
        raise ValueError("its structured data are more than one line")
    _MEMBERS.decode(structured)
    return found


class About(Struct, frozen=True):
    """What the row of a page says besides its text; ``fetched_at`` as in its record. ``whole``: the page is."""

    url: str
    fetched_at: str
    title: str | None
    language: str | None
    whole: bool = True


def text_row(about: About, found: Extracted | NoText) -> bytes:
    """The row of a page."""
    row = f'{{"url":{_json(about.url)},"fetched_at":{_json(about.fetched_at)}'
    if about.title is not None:
        row += f',"title":{_json(about.title)}'
    if about.language is not None:
        row += f',"language":{_json(about.language)}'
    if not isinstance(found, NoText) and found.language is not None:
        row += f',"detected_language":{_json(found.language)}'
    if isinstance(found, NoText):
        return f'{row},"error":{_json(found.reason)}}}\n'.encode("utf-8", "replace")
    if found.text is not None:
        row += f',"text":{_json(found.text)}'
    if found.markdown is not None:
        row += f',"markdown":{_json(found.markdown)}'
    if found.cut or not about.whole:
        row += ',"cut":true'
    row += f',"extractor":{_json(found.extractor)}'
    digest = sha256((found.text if found.text is not None else found.markdown or "").encode("utf-8", "replace"))
    return f'{row},"digest":"sha256:{digest.hexdigest()}"}}\n'.encode("utf-8", "replace")


def structured_row(about: About, found: Extracted | NoText) -> bytes:
    """The row of the structured data of a page."""
    head: dict[str, Any] = {"url": about.url, "fetched_at": about.fetched_at}
    if isinstance(found, NoText):
        members: dict[str, Any] = {"error": found.reason.encode("utf-8", "replace").decode()}
    else:
        members = _MEMBERS.decode(found.structured or b"{}") | ({} if about.whole else {"cut": True})
    return _one_line(msgspec.json.encode(head | members | head).decode()).encode() + b"\n"


def gone_row(url: str, fetched_at: str) -> bytes:
    """The row of a page that is not there any more."""
    return f'{{"url":{_json(url)},"fetched_at":{_json(fetched_at)},"gone":true}}\n'.encode("utf-8", "replace")


def _json(text: str) -> str:
    return _one_line(quoted(text))


def _one_line(row: str) -> str:
    for end, escaped in _LINE_ENDS.items():
        row = row.replace(end, escaped)  # a tenth of what ``translate`` costs
    return row

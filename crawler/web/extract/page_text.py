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
from msgspec import Meta, Struct

from crawler.web.parsing.wire import label_bytes

BYTES_MOST = 4 * 2**20  # of a text; what is longer is cut
# Line ends for some readers of lines, which JSON leaves as they are.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_Short = Annotated[str, Meta(max_length=200)]
_Bytes = bytes | None
# The parts of what was extracted, the texts as UTF-8 and the structured data as JSON.
_SENT = msgspec.msgpack.Decoder(tuple[_Bytes, _Bytes, _Bytes, _Short | None, _Short, bool])


class Forms(IntFlag):
    """What is wanted of a page."""

    TEXT = 1
    MARKDOWN = 2
    STRUCTURED = 4


class Extracted(Struct, frozen=True):
    """What was taken out of a page. ``text``, ``markdown`` and ``structured`` are None if they were not wanted.

    ``language``: the one that the text is written in, if it can be told: a code of ISO 639, of two letters if there is
    one. ``structured``: an object of JSON, the members of the page's row. ``extractor``: its name and version.
    ``cut``: a part is longer than what is kept.
    """

    text: str | None = None
    markdown: str | None = None
    structured: dict[str, Any] | None = None
    language: str | None = None
    extractor: str = ""
    cut: bool = False


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
    """What was taken out of a page. Structured data that is too long is left out whole."""
    parts = [
        None if text is None else text.replace("\0", "").encode("utf-8", "replace")
        for text in (found.text, found.markdown)
    ]
    structured = None if found.structured is None else msgspec.json.encode(found.structured)
    cut = found.cut or any(len(part or b"") > BYTES_MOST for part in (*parts, structured))
    if structured is not None and len(structured) > BYTES_MOST:
        structured = b"{}"
    sent = [None if part is None else _whole(part) for part in parts]
    return msgspec.msgpack.encode((*sent, structured, found.language, found.extractor, cut))


def _whole(data: bytes) -> bytes:
    """So much of the text as is kept, without a last character that is cut."""
    return data if len(data) <= BYTES_MOST else data[:BYTES_MOST].decode("utf-8", "ignore").encode()


def decode_text(parts: list[bytes]) -> Extracted:
    """The inverse of ``encode_text``; raises an exception if that is none."""
    text, markdown, structured, language, extractor, cut = _SENT.decode(parts[-1])
    if max(len(part or b"") for part in (text, markdown, structured)) > BYTES_MOST:
        raise ValueError("it is too long")
    return Extracted(
        None if text is None else text.decode(),
        None if markdown is None else markdown.decode(),
        None if structured is None else msgspec.json.decode(structured, type=dict[str, Any]),
        language,
        extractor,
        cut,
    )


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


def _json(text: str) -> str:
    row = quoted(text)
    for end, escaped in _LINE_ENDS.items():
        row = row.replace(end, escaped)  # a tenth of what ``translate`` costs
    return row

"""What is taken out of a page: its main text, as text or Markdown, and its structured data; and the rows of both.

    request    REQUEST of ``crawler.web.parsing.wire``: ``Forms`` as the kind, the URL of the page as the settings, and
               the seconds of CPU time
    answer     TEXT: what there is besides the parts, as JSON; a line feed; the parts, with a NUL between them

The process read a stranger's page, so the crawler trusts its answers no more than that page.
"""

from __future__ import annotations

import json
from enum import IntFlag
from hashlib import sha256
from json.encoder import encode_basestring as quoted
from typing import Any

import msgspec
from msgspec import Raw, Struct

from crawler.web.parsing.wire import NO_CHARSET, REQUEST, WireError

BYTES_MOST = 4 * 2**20  # of a text; what is longer is cut
_CHARSET_MOST = 1_000
# Line ends for some readers of lines, which JSON leaves as they are.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# The values are not made: they may take many times the room.
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_SHORT_MOST = 200  # characters of a language, and of an extractor


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
    language: str | None = None
    extractor: str = ""
    cut: bool = False


class NoText(Struct, frozen=True):
    """A page has no text because it could not be extracted: why. ``traceback``: where, if an exception was raised."""

    reason: str
    traceback: str | None = None


def text_request(forms: Forms, seconds: float, url: str, charset: str | None, size: int) -> bytes:
    """The head of a request; the body follows it."""
    stated, label = url.encode("utf-8", "replace"), (charset or "").encode("utf-8", "replace")[:_CHARSET_MOST]
    return (
        REQUEST.pack(forms, seconds, len(stated), NO_CHARSET if charset is None else len(label), size) + stated + label
    )


def encode_text(found: Extracted) -> bytes:
    """What was taken out of a page, as a payload."""
    named = {"text": found.text, "markdown": found.markdown}
    parts = {
        name: text.replace("\0", "").encode("utf-8", "replace") for name, text in named.items() if text is not None
    }
    cut = found.cut or any(len(part) > BYTES_MOST for part in parts.values())
    parts = {name: _whole(part) for name, part in parts.items()}
    if found.structured is not None:
        parts["structured"] = found.structured
    head = {"parts": list(parts), "cut": cut, "language": found.language, "extractor": found.extractor}
    return json.dumps(head).encode() + b"\n" + b"\0".join(parts.values())


def _whole(data: bytes) -> bytes:
    """So much of the text as is kept, without a last character that is cut."""
    return data if len(data) <= BYTES_MOST else data[:BYTES_MOST].decode("utf-8", "ignore").encode()


def decode_text(payload: bytes) -> Extracted:
    """The inverse of ``encode_text``; raises WireError."""
    head, _, rest = payload.partition(b"\n")
    try:
        stated = json.loads(head)
        names, parts = stated["parts"], rest.split(b"\0") if stated["parts"] else []
        if len(parts) != len(names) or max(map(len, parts), default=0) > BYTES_MOST:
            raise WireError("not the text of a page")
        found = dict(zip(names, parts, strict=True))
        structured = found.pop("structured", None)
        if structured is not None and (b"\n" in structured or b"\r" in structured):
            raise WireError("not the structured data of a page")
        _MEMBERS.decode(structured or b"{}")
        return Extracted(
            structured=structured,
            language=None if stated["language"] is None else str(stated["language"])[:_SHORT_MOST],
            extractor=str(stated["extractor"])[:_SHORT_MOST],
            cut=stated["cut"] is True,
            **{name: found.pop(name).decode() for name in ("text", "markdown") if name in found},
        )
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise WireError(f"not the text of a page: {error}") from error


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

"""The data extracted from a page: its main text, as text or Markdown, and its structured data; and the rows of both.

Requests to the extracting processes and their responses are encoded as MessagePack. A process parses an untrusted page,
so the crawler trusts its responses no more than that page.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from crawler.web.parsing.wire import label_bytes

BYTES_MOST = 4 * 2**20  # maximum bytes of a text; longer texts are truncated
# Characters that some readers treat as line ends, although JSON does not escape them.
_LINE_ENDS = {end.encode(): f"\\u{ord(end):04x}".encode() for end in "\x85\u2028\u2029"}
# The values are not decoded, because decoded values could take many times as much memory.
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_Short = Annotated[str, Meta(max_length=200)]


class Forms(IntFlag):
    """The forms requested for a page."""

    TEXT = 1
    MARKDOWN = 2
    STRUCTURED = 4


class Extracted(Struct, frozen=True):
    """The data extracted from a page. ``text``, ``markdown`` and ``structured`` are None if they were not requested.

    ``language`` is the detected language of the text, if any: an ISO 639 code, with two letters if such a code exists.
    ``structured`` is a JSON object on one line with the members of the page's row. ``extractor`` is the name and
    version of the extractor. ``cut``: a part was truncated.
    """

    text: str | None = None
    markdown: str | None = None
    structured: bytes | None = None
    language: _Short | None = None
    extractor: _Short = ""
    cut: bool = False


_EXTRACTED = msgspec.msgpack.Decoder(Extracted)


class NoText(Struct, frozen=True):
    """A page has no text because extraction failed, for this ``reason``."""

    reason: str


def encode_asked(forms: Forms, url: str, charset: str | None) -> bytes:
    """Encode the request for a page."""
    return msgspec.msgpack.encode((int(forms), url, label_bytes(charset)))


def decode_asked(stated: bytes) -> tuple[Forms, str, str | None]:
    """Decode the output of ``encode_asked``."""
    forms, url, label = msgspec.msgpack.decode(stated, type=tuple[int, str, bytes | None])
    return Forms(forms), url, None if label is None else label.decode("utf-8", "replace")


def encode_text(found: Extracted) -> bytes:
    """Encode the data extracted from a page, truncating long texts."""
    named = {"text": found.text, "markdown": found.markdown}
    texts = {
        name: text.replace("\0", "").encode("utf-8", "replace") for name, text in named.items() if text is not None
    }
    cut = found.cut or any(len(text) > BYTES_MOST for text in texts.values())
    kept = {name: text[:BYTES_MOST].decode("utf-8", "ignore") for name, text in texts.items()}
    return msgspec.msgpack.encode(replace(found, cut=cut, **kept))


def decode_text(parts: list[bytes]) -> Extracted:
    """Decode the output of ``encode_text``. Raises an exception for invalid data."""
    found = _EXTRACTED.decode(parts[-1])
    structured = found.structured or b"{}"
    if max(map(len, (found.text or "", found.markdown or "", structured))) > BYTES_MOST:
        raise ValueError("the response is too long")
    if b"\n" in structured or b"\r" in structured:
        raise ValueError("the structured data has more than one line")
    _MEMBERS.decode(structured)
    return found


class About(Struct, frozen=True):
    """The fields of a page's row besides its text; ``fetched_at`` as in its record. ``whole``: the page is complete."""

    url: str
    fetched_at: str
    title: str | None
    language: str | None
    whole: bool = True


def text_row(about: About, found: Extracted | NoText) -> bytes:
    """Return the row of a page."""
    head = {"url": about.url, "fetched_at": about.fetched_at, "title": about.title, "language": about.language}
    if isinstance(found, NoText):
        return _line(head | {"error": found.reason})
    digest = sha256((found.text if found.text is not None else found.markdown or "").encode("utf-8", "replace"))
    return _line(
        head
        | {
            "detected_language": found.language,
            "text": found.text,
            "markdown": found.markdown,
            "cut": True if found.cut or not about.whole else None,
            "extractor": found.extractor,
            "digest": f"sha256:{digest.hexdigest()}",
        }
    )


def structured_row(about: About, found: Extracted | NoText) -> bytes:
    """Return the row of the structured data of a page."""
    head = {"url": about.url, "fetched_at": about.fetched_at}
    if isinstance(found, NoText):
        return _line(head | {"error": found.reason})
    members = _MEMBERS.decode(found.structured or b"{}") | ({} if about.whole else {"cut": True})
    return _line(head | members | head)


def gone_row(url: str, fetched_at: str) -> bytes:
    """Return the row of a page that no longer exists."""
    return _line({"url": url, "fetched_at": fetched_at, "gone": True})


def _line(members: Mapping[str, Any]) -> bytes:
    """Return a row with the members that are not None."""
    row = {name: value for name, value in members.items() if value is not None}
    try:
        line = msgspec.json.encode(row)
    except UnicodeEncodeError:  # the text has a lone surrogate
        whole = {name: _whole(value) if isinstance(value, str) else value for name, value in row.items()}
        line = msgspec.json.encode(whole)
    for end, escaped in _LINE_ENDS.items():
        line = line.replace(end, escaped)
    return line + b"\n"


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()

"""The main text of a page: its values, and its rows of JSON, one a page.

    request    REQUEST of ``crawler.web.parsing.wire``: the form in place of the settings, and the seconds of CPU time
    answer     TEXT: the forms and whether they are cut, as JSON; a line feed; the texts, with a NUL between them

The process read a stranger's page, so the crawler trusts its answers no more than that page.
"""

from __future__ import annotations

import json
from hashlib import sha256
from json.encoder import encode_basestring as quoted

from msgspec import Struct

from crawler.web.parsing.wire import NO_CHARSET, REQUEST, WireError

TEXT, MARKDOWN = "text", "markdown"
FORMS = {"text": (TEXT,), "markdown": (MARKDOWN,), "both": (TEXT, MARKDOWN)}
BYTES_MOST = 4 * 2**20  # of a text; what is longer is cut
_CHARSET_MOST = 1_000
# Line ends for some readers of lines, which JSON leaves as they are.
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


class PageText(Struct, frozen=True):
    """The main text of a page in one form or two; None: not in that form. ``cut``: it is longer than what is kept."""

    text: str | None = None
    markdown: str | None = None
    cut: bool = False


class NoText(Struct, frozen=True):
    """A page has no text because it could not be extracted: why. ``traceback``: where, if an exception was raised."""

    reason: str
    traceback: str | None = None


def text_request(form: str, seconds: float, charset: str | None, size: int) -> bytes:
    """The head of a request; the body follows it."""
    stated, label = form.encode("ascii"), (charset or "").encode("utf-8", "replace")[:_CHARSET_MOST]
    return REQUEST.pack(0, seconds, len(stated), NO_CHARSET if charset is None else len(label), size) + stated + label


def encode_text(texts: dict[str, str]) -> bytes:
    """The texts of a page, by form, as a payload."""
    parts = [text.replace("\0", "").encode("utf-8", "replace") for text in texts.values()]
    cut = any(len(part) > BYTES_MOST for part in parts)
    head = json.dumps({"forms": list(texts), "cut": cut}).encode()
    return head + b"\n" + b"\0".join([_whole(part[:BYTES_MOST]) if cut else part for part in parts])


def _whole(data: bytes) -> bytes:
    """The text without a last character that is cut."""
    return data.decode("utf-8", "ignore").encode()


def decode_text(payload: bytes) -> PageText:
    """The inverse of ``encode_text``; raises WireError."""
    head, _, rest = payload.partition(b"\n")
    try:
        stated = json.loads(head)
        forms, parts = tuple(stated["forms"]), rest.split(b"\0")
        if forms not in FORMS.values() or len(parts) != len(forms) or max(map(len, parts)) > BYTES_MOST:
            raise WireError("not the text of a page")
        texts = dict(zip(forms, (part.decode() for part in parts), strict=True))
        return PageText(texts.get(TEXT), texts.get(MARKDOWN), stated["cut"] is True)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"not the text of a page: {error}") from error


class About(Struct, frozen=True):
    """What the row of a page says besides its text; ``fetched_at`` as in its record. ``whole``: the page is."""

    url: str
    fetched_at: str
    title: str | None
    language: str | None
    whole: bool = True


def text_row(about: About, found: PageText | NoText) -> bytes:
    """The row of a page."""
    row = f'{{"url":{_json(about.url)},"fetched_at":{_json(about.fetched_at)}'
    if about.title is not None:
        row += f',"title":{_json(about.title)}'
    if about.language is not None:
        row += f',"language":{_json(about.language)}'
    if isinstance(found, NoText):
        return f'{row},"error":{_json(found.reason)}}}\n'.encode("utf-8", "replace")
    if found.text is not None:
        row += f',"text":{_json(found.text)}'
    if found.markdown is not None:
        row += f',"markdown":{_json(found.markdown)}'
    if found.cut or not about.whole:
        row += ',"cut":true'
    digest = sha256((found.text if found.text is not None else found.markdown or "").encode("utf-8", "replace"))
    return f'{row},"digest":"sha256:{digest.hexdigest()}"}}\n'.encode("utf-8", "replace")


def _json(text: str) -> str:
    return quoted(text).translate(_LINE_ENDS)

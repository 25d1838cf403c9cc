"""What a partition tells another: arrays in MessagePack that begin with the number of their kind.

    1  Links    URLs that belong to the receiver, with all that their ``Found`` says
    2  Widened  URLs that widen the scope of the crawl, and entries of the scope of a mode

A message may come more than once, and must then change nothing more. New fields come last and have defaults. A kind
that this version does not know is an ``UnknownMessage``: its batch must not be acknowledged, because a newer version
may understand it.

What is said of single URLs has their positions in ``hrefs`` instead of the URLs themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from crawler.base.settings.parts import CLASSES
from crawler.frontier.entry import Entry
from crawler.frontier.traps.copies import Content
from crawler.job.found import Candidate, Found
from crawler.job.records import Outcome, PageRecord
from crawler.url.urls.canonicaliser import Canonical

Position = Annotated[int, Meta(ge=0)]  # of a URL in ``hrefs``
Depth = Annotated[int, Meta(ge=0, lt=2**32)]
Redirects = Annotated[int, Meta(ge=0, lt=2**8)]
Class = Annotated[int, Meta(ge=0, lt=CLASSES)]


class MessageError(ValueError):
    """The bytes are not a message."""


class CopiedPage(Struct, array_like=True, frozen=True):
    """The page with the URLs is a copy of another."""

    href: str
    depth: Depth
    original: str | None


class Links(Struct, array_like=True, tag=1, frozen=True):
    """URLs of the receiver. The fields are those of ``Found``; ``share`` is the part of these URLs. ``linked``:
    they were found as links, and nobody named them. ``keys`` has the keys that differ from their hrefs."""

    hrefs: list[str]
    depth: Depth
    via: str | None = None
    linked: bool = True
    seed: bool = False
    redirects: Redirects = 0
    keys: dict[Position, str] = field(default_factory=dict)
    share: float = 0.0
    priority: Class | None = None
    candidates: dict[Position, Candidate] = field(default_factory=dict)
    sitemaps: bool = False
    copy: CopiedPage | None = None
    probe: bool = False


class Widened(Struct, array_like=True, tag=2, frozen=True):
    """The scope of the crawl has grown by what these URLs stand for. The scope of a ``mode`` has these ``entries``."""

    hrefs: list[str]
    mode: str = ""
    entries: list[str] = field(default_factory=list)


class UnknownMessage(Struct, frozen=True):
    """A message of a kind that a newer version has."""

    kind: int


Message = Links | Widened

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Message)
_KINDS = frozenset({1, 2})


def encode_message(message: Message) -> bytes:
    """The message as bytes."""
    return _ENCODER.encode(message)


def decode_message(data: bytes) -> Message | UnknownMessage:
    """The inverse of ``encode_message``. Raises MessageError."""
    try:
        message: Message = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        kind = _kind(data)
        if kind is not None and kind not in _KINDS:
            return UnknownMessage(kind)
        raise MessageError(f"not a message: {error}") from error
    return message


def _kind(data: bytes) -> int | None:
    """The number of a message of whatever kind; None if the bytes are none."""
    try:
        content = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    kind = content[0] if isinstance(content, list) and content else None
    return kind if isinstance(kind, int) and not isinstance(kind, bool) else None


def links_of(found: Found, positions: Sequence[int]) -> Links:
    """The message for the owner of those URLs of ``found``."""
    urls = [found.urls[position] for position in positions]
    if found.found_at is not None and _says_nothing_else(found) and all(url.key == url.href for url in urls):
        return Links([url.href for url in urls], found.depth, found.via)  # nearly all are such
    return Links(
        [url.href for url in urls],
        found.depth,
        found.via,
        found.found_at is not None,
        found.seed,
        found.redirects,
        {at: url.key for at, url in enumerate(urls) if url.key != url.href},
        found.share * len(urls) / len(found.urls),
        found.priority,
        {at: found.candidates[url.href] for at, url in enumerate(urls) if url.href in found.candidates},
        found.sitemaps,
        None if found.copy is None else _copied(found.copy),
        found.probe,
    )


def _says_nothing_else(found: Found) -> bool:
    rest = found.candidates or found.share or found.seed or found.redirects or found.probe or found.sitemaps
    return not rest and found.priority is None and found.copy is None


def found_of(links: Links, now: float) -> Found:
    """What the receiver admits. Its own clock says when links were found. Raises MessageError for positions that there
    are not."""
    hrefs, copy = links.hrefs, links.copy
    try:
        candidates = {hrefs[at]: each for at, each in links.candidates.items()}
    except IndexError as error:
        raise MessageError("not a message: it says something of a URL that it does not name") from error
    return Found(
        [Canonical(href, links.keys.get(at, href)) for at, href in enumerate(hrefs)],
        links.depth,
        links.via,
        links.seed,
        links.redirects,
        now if links.linked else None,
        links.sitemaps,
        links.share,
        None if copy is None else _copy(copy),
        links.probe,
        links.priority,
        candidates,
    )


def _copied(record: PageRecord) -> CopiedPage:
    original = None if record.content is None else record.content.duplicate_of
    return CopiedPage(record.entry.href, record.entry.depth, original)


def _copy(copied: CopiedPage) -> PageRecord:
    """What admission asks of the record of a copy."""
    content = Content(b"", duplicate_of=copied.original)
    return PageRecord(Entry(copied.href, copied.depth), Outcome.FETCHED, 0.0, content=content)

"""Messages between partitions: MessagePack arrays that start with the number of their kind.

    1  Links    URLs that belong to the receiver, with all details of their ``Found``
    2  Widened  URLs that widen the scope of the crawl, and entries to add to the scope of a mode

A message may arrive more than once; repetitions must have no further effect. New fields come last and have defaults. A
message of a kind unknown to this version is an ``UnknownMessage``: its batch must not be acknowledged, because a newer
version may understand it.

Details of single URLs refer to the URLs by their positions in ``hrefs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from crawler.base.settings.parts import CLASSES
from crawler.job.found import Candidate, CopiedPage, Depth, Found
from crawler.url.urls.canonicaliser import Canonical

Position = Annotated[int, Meta(ge=0)]  # index of a URL in ``hrefs``
Redirects = Annotated[int, Meta(ge=0, lt=2**8)]
Class = Annotated[int, Meta(ge=0, lt=CLASSES)]


class MessageError(ValueError):
    """The bytes are not a message."""


class Links(Struct, array_like=True, tag=1, frozen=True):
    """URLs that belong to the receiver. The fields are those of ``Found``; ``share`` covers only these URLs.
    ``linked``: they were found as links, not named by a user. ``keys`` has the key of each URL whose key differs from
    its href."""

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
    """``hrefs`` are URLs that widen the scope of the crawl; ``entries`` are added to the scope of a ``mode``."""

    hrefs: list[str]
    mode: str = ""
    entries: list[str] = field(default_factory=list)


class UnknownMessage(Struct, frozen=True):
    """A message of a kind from a newer version."""

    kind: int


Message = Links | Widened

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Message)
_KINDS = frozenset({1, 2})


def encode_message(message: Message) -> bytes:
    """Encode the message as bytes."""
    return _ENCODER.encode(message)


def decode_message(data: bytes) -> Message | UnknownMessage:
    """Decode a message. Raises MessageError."""
    try:
        message: Message = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        kind = _kind(data)
        if kind is not None and kind not in _KINDS:
            return UnknownMessage(kind)
        raise MessageError(f"not a message: {error}") from error
    return message


def _kind(data: bytes) -> int | None:
    """Return the kind number of any message; None if the bytes are not a message."""
    try:
        content = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    kind = content[0] if isinstance(content, list) and content else None
    return kind if isinstance(kind, int) and not isinstance(kind, bool) else None


def links_of(found: Found, positions: Sequence[int]) -> Links:
    """Return the message for the owner of the URLs at these positions in ``found``."""
    urls = [found.urls[position] for position in positions]
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
        found.copy,
        found.probe,
    )


def found_of(links: Links, now: float) -> Found:
    """Return the message as a ``Found`` to admit; links count as found at ``now``. Raises MessageError for invalid
    positions."""
    hrefs = links.hrefs
    try:
        candidates = {hrefs[at]: each for at, each in links.candidates.items()}
    except IndexError as error:
        raise MessageError("not a message: it refers to a URL that it does not include") from error
    return Found(
        [Canonical(href, links.keys.get(at, href)) for at, href in enumerate(hrefs)],
        links.depth,
        links.via,
        links.seed,
        links.redirects,
        now if links.linked else None,
        links.sitemaps,
        links.share,
        links.copy,
        links.probe,
        links.priority,
        candidates,
    )

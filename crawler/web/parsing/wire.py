"""The requests to the processes that parse pages, and their results, in MessagePack.

A process reads untrusted pages, so the crawler validates its results as untrusted too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.web.links.about import about
from crawler.web.links.described import Described, without_fragments
from crawler.web.links.extract import PageLinks
from crawler.web.links.sitemap import FREQUENCY_MOST, Listed, SitemapForm

_CHARSET_MOST = 1_000  # maximum bytes of a label; the longest that is known has 40


class ParseLimits(Struct, frozen=True):
    """The limits for parsing one page: bytes of memory of the whole process, and seconds of CPU."""

    memory: int = 128 * 2**20
    seconds: float = 0.05  # CPU seconds for any page, and ...
    seconds_per_megabyte: float = 0.2  # ... CPU seconds for its size: ten times the usual cost
    markdown: float = 30.0  # factor for Markdown, which is parsed in Python ...
    markdown_seconds: float = 10.0  # ... up to this limit

    def for_page(self, size: int, *, markdown: bool = False) -> float:
        """Return the seconds for a body of ``size`` bytes."""
        seconds = self.seconds + self.seconds_per_megabyte * size / 1_000_000
        return min(self.markdown * seconds, self.markdown_seconds) if markdown else seconds


class Kind(IntEnum):
    """How a page is read."""

    TREE = 0
    TAGS = 1  # without a tree, in linear time and memory
    SITEMAP = 2
    MARKDOWN = 3


class _Asked(Struct, array_like=True):
    kind: Kind
    seconds: float
    charset: bytes | None
    settings: LinkSettings
    described: bool


_ASKED = msgspec.msgpack.Decoder(_Asked)


def label_bytes(charset: str | None) -> bytes | None:
    """Encode a stated encoding label, which is untrusted, for a request."""
    return None if charset is None else charset.encode("utf-8", "replace")[:_CHARSET_MOST]


def encode_asked(kind: Kind, seconds: float, charset: str | None, settings: LinkSettings) -> bytes:
    """Encode a request for a page, which may take ``seconds``."""
    described = isinstance(settings, DescribedLinks)
    return msgspec.msgpack.encode(_Asked(kind, seconds, label_bytes(charset), settings, described))


def decode_asked(stated: bytes) -> tuple[Kind, float, str | None, LinkSettings]:
    """Decode a request that ``encode_asked`` encoded."""
    asked = _ASKED.decode(stated)
    settings = DescribedLinks(**msgspec.structs.asdict(asked.settings)) if asked.described else asked.settings
    charset = None if asked.charset is None else asked.charset.decode("utf-8", "replace")
    return asked.kind, asked.seconds, charset, settings


_LINKS = msgspec.msgpack.Decoder(tuple[PageLinks, list[str] | None])


def encode_links(links: PageLinks) -> bytes:
    """Encode the links of a page. If all hrefs are described, the descriptions omit the hrefs."""
    described, texts = links.described, None
    if described is not None and described.of is links.hrefs:
        texts = list(described.texts.values())
        links = replace(links, described=Described({}, described.kinds, described.rels))
    return msgspec.msgpack.encode((links, texts))


def decode_links(parts: list[bytes]) -> PageLinks:
    """Decode the result of ``encode_links``; raises an exception if it is malformed."""
    links, texts = _LINKS.decode(parts[-1])
    described = links.described
    if described is not None:
        described.of = None if texts is None else links.hrefs
    if described is not None and texts is not None:
        described.texts = dict(zip(without_fragments(links.hrefs), texts, strict=True))
    return replace(links, about=about(*links.about))


class SitemapRead(Struct, frozen=True):
    """A body that was read as a sitemap: its form, and its URLs in parts. ``limit`` names the setting that stopped
    reading, if one did. ``parts`` are undecoded, because decoding one part (``decode_listed``) takes milliseconds."""

    form: SitemapForm
    is_index: bool = False
    fault: str | None = None
    parts: tuple[bytes, ...] = ()
    limit: Annotated[str, Meta(pattern="^links[.]max_(links|sitemap_bytes)$")] | None = None


_SITEMAP = msgspec.msgpack.Decoder(SitemapRead)
_LISTED = msgspec.msgpack.Decoder(list[Listed])


def encode_sitemap(read: SitemapRead) -> bytes:
    """Encode the result at the end of a sitemap."""
    return msgspec.msgpack.encode(read)


def decode_sitemap(parts: list[bytes]) -> SitemapRead:
    """Decode the result of ``encode_sitemap``, with the earlier parts; raises an exception if it is malformed."""
    return replace(_SITEMAP.decode(parts[-1]), parts=tuple(parts[:-1]))


def encode_listed(listed: Sequence[Listed]) -> bytes:
    """Encode URLs of a sitemap."""
    return msgspec.msgpack.encode(listed)


def decode_listed(part: bytes) -> list[Listed]:
    """Decode the result of ``encode_listed``; raises an exception if it is malformed."""
    listed = _LISTED.decode(part)
    if not all(0.0 <= one.begin <= one.end < math.inf and 0 <= one.frequency <= FREQUENCY_MOST for one in listed):
        raise ValueError("impossible dates or frequencies")
    return listed

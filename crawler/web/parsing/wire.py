"""What goes over the socket between the crawler and its parser.

    request    kind (1), CPU seconds (8), bytes of settings (4), of the charset (2, 65535: none), of the body (8); then
               these three
    answer     kind (1), whether the parser ends with it (1), bytes that follow (8); then these

The links come as JSON, of all but the hrefs, a line feed, and the hrefs, then those of embedded resources, with a NUL
between them, which no text in a tree can hold. If the page says something of each href and of nothing else, which is
usual, its texts come after them in the same way: the links themselves need not be repeated then. The parser read a
stranger's page, so the crawler trusts its answers no more than that page: only these forms, and nothing that could be
code.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.web.links.about import about
from crawler.web.links.described import Described, without_fragments
from crawler.web.links.extract import PageLinks
from crawler.web.links.sitemap import FREQUENCY_MOST, Listed, SitemapForm

REQUEST = struct.Struct("<BdIHQ")
ANSWER = struct.Struct("<BBQ")
NO_CHARSET = 0xFFFF
SITEMAP_LIMITS = ("links.max_links", "links.max_sitemap_bytes")
_CHARSET_MOST = 1_000  # bytes; no label is longer than 40


class ParseLimits(Struct, frozen=True):
    """What parsing one page may take: bytes of memory of the whole process, and seconds of CPU."""

    memory: int = 128 * 2**20
    seconds: float = 0.05  # for any page ...
    seconds_per_megabyte: float = 0.2  # ... and for its size: ten times what pages take
    markdown: float = 30.0  # times as much for Markdown, which is read in Python ...
    markdown_seconds: float = 10.0  # ... but no more than this

    def for_page(self, size: int, *, markdown: bool = False) -> float:
        """The seconds for a body of ``size`` bytes."""
        seconds = self.seconds + self.seconds_per_megabyte * size / 1_000_000
        return min(self.markdown * seconds, self.markdown_seconds) if markdown else seconds


class ParserDied(Struct, frozen=True):
    """A page could not be parsed: why, and where in the code if an exception was raised."""

    reason: str
    traceback: str | None = None


class Kind(IntEnum):
    """How a page is read."""

    TREE = 0
    TAGS = 1  # without a tree: linear in time and memory
    SITEMAP = 2
    MARKDOWN = 3


class Told(IntEnum):
    """What an answer holds."""

    READY = 0  # the parser has started
    LINKS = 1
    MEMORY = 2  # more would have been needed
    RAISED = 3  # an exception: its text, a line feed, its traceback
    PART = 4  # URLs of a sitemap; more follows
    SITEMAP = 5  # the rest of what is to be told of it
    TEXT = 6  # the main text of a page
    CODE = 7  # what code of the user said of a page


def request(kind: Kind, seconds: float, settings: LinkSettings, charset: str | None, size: int) -> bytes:
    """The head of a request; the body follows it."""
    stated = _settings(settings)
    if charset is None:
        return REQUEST.pack(kind, seconds, len(stated), NO_CHARSET, size) + stated
    label = charset.encode("utf-8", "replace")[:_CHARSET_MOST]
    return REQUEST.pack(kind, seconds, len(stated), len(label), size) + stated + label


def answer(told: Told, payload: bytes = b"", *, ends: bool = False) -> bytes:
    """An answer."""
    return ANSWER.pack(told, ends, len(payload)) + payload


@lru_cache(maxsize=8)
def _settings(settings: LinkSettings) -> bytes:
    return json.dumps(asdict(settings) | {"described": isinstance(settings, DescribedLinks)}).encode()


@lru_cache(maxsize=8)
def decode_settings(stated: bytes) -> LinkSettings:
    """The inverse of what ``request`` does with settings."""
    values: dict[str, Any] = json.loads(stated)
    values["kinds"] = tuple(values["kinds"])
    return DescribedLinks(**values) if values.pop("described") else LinkSettings(**values)


def encode_links(links: PageLinks) -> bytes:
    """The links of a page as a payload."""
    described = links.described
    texts = [] if described is None or described.of is not links.hrefs else list(described.texts.values())
    rest = {
        "base": links.base,
        "hrefs": len(links.hrefs),
        "encoding": links.encoding,
        "truncated": links.truncated,
        "metas": links.metas,
        "too_long": links.too_long,
        "cut": links.cut,
        "embedded": len(links.embedded),
        "unfollowed": len(links.unfollowed),
        "texts": len(texts),
        "described": None if described is None else _encoded(described, texts),
        "about": links.about,
    }
    listed = [*links.hrefs, *links.embedded, *links.unfollowed, *texts]
    return json.dumps(rest).encode() + b"\n" + "\0".join(listed).encode()


def _encoded(described: Described, texts: list[str]) -> list[Any]:
    """What JSON has of what a page says of its links; ``texts`` are those that it has not."""
    return [described.kinds, described.rels, {} if texts else described.texts]


class WireError(ValueError):
    """Bytes that no parser of ours sends."""


def decode_links(payload: bytes) -> PageLinks:
    """The inverse of ``encode_links``; raises WireError."""
    head, line_feed, listed = payload.partition(b"\n")
    try:
        rest = json.loads(head)
        counts = [rest[kind] for kind in ("hrefs", "embedded", "unfollowed", "texts")]
        found = listed.decode().split("\0") if any(counts) else []
        if not line_feed or min(counts) < 0 or len(found) != sum(counts) or (listed and not found):
            raise WireError("not the links of a page")
        many, more = counts[0], counts[0] + counts[1]
        end = more + counts[2]
        hrefs = found[:many]
        return PageLinks(
            _text(rest["base"]),
            hrefs,
            str(rest["encoding"]),
            rest["truncated"] is True,
            tuple((str(name), str(content)) for name, content in rest["metas"]),
            int(rest["too_long"]),
            _text(rest["cut"]),
            found[many:more],
            _described(rest["described"], hrefs, found[end:]),
            found[more:end],
            about=about(*map(_text, rest["about"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"not the links of a page: {error}") from error


def _described(said: Any, hrefs: list[str], texts: list[str]) -> Described | None:
    if said is None and not texts:
        return None
    kinds, rels, others = said
    links = zip(without_fragments(hrefs), texts, strict=True) if texts else _texts(others).items()
    return Described(dict(links), _texts(kinds), _texts(rels), hrefs if texts else None)


def _texts(values: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in values.items()}


class SitemapRead(Struct, frozen=True):
    """A body that was read as a sitemap: what it looks like, and its URLs in parts. ``limit`` names the setting that
    ended the reading, if one did. ``parts`` are as the process sent them: ``decode_listed`` of one takes milliseconds,
    and raises WireError."""

    form: SitemapForm
    is_index: bool = False
    fault: str | None = None
    parts: tuple[bytes, ...] = ()
    limit: str | None = None


def encode_sitemap(read: SitemapRead) -> bytes:
    """All but the parts as a payload."""
    return json.dumps({"form": read.form, "index": read.is_index, "fault": read.fault, "limit": read.limit}).encode()


def decode_sitemap(payload: bytes, parts: tuple[bytes, ...]) -> SitemapRead:
    """The inverse of ``encode_sitemap``; raises WireError."""
    try:
        rest = json.loads(payload)
        limit = _text(rest["limit"])
        if limit not in (None, *SITEMAP_LIMITS):
            raise WireError(f"not a limit of sitemaps: {limit}")
        return SitemapRead(SitemapForm(rest["form"]), rest["index"] is True, _text(rest["fault"]), parts, limit)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"not a sitemap: {error}") from error


def encode_listed(listed: Sequence[Listed]) -> bytes:
    """URLs of a sitemap as a payload."""
    return json.dumps([(one.href, one.priority, one.begin, one.end, one.frequency) for one in listed]).encode()


def decode_listed(payload: bytes) -> list[Listed]:
    """The inverse of ``encode_listed``; raises WireError."""
    try:
        return [_one(*one) for one in _list(payload)]
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"not the URLs of a sitemap: {error}") from error


def _one(href: object, priority: float | None, begin: float, end: float, frequency: int) -> Listed:
    dates = float(begin), float(end)
    if not (0.0 <= dates[0] <= dates[1] < math.inf and 0 <= int(frequency) <= FREQUENCY_MOST):
        raise WireError(f"not a URL of a sitemap: {dates}, {frequency}")
    return Listed(str(href), None if priority is None else float(priority), *dates, int(frequency))


def _list(payload: bytes) -> list[Any]:
    found = json.loads(payload)
    if not isinstance(found, list):
        raise WireError("not the URLs of a sitemap")
    return found


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class Answers:
    """Cuts a stream of bytes into answers."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes, take: Callable[[Told, bool, bytes], None]) -> None:
        """Call ``take`` with each answer that is complete now. Raises WireError."""
        self._bytes += data
        at = 0
        while len(self._bytes) - at >= ANSWER.size:
            kind, ends, length = ANSWER.unpack_from(self._bytes, at)
            if kind > max(Told):
                raise WireError(f"an answer of kind {kind}")
            end = at + ANSWER.size + length
            if len(self._bytes) < end:
                break
            take(Told(kind), bool(ends), bytes(self._bytes[at + ANSWER.size : end]))
            at = end
        del self._bytes[:at]

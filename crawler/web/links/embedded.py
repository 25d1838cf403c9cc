"""Embedded resources: files that a browser loads to show a page. Styles, scripts, images, icons, media, plug-ins.

Resources that a style sheet names by ``url()`` or ``@import`` are not found, because style sheets are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from crawler.web.links.headers import RESOURCES, SPACE

SELECTOR = "[src],[srcset],[poster],link[href],object[data]"
# The tags that ``SELECTOR`` can match, and those among them that need an end tag.
TAGS = ("img", "image", "source", "track", "script", "video", "audio", "embed", "input", "object")
CLOSED = frozenset(("script", "video", "audio", "object"))

_SOURCES = frozenset(("img", "source", "track", "script", "video", "audio", "embed"))
_SETS = frozenset(("img", "source"))
# A candidate of a srcset: its URL ends with white space. A URL that ends with a comma has no descriptors; otherwise the
# descriptors extend to the next comma outside brackets (HTML Standard, "parsing a srcset attribute").
_CANDIDATE = re.compile(r"[ \t\n\f\r,]*+(?P<url>[^ \t\n\f\r]++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)*+,?+")


class Attributes(Protocol):
    """The attributes of an element."""

    def get(self, name: str, /) -> str | None: ...


def attributes_of(kind: str, target: str | None, other: str | None) -> dict[str, str | None]:
    """Return the attributes by which an element of this name embeds resources, from the values of
    ``crawler._native``."""
    names = {"link": ("href", "rel"), "object": ("data", ""), "video": ("src", "poster"), "input": ("src", "type")}
    first, second = names.get(kind, ("src", "srcset"))
    return {first: target, second: other}


def embedded(kind: str | None, attributes: Attributes) -> Iterator[str]:
    """Yield the resources that an element of this name embeds, as written."""
    if kind == "link":
        relations = (attributes.get("rel") or "").lower().split()
        found = [] if RESOURCES.isdisjoint(relations) else [attributes.get("href")]
    elif kind in _SOURCES:
        found = [attributes.get("src")]
        if kind in _SETS:
            found += candidates(attributes.get("srcset") or "")
        elif kind == "video":
            found.append(attributes.get("poster"))
    elif kind == "object":
        found = [attributes.get("data")]
    elif kind == "input" and (attributes.get("type") or "").lower() == "image":
        found = [attributes.get("src")]
    else:
        return
    for href in found:
        text = (href or "").strip(SPACE)
        # A ``data:`` URL contains the resource itself, so it is not a web URL, and may be very long.
        if text and text[:5].lower() != "data:" and text[0] != "#":
            yield text


def candidates(srcset: str) -> list[str]:
    """Return the URLs of a ``srcset``."""
    found: list[str] = []
    at = 0
    while (candidate := _CANDIDATE.match(srcset, at)) is not None:
        url, at = candidate["url"], candidate.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            rest = _DESCRIPTORS.match(srcset, at)
            at = at if rest is None else rest.end()
        if url:
            found.append(url)
    return found

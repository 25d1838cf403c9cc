"""Embedded resources: what a browser loads to show a page. Styles, scripts, images, icons, media, plug-ins.

What a style sheet names by ``url()`` or ``@import`` is not found: a sheet is not read, since it is no page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from crawler.web.links.headers import RESOURCES, SPACE

SELECTOR = "[src],[srcset],[poster],link[href],object[data]"
# The tags that ``SELECTOR`` can find something in, and those among them that need an end tag.
TAGS = ("img", "image", "source", "track", "script", "video", "audio", "embed", "input", "object")
CLOSED = frozenset(("script", "video", "audio", "object"))

_SOURCES = frozenset(("img", "source", "track", "script", "video", "audio", "embed"))
_SETS = frozenset(("img", "source"))
# A candidate of a srcset: its URL ends with white space. One that ends with a comma has no descriptors; otherwise
# these go on to the next comma outside brackets (HTML Standard, "parsing a srcset attribute").
_CANDIDATE = re.compile(r"[ \t\n\f\r,]*+(?P<url>[^ \t\n\f\r]++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)*+,?+")


class Attributes(Protocol):
    """Those of an element."""

    def get(self, name: str, /) -> str | None: ...


def attributes_of(kind: str, target: str | None, other: str | None) -> dict[str, str | None]:
    """The attributes by which an element of this name embeds, as ``crawler._native`` tells them."""
    names = {"link": ("href", "rel"), "object": ("data", ""), "video": ("src", "poster"), "input": ("src", "type")}
    first, second = names.get(kind, ("src", "srcset"))
    return {first: target, second: other}


def embedded(kind: str | None, attributes: Attributes) -> Iterator[str]:
    """What an element of this name embeds, as written."""
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
        # An image in the page itself is no URL of the web, and may be as long as an image is.
        if text and text[:5].lower() != "data:" and text[0] != "#":
            yield text


def candidates(srcset: str) -> list[str]:
    """The URLs of a ``srcset``."""
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

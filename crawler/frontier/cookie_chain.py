"""The redirects that led to a URL, in a crawl that keeps cookies.

A site may send a visitor away and back until a cookie is set: to the same URL, over a page that sets one, or over a
page that asks for consent. The entry of a URL therefore names the URLs of its chain, each by a digest and by one of the
cookies that it was asked with. A redirect back to one of them is another try of it if these cookies are others now;
otherwise it is a loop. A chain has at most ``fetch.max_redirects`` links.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

_LINK = struct.Struct("<IIB")


class Link(NamedTuple):
    """A URL of a chain. ``url`` and ``cookies`` are CRC-32s; ``kind`` is how its visit ended (``url_kind``)."""

    url: int
    cookies: int
    kind: int


def lengthened(chain: bytes, href: str, cookies: int, kind: int) -> bytes:
    """Return the chain with one more URL, in the place of an earlier visit of it."""
    url = _digest(href)
    return b"".join(_LINK.pack(*link) for link in _links(chain) if link.url != url) + _LINK.pack(url, cookies, kind)


def link_of(chain: bytes, href: str) -> Link | None:
    """Return the link of a URL; None if it is not in the chain. Two URLs in four billion look alike: one more request
    comes of it."""
    url = _digest(href)
    return next((link for link in _links(chain) if link.url == url), None)


def is_chain(chain: bytes) -> bool:
    """Whether stored bytes may be a chain."""
    return len(chain) % _LINK.size == 0


def _links(chain: bytes) -> Iterator[Link]:
    return (Link(*link) for link in _LINK.iter_unpack(chain))


def _digest(href: str) -> int:
    return zlib.crc32(href.encode())

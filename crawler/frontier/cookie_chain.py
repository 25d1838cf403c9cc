"""The redirects that led to a URL, in a crawl that keeps cookies.

A site may redirect a visitor away and back until a cookie is set: to the same URL, through a page that sets a cookie,
or through a page that asks for consent. The entry of a URL therefore records the URLs of its chain, each as a digest
with a digest of the cookies sent with it. A redirect back to one of these URLs is another try of it if the cookies have
changed; otherwise it is a loop. A chain has at most ``fetch.max_redirects`` links.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

_LINK = struct.Struct("<IIB")


class Link(NamedTuple):
    """A URL of a chain. ``url`` and ``cookies`` are CRC-32s; ``kind`` says how its visit ended (``url_kind``)."""

    url: int
    cookies: int
    kind: int


def lengthened(chain: bytes, href: str, cookies: int, kind: int) -> bytes:
    """Return the chain with the URL added at the end; the link of an earlier visit of the URL is removed."""
    url = _digest(href)
    return b"".join(_LINK.pack(*link) for link in _links(chain) if link.url != url) + _LINK.pack(url, cookies, kind)


def link_of(chain: bytes, href: str) -> Link | None:
    """Return the link of a URL, or None if it is not in the chain.

    Two URLs collide with a probability of one in four billion; a collision costs one more request.
    """
    url = _digest(href)
    return next((link for link in _links(chain) if link.url == url), None)


def is_chain(chain: bytes) -> bool:
    """Return True if stored bytes may be a chain."""
    return len(chain) % _LINK.size == 0


def _links(chain: bytes) -> Iterator[Link]:
    return (Link(*link) for link in _LINK.iter_unpack(chain))


def _digest(href: str) -> int:
    return zlib.crc32(href.encode())

"""A URL in the frontier, and its place in the store.

An entry is stored under ``host NUL slot``, so that the entries of one host are adjacent, in the order in which the
frontier takes them. A slot is one byte for the lane, followed by the position in it:

    retry lane   0x00  not-before time, ms since 1970 (8 bytes, big-endian)  number (8 bytes, big-endian)
    fresh lane   0x01  class (1 byte)  rank (8 bytes, big-endian)  number (8 bytes, big-endian)

Numbers grow over the whole job and are never reused. A retry slot sorts by the earliest time of the next try, so that
the head of the retry lane is the next one due. A fresh slot sorts by the entry's priority class, then by the rank that
the job's order gives it (``crawler.frontier.order``), then by number. Revisits come after all classes, in a separate
class, in the order in which they were queued. They share the host's turns with the first visits
(``crawler.frontier.queues``), so neither waits for the other.

The value is the entry as a MessagePack array, without the fields after the class if they are the usual ones. An href
and a via are canonical URLs: ASCII, without white space.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec.msgpack
from msgspec import Meta

from crawler.base.settings.parts import CLASSES, LEAF
from crawler.frontier.cookie_chain import is_chain
from crawler.url.urls.host_key import host_key

QueueOf = Callable[[str], str]  # returns the name of the queue of an href
queue_of: QueueOf = host_key  # one queue for each scheme, host and port, as for politeness and robots.txt

RETRY_LANE = 0
FRESH_LANE = 1
FRESH_START = bytes([FRESH_LANE])
FRESH_END = bytes([FRESH_LANE + 1])
REVISIT_CLASS = CLASSES  # used only in slots: an entry keeps its own class
REVISIT_START = bytes([FRESH_LANE, REVISIT_CLASS])  # start of the revisits, at the end of the fresh lane
RETRY_START = bytes([RETRY_LANE])

_FRESH = struct.Struct(">BBQQ")
_RETRY = struct.Struct(">BQQ")
FRESH_SLOT_SIZE = _FRESH.size
_SLOT_SIZES = {RETRY_LANE: _RETRY.size, FRESH_LANE: FRESH_SLOT_SIZE}
CRASHES_MOST = 3  # highest number of crashes that is counted
_Count = Annotated[int, Meta(ge=0)]
_UpTo3 = Annotated[int, Meta(ge=0, le=3)]
_Class = Annotated[int, Meta(ge=0, lt=CLASSES)]


class Entry(NamedTuple):
    """A URL that was admitted and is not finished.

    ``priority`` is its class, 0 (first) to 7. It is chosen at admission and stored. It orders the entries of the host
    before any other criterion, and while the entry is the host's next one, it determines the host's front queue.
    ``score`` is the importance passed on by the linking page; it is 0 unless the job's order is by score.
    """

    href: str
    depth: _Count  # number of links from a seed to this URL; redirects do not count
    via: str | None = None  # the page or redirect that it was found on
    seed: bool = False  # a seed, or the target of a seed's redirect
    redirects: _Count = 0  # consecutive redirects that led here
    tries: _Count = 0  # transient failures so far
    throttled: _Count = 0  # 429 or 503 responses so far
    priority: _Class = 0
    score: float = 0.0
    revisit: bool = False  # True if the URL was finished before
    sitemap: bool = False  # listed as a sitemap by robots.txt or by a sitemap index
    crashes: _UpTo3 = 0  # how often the crawler died while reading the page, at most CRASHES_MOST
    probe: bool = False  # True if the crawler made up the URL: its path cannot exist
    reach: _UpTo3 = 0  # number of hops off the site that led here; LEAF: fetched, but its links are not followed
    changefreq: _UpTo3 = 0  # change frequency in the sitemap: 1 (hourly) to 3 (rarely); 0 if none is given
    last: Annotated[int, Meta(ge=0, le=7)] = 0  # how the previous visit ended, if there was one: ``url_kind``, 0 to 7
    chain: bytes = b""  # the redirects that led here, in a crawl that keeps cookies: see ``cookie_chain``
    cut: str | None = None  # how the first try's body was truncated, if it was: ``Response.truncated``

    @property
    def is_leaf(self) -> bool:
        """True if the links of its page are not followed."""
        return self.reach == LEAF


class EntryError(ValueError):
    """Raised when stored bytes are not a valid entry."""


_BASIC = Entry._fields.index("priority") + 1  # number of the fields that are always stored
_USUAL = Entry("", 0)[_BASIC:]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry for the store."""
    return _encode(entry if entry[_BASIC:] != _USUAL else entry[:_BASIC])


def decode_entry(value: bytes) -> Entry:
    """Decode a stored entry; raises EntryError."""
    try:
        entry = _decode(value)
    except msgspec.DecodeError as error:
        raise EntryError(f"not a frontier entry: {error}") from error
    if not 0.0 <= entry.score < math.inf or not is_chain(entry.chain) or not entry.href.isascii():
        raise EntryError(f"not a frontier entry: {entry}")
    return entry


def fresh_slot(number: int, priority: int = 0, rank: int = 0) -> bytes:
    """Return the slot of a URL that has not been requested yet."""
    return _FRESH.pack(FRESH_LANE, priority, rank, number)


def with_class(slot: bytes, priority: int) -> bytes:
    """Return the slot with another class but the same place."""
    return slot[:1] + bytes([priority]) + slot[2:]


def class_of_slot(slot: bytes) -> int:
    """Return the class of a slot in the fresh lane."""
    return slot[1]


def revisit_slot(number: int) -> bytes:
    """Return the slot of a page that is to be visited again."""
    return _FRESH.pack(FRESH_LANE, REVISIT_CLASS, 0, number)


def retry_slot(not_before: float, number: int) -> bytes:
    """Return the slot of a URL to be retried at ``not_before`` (seconds since 1970) or later."""
    return _RETRY.pack(RETRY_LANE, max(0, math.ceil(not_before * 1000)), number)


def retry_time(slot: bytes) -> float:
    """Return the time of a retry slot, in seconds since 1970."""
    return float(_RETRY.unpack(slot)[1]) / 1000


def is_retry(slot: bytes) -> bool:
    """Return True if the slot is in the retry lane."""
    return slot[0] == RETRY_LANE


def is_revisit(slot: bytes) -> bool:
    """Return True if the slot is in the revisit class. Revisits that wait for a retry have retry slots."""
    return slot.startswith(REVISIT_START)


def pending_key(host: str, slot: bytes) -> bytes:
    """Return the store key of an entry."""
    return host.encode("ascii") + b"\0" + slot


def split_pending_key(key: bytes) -> tuple[str, bytes]:
    """Split a store key into (host, slot); raises EntryError."""
    host, _, slot = key.partition(b"\0")
    if not host or not host.isascii() or not slot or len(slot) != _SLOT_SIZES.get(slot[0]):
        raise EntryError(f"not a frontier key: {key!r}")
    return host.decode("ascii"), slot

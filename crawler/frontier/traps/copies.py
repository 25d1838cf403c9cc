"""Detects copies: pages with the same content as another page of their host.

Each page has two fingerprints. The *digest* identifies its bytes without white space. The *simhash* (Charikar 2002; for
web pages Manku, Jain and Das Sarma 2007) describes its words and is computed only if near copies are wanted: each run
of three words is hashed to 64 bits, and a bit of the simhash is set if it is set in most of these hashes. Pages whose
simhashes differ in at most 3 bits are near copies. Such a pair agrees in at least one of four bands of 16 bits, so a
page is compared only with pages that share a band, up to ``COMPARED_MOST`` of them.

The first page of a host with a fingerprint is the original. Its rows are written in the transaction that finishes it:

    host 00 64 digest              ->  URL         ("d")
    host 00 68 simhash             ->  URL         ("h")
    host 00 62 band value simhash  ->  nothing     ("b")
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from hashlib import blake2b
from itertools import islice
from typing import TypeVar, cast

import mmh3
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import TrapSettings
from crawler.url.urls.host_key import host_key

try:
    from crawler.base.native import compiled as _native
except ImportError:  # fall back to the Python implementation
    digest_at_once = None
else:
    digest_at_once = _native.content_digest

DISTANCE = 3  # maximum number of bits in which the simhashes of near copies differ
SIMHASH_BYTES_MOST = 256 * 1024  # bytes; hashing the words of a larger page would delay the crawl
COMPARED_MOST = 64  # maximum number of pages compared for each shared band
_BANDS = 4
_WORDS = 3  # number of words that are hashed together
_AT_ONCE = 4_096
_BYTES_AT_ONCE = 2**20
_SPACE = b" \t\n\r\f"
TAG = re.compile(rb"<[^>]*+>?")
_WORD = re.compile(rb"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]++")


T = TypeVar("T")
Pieces = Generator[None, None, T]  # interruptible work that yields every few milliseconds


class CopyRecordError(ValueError):
    """Raised when a stored row is not a valid fingerprint."""


class Content(Struct, frozen=True):
    """The fingerprints of a page, and the URL of the original on its host (None if the page is the original)."""

    digest: bytes
    simhash: int | None = None
    duplicate_of: str | None = None


class Copies:
    """The fingerprints of all pages of a job."""

    def __init__(self, settings: TrapSettings, store: Reader) -> None:
        self._settings = settings
        self._store = store

    def measure(self, body: bytes) -> Pieces[Content | None]:
        """Compute the fingerprints of a page as if it were an original. Returns None if copies are not detected."""
        if self._settings.duplicates == "off":
            return None
        near = self._settings.near_duplicates and len(body) <= SIMHASH_BYTES_MOST
        digest = yield from _digest(body)
        return Content(digest, (yield from simhash(body)) if near else None)

    def compare(self, href: str, content: Content) -> Content:
        """Return the fingerprints of the page at this URL, with its original. Raises CopyRecordError."""
        host = host_key(href).encode("ascii") + b"\0"
        original = self._store.get(Family.CONTENT, host + b"d" + content.digest)
        if original is None and content.simhash is not None:
            original = self.near(host, content.simhash)
        url = None if original is None else _url(original)
        return replace(content, duplicate_of=None if url == href else url)

    def is_new(self, href: str, content: Content | None) -> bool:
        """Return True if no other page of the host has these bytes, and False if copies are not detected."""
        if content is None or content.duplicate_of is None:
            return content is not None
        key = host_key(href).encode("ascii") + b"\0d" + content.digest
        return content.simhash is not None and self._store.get(Family.CONTENT, key) is None

    def near(self, host: bytes, simhash: int) -> bytes | None:
        """Return the URL of a page with a similar simhash, or None. ``host`` is the key prefix of the page's host."""
        for start in _bands(host, simhash):
            rows = self._store.scan(Family.CONTENT, start, start + b"\xff" * 9, COMPARED_MOST)
            for key, _ in rows:
                other = int.from_bytes(key[-8:], "big")
                if (other ^ simhash).bit_count() <= DISTANCE:
                    return self._store.get(Family.CONTENT, host + b"h" + key[-8:])
        return None


def remember(href: str, content: Content, batch: Batch) -> None:
    """Add the fingerprints of an original to the batch of the transaction that finishes it."""
    if content.duplicate_of is not None:
        return
    host, url = host_key(href).encode("ascii") + b"\0", href.encode("ascii")
    batch.put(Family.CONTENT, host + b"d" + content.digest, url)
    if content.simhash is not None:
        mark = content.simhash.to_bytes(8, "big")
        batch.put(Family.CONTENT, host + b"h" + mark, url)
        for start in _bands(host, content.simhash):
            batch.put(Family.CONTENT, start + mark, b"")


def content_digest(body: bytes) -> bytes:
    """Return 16 bytes: BLAKE2b of the body without white space.

    The hash is cryptographic, so that the author of a page cannot make another page of the host look like a copy of
    that page.
    """
    return driven(_digest(body))


def _digest(body: bytes) -> Pieces[bytes]:
    if digest_at_once is not None and len(body) <= _BYTES_AT_ONCE:
        return digest_at_once(body)
    digest = blake2b(digest_size=16)
    for start in range(0, len(body), _BYTES_AT_ONCE):
        if start:
            yield
        digest.update(body[start : start + _BYTES_AT_ONCE].translate(None, _SPACE))
    return digest.digest()


def simhash(body: bytes) -> Pieces[int | None]:
    """Return the simhash of the words outside tags, or None if there are fewer than three words."""
    words = _WORD.findall(TAG.sub(b" ", body).lower())
    runs = (b" ".join(words[at : at + _WORDS]) for at in range(len(words) - _WORDS + 1))
    ones, total = np.zeros(64, np.int64), 0
    while hashed := [mmh3.hash_bytes(run)[:8] for run in islice(runs, _AT_ONCE)]:
        bits = np.unpackbits(np.frombuffer(b"".join(hashed), np.uint8).reshape(-1, 8), axis=1)
        ones += bits.sum(axis=0, dtype=np.int64)
        total += len(hashed)
        if len(hashed) == _AT_ONCE:
            yield
    if not total:
        return None
    return int.from_bytes(np.packbits(2 * ones > total).tobytes(), "big")


def driven(pieces: Pieces[T]) -> T:
    """Run the generator to its end and return its result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return cast("T", end.value)


def check_content(key: bytes, value: bytes) -> None:
    """Raise CopyRecordError if a row is not a valid fingerprint."""
    host, nul, mark = key.partition(b"\0")
    sizes = {b"d": 17, b"h": 9, b"b": 12}
    if not host or not nul or len(mark) != sizes.get(mark[:1]):
        raise CopyRecordError("not a key of a page's fingerprint")
    if mark[:1] == b"b":
        if value:
            raise CopyRecordError("a band has no value")
    else:
        _url(value)


def _bands(host: bytes, simhash: int) -> Iterator[bytes]:
    mark = simhash.to_bytes(8, "big")
    for band in range(_BANDS):
        yield host + b"b" + bytes([band]) + mark[2 * band : 2 * band + 2]


def _url(value: bytes) -> str:
    if not value.startswith(b"http") or not value.isascii():
        raise CopyRecordError("not the URL of a page")
    return value.decode("ascii")

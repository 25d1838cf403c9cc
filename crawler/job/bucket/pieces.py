"""Pieces of files in a bucket: each is stored once, under the digest of its content.

    piece = zstd of the bytes; its name is the BLAKE2b-160 of the bytes, plus -1, -2, ... if older pieces have that name

``tidying`` removes a piece that is at least KEEP old and in no snapshot. A snapshot therefore relies only on pieces
that other kept snapshots name, and on those put recently; any other piece is put again under another name.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from hashlib import blake2b
from typing import BinaryIO

from crawler.job.bucket.layout import KEEP, PIECES, Stored, piece_name
from crawler.job.bucket.objects import BucketDown, BucketError, Objects

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 8 * 2**20  # bytes
# Seconds for which a piece without a snapshot is relied on, from the time when it was put or found to exist.
# The rest of KEEP is left for completing the snapshot that will name it.
RELIED_ON = KEEP / 4
_LEVEL = 1
_DIGEST = 20
NOTHING = Stored()
_LARGEST = 2**31  # maximum bytes of a decompressed piece


class MissingPieceError(BucketError):
    """A piece is not in the bucket: it was removed, perhaps along with the snapshot that names it."""


class Pieces:
    """Puts the pieces of one partition, and reads those of any partition. ``written`` and ``bytes`` count the pieces
    put by this object and their bytes. ``is_over``: no more pieces are put, because the process is ending. ``now``: the
    time of the snapshot that will name them, in seconds since 1970."""

    def __init__(self, objects: Objects, partition: int, known: Iterable[str] = (), now: float = 0.0) -> None:
        """``known``: the names of existing pieces that are not removed meanwhile."""
        self.is_over = False
        self.now = now
        self.written = 0
        self.bytes = 0
        self._known = {_digest(name): name for name in known}
        self._objects = objects
        self._partition = partition

    def put(self, data: bytes) -> str:
        """Store the piece unless it is in the bucket, and return its name. Raises BucketError, BucketDown."""
        if self.is_over:
            raise BucketDown("the process is ending")
        digest = blake2b(data, digest_size=_DIGEST).hexdigest()
        # The partition from which this one was split may have stored it.
        name = self._known.get(digest)
        if name is None:
            name = self._known[digest] = self._put(piece_name(self._partition, digest), zstd.compress(data, _LEVEL))
        return name

    def _put(self, first: str, packed: bytes) -> str:
        for again in itertools.count():
            name = f"{first}-{again}" if again else first
            if self._objects.put(f"{PIECES}{name}", packed):
                self.written, self.bytes = self.written + 1, self.bytes + len(packed)
                break
            found = {each.key: each.modified for each in self._objects.list(f"{PIECES}{name}")}
            if found.get(f"{PIECES}{name}", 0.0) > self.now - RELIED_ON:
                break
        return name

    def know_only(self, names: set[str]) -> None:
        """Rely only on these pieces from now on, because all others may be removed."""
        self._known = {digest: name for digest, name in self._known.items() if name in names}

    def get(self, name: str) -> bytes:
        """Return the bytes of a piece. Raises BucketError, MissingPieceError, BucketDown."""
        key = f"{PIECES}{name}"
        packed = self._objects.get(key)
        if packed is None:
            raise MissingPieceError(f"{self._objects.address}/{key} is missing")
        try:
            data = zstd.ZstdDecompressor().decompress(packed, _LARGEST)
        except zstd.ZstdError:
            data = b""
        if blake2b(data, digest_size=_DIGEST).hexdigest() != _digest(name):
            raise BucketError(f"{self._objects.address}/{key} is damaged: its bytes do not match its digest")
        return data

    def store(self, stream: BinaryIO, end: int, before: Stored = NOTHING) -> Stored:
        """Store the bytes of a file up to ``end``. The file starts with ``before``, which is already stored. Raises
        EOFError if the file is shorter, OSError, BucketError, BucketDown."""
        stream.seek(before.size)
        pieces, at = list(before.pieces), before.size
        while at < end:
            data = stream.read(min(PIECE, end - at))
            if not data:
                raise EOFError(f"a file has {at} bytes where {end} are needed")
            pieces.append(self.put(data))
            at += len(data)
        return Stored(end, tuple(pieces))

    def begins(self, stream: BinaryIO, end: int, before: Stored) -> bool:
        """Return True if the first ``end`` bytes of the file start with ``before``. Only the last piece of ``before``
        is compared. Raises OSError, BucketError, BucketDown."""
        if not before.pieces or before.size > end:
            return not before.size
        last = self.get(before.pieces[-1])
        stream.seek(before.size - len(last))
        return stream.read(len(last)) == last


def _digest(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[0]

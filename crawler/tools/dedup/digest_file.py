"""The digests of a filter's keys, in a file next to it, from which its chain can be rebuilt as one slice.

    FILE.digests  =  magic  id  digest*

    magic         8 bytes   89 44 47 53 54 0D 0A 1A   ("DGST", in the format of a segment's magic)
    id            16 bytes  random; also stored in FILE, to detect mismatched files
    digest        16 bytes  of each key, in the order in which they were added

FILE stores in ``digests`` of its first header how many of the digests belong to its keys, and their CRC-32C. Any
further digests were added by a run that was killed before it stored FILE again; the next run cuts them off. So FILE is
authoritative, and the order of writes is: digests, sync, FILE.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from crc32c import crc32c
from msgspec import Meta, Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from crawler.base.disk import Disk, DiskFile, RealDisk
from crawler.base.faults import UserFault
from crawler.seen.filters import DIGEST_BYTES, JSON, FilterError

MAGIC = b"\x89DGST\r\n\x1a"
_ID_BYTES = 16
_HEAD = len(MAGIC) + _ID_BYTES


class DigestsLostError(UserFault):
    """The file does not hold the digests of the filter. The message is one line for the user."""


class Mark(Struct, frozen=True, rename={"checksum": "crc32c"}):
    """The part of a file of digests that belongs to a filter."""

    id: str  # hexadecimal
    count: Annotated[int, Meta(ge=0)]
    checksum: int  # CRC-32C of these digests

    def as_json(self) -> dict[str, JSON]:
        fields: dict[str, JSON] = to_builtins(self)
        return fields

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Mark:
        """Decode the output of ``as_json``. Raises FilterError."""
        try:
            return convert(stored, cls)
        except ValidationError as error:
            raise FilterError(f"the mark of its digests is damaged: {dict(stored)}") from error


class DigestFile:
    """An open file of digests. ``mark`` covers all appended digests."""

    def __init__(self, path: Path, file: DiskFile, mark: Mark) -> None:
        self.path = path
        self.mark = mark
        self._file = file

    @classmethod
    def create(cls, path: Path, disk: Disk | None = None) -> DigestFile:
        """Create an empty file, or empty the file that a deleted filter has left. Raises OSError, and DigestsLostError
        if the existing file is of another type."""
        file = (disk or RealDisk()).open(path, create=True)
        try:
            if file.size() and file.pread(len(MAGIC), 0) != MAGIC:
                raise DigestsLostError(f"{path} exists but is not a file of digests: move it, or choose another FILE")
            file.truncate(0)
            id = secrets.token_bytes(_ID_BYTES)
            file.append(MAGIC + id)
        except BaseException:
            file.close()
            raise
        return cls(path, file, Mark(id.hex(), 0, 0))

    @classmethod
    def resume(cls, path: Path, mark: Mark, disk: Disk | None = None) -> DigestFile:
        """Open the file that ``mark`` belongs to. Raises OSError, and DigestsLostError without changing the file."""
        try:
            file = (disk or RealDisk()).open(path)
        except FileNotFoundError:
            raise DigestsLostError(f"{path} is missing") from None
        try:
            head = file.pread(_HEAD, 0)
            if head[: len(MAGIC)] != MAGIC:
                raise DigestsLostError(f"{path} is not a file of digests")
            if head[len(MAGIC) :].hex() != mark.id:
                raise DigestsLostError(f"{path} belongs to another filter")
            end = _HEAD + mark.count * DIGEST_BYTES
            if file.size() < end:
                raise DigestsLostError(f"{path} is truncated")
            file.truncate(end)
        except BaseException:
            file.close()
            raise
        return cls(path, file, mark)

    def append(self, digests: bytes) -> None:
        """Append the digests of new keys. Raises OSError; after such an error, FILE must not be stored."""
        self._file.append(digests)
        count = self.mark.count + len(digests) // DIGEST_BYTES
        self.mark = replace(self.mark, count=count, checksum=crc32c(digests, self.mark.checksum))

    def read(self, start: int, count: int) -> bytes:
        """Read at most ``count`` digests, starting with number ``start``. Raises OSError."""
        left = min(count, self.mark.count - start)
        return self._file.pread(left * DIGEST_BYTES, _HEAD + start * DIGEST_BYTES)

    def sync(self) -> None:
        """Make all digests that ``mark`` covers durable. Raises OSError."""
        self._file.sync()

    def close(self) -> None:
        self._file.close()

"""Reads the records of a WARC file: the offset of each member, its fields and the head of its block.

Other libraries also read WARC files, but silently skip a truncated or damaged end, so an index would lack pages without
any notice. Here damage raises an error that states where it is. The memory used is bounded by the size of the pieces
that are read, not by that of a record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from crawler.web.archive.record_layout import VERSION

_PIECE = 2**16  # bytes to read at a time
_INFLATED = 2**18  # bytes to decompress at a time
_HEAD_MOST = 2**22  # bytes of fields; far more than any writer produces
_GZIP = 31  # zlib's window size for gzip members
_GAP = b"\r\n\r\n"

Read = Callable[[int], bytes]


class WarcError(ValueError):
    """The file is damaged at ``offset``, the start of a record."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"offset {offset}: {why}")
        self.offset = offset


class FoundRecord(Struct, frozen=True):
    """A record. ``offset`` and ``length`` are those of its gzip member in the file; the names in ``fields`` are in
    lower case. ``block`` is the block, or its requested beginning."""

    offset: int
    length: int
    fields: Mapping[str, str]
    block: bytes


def read_records(read: Read, most: int) -> Iterator[FoundRecord]:
    """Yield the records of a file, in order, each with the first ``most`` bytes of its block. ``read(size)`` returns
    the next bytes, at most ``size``, and none at the end. Raises WarcError at the first incomplete record."""
    offset, ahead = 0, b""
    while ahead := ahead or read(_PIECE):  # a record may end exactly at the end of a piece
        member = _Member(offset, most)
        ahead = member.take(ahead, read)
        yield FoundRecord(offset, member.length, member.fields, bytes(member.kept[: member.size]))
        offset += member.length


class _Member:
    """A member being read. ``kept`` contains the bytes of the fields, then those of the block."""

    def __init__(self, offset: int, most: int) -> None:
        self.kept = bytearray()
        self.fields: Mapping[str, str] = {}
        self.length = 0
        self.size = 0  # bytes of the block, from its Content-Length field
        self._offset = offset
        self._most = most
        self._came = -1  # bytes received after the fields; -1 while the fields are incomplete
        self._tail = b""

    def take(self, ahead: bytes, read: Read) -> bytes:
        """Read the member, whose first bytes are ``ahead``. Returns the bytes that were read beyond its end."""
        inflate = zlib.decompressobj(_GZIP)
        while not inflate.eof:
            if not ahead and not (ahead := read(_PIECE)):
                raise self._error("the file ends inside the record")
            try:
                data = inflate.decompress(ahead, _INFLATED)
            except zlib.error as error:
                raise self._error(str(error)) from error
            left = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            self.length += len(ahead) - len(left)
            ahead = left
            self._add(data)
        if self._came != self.size + len(_GAP) or self._tail != _GAP:
            raise self._error("the length of the record differs from its Content-Length")
        return ahead

    def _add(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-len(_GAP) :]
        if self._came < 0:
            self.kept += data
            end = self.kept.find(_GAP)
            if end < 0:
                if len(self.kept) > _HEAD_MOST:
                    raise self._error("the end of the record's fields is missing")
                return
            self.fields, self.size = self._head(bytes(self.kept[: end + 2]))
            del self.kept[: end + len(_GAP)]
            self._came = len(self.kept)
            del self.kept[self._most :]
            return
        self._came += len(data)
        self.kept += data[: max(0, self._most - len(self.kept))]

    def _head(self, head: bytes) -> tuple[Mapping[str, str], int]:
        if not head.startswith(VERSION):
            raise self._error("no record starts here")
        fields: dict[str, str] = {}
        for line in head[len(VERSION) :].decode("utf-8", "replace").split("\r\n"):
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        stated = fields.get("content-length", "")
        if not (stated.isascii() and stated.isdigit()):
            raise self._error("the record has no valid Content-Length")
        return fields, int(stated)

    def _error(self, why: str) -> WarcError:
        return WarcError(self._offset, why)

"""Reads the lines of a seed list, without comments, compressed or not, in bounded memory.

The compression is detected by the first bytes, not by the name: gzip, zstd, bzip2 and xz. Concatenated members are read
as one list, as by ``zcat``.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LINE_MAX = 64 * 1024  # characters, including the line feed; no URL is longer
_COMMENT = re.compile(r"(?:\A|\s+)#")
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = 80  # characters shown of a line that is too long
_PIECE = 64 * 1024  # bytes that are read or passed on at a time
_MAGIC_LENGTH = 6
_XZ_MEMORY = 128 * 1024 * 1024  # memory limit in bytes: `xz -9` needs 65 MiB
_ZSTD_WINDOW = 27  # log2 of bytes: the limit of `zstd -d` without a flag, and the window of `zstd --ultra -22`


class DamagedListError(ValueError):
    """A compressed list that cannot be decompressed to its end."""


def _gzip() -> Any:
    return zlib.decompressobj(wbits=31)


def _zstd() -> Any:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW})


def _xz() -> Any:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


# First bytes -> (name, factory of a decompressor for one member)
_CODINGS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", _xz),
}
_FAULTS = (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, ValueError)  # bz2 raises OSError


def urls_of(stream: BinaryIO) -> Iterator[str]:
    """Yield the URLs of a list, as written. A line over 64 KiB, or one whose URL is not UTF-8, yields an error text
    instead. A list with a UTF-16 byte order mark is read as UTF-16. ``stream`` is unbuffered or has ``read1``. Raises
    OSError, DamagedListError."""
    plain = plain_bytes(stream)
    wide = plain.peek(2).startswith(UTF_16)
    # A lone carriage return also ends a line: inside a URL it would vanish and join two URLs.
    lines = io.TextIOWrapper(plain, *(("utf-16", "replace") if wide else ("utf-8-sig", "surrogateescape")))
    number = 0
    while line := lines.readline(LINE_MAX + 1):
        number += 1
        rest = line
        while rest and not rest.endswith("\n"):
            rest = lines.readline(LINE_MAX)
        text = parse_line(line)
        if len(line) > LINE_MAX:
            yield f"(a line over {LINE_MAX:,} bytes) {_readable(line[:_SHOWN])}"
        elif text is not None:
            readable = _readable(text)
            yield text if readable == text else f"(line {number:,} is not UTF-8) {readable}"


def parse_line(line: str) -> str | None:
    """Return the URL of a line, or None for an empty line or a comment. Text after a space and ``#`` is a comment too:
    a URL has no spaces, and browsers would read it as another page's URL."""
    text = line.strip()
    if "#" in text:
        text = _COMMENT.split(text, maxsplit=1)[0]
    return text or None


def _readable(text: str) -> str:
    """Return the text with bytes that are not UTF-8 escaped as ``\\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def plain_bytes(stream: BinaryIO) -> io.BufferedReader:
    """Return a reader of the decompressed list. It passes data on as it arrives."""
    read = getattr(stream, "read1", stream.read)
    head = b""
    while len(head) < _MAGIC_LENGTH and b"\n" not in head and (piece := read(_PIECE)):
        head += piece
    return io.BufferedReader(_Plain(read, head, *_coding_of(head)), _PIECE)


def coding_of(head: bytes) -> str | None:
    """Return the name of the compression of a list that starts with ``head``, or None."""
    return _coding_of(head)[0]


def _coding_of(head: bytes) -> tuple[str | None, Callable[[], Any] | None]:
    return next((found for magic, found in _CODINGS.items() if head.startswith(magic)), (None, None))


class _Plain(io.RawIOBase):
    """The decompressed bytes of a stream, a piece at a time."""

    def __init__(
        self, read: Callable[[int], bytes], head: bytes, name: str | None, make: Callable[[], Any] | None
    ) -> None:
        self._read, self._ahead = read, head
        self._name, self._make = name, make
        self._member = None if make is None else make()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._take(len(buffer)) if self._make is None else self._decompressed(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def _take(self, most: int) -> bytes:
        piece = self._ahead or self._read(most)
        piece, self._ahead = piece[:most], piece[most:]
        return piece

    def _decompressed(self, most: int) -> bytes:
        while True:
            if self._member is None and not self._next_member():
                return b""
            found, ended = self._piece(most)
            if ended:
                self._member = None
            if found:
                return found

    def _next_member(self) -> bool:
        """Start the next member, if there is one. Zeros between members, as on tapes, are skipped."""
        assert self._make is not None
        piece = self._ahead or self._read(_PIECE)
        while piece and not piece.strip(b"\0"):
            piece = self._read(_PIECE)
        self._ahead = piece.lstrip(b"\0")
        self._member = self._make() if piece else None
        return bool(piece)

    def _piece(self, most: int) -> tuple[bytes, bool]:
        """Return the next decompressed bytes and whether the member has ended. Raises DamagedListError."""
        member: Any = self._member
        if not self._ahead and getattr(member, "needs_input", True):
            self._ahead = self._read(_PIECE)
            if not self._ahead:
                raise DamagedListError(f"its {self._name} data is cut off")
        try:
            found: bytes = member.decompress(self._ahead, most)
        except _FAULTS as error:
            raise DamagedListError(f"its {self._name} data is damaged") from error
        # zlib returns the input it has not used; the other decompressors keep it until the member ends.
        self._ahead = member.unused_data or getattr(member, "unconsumed_tail", b"")
        return found, bool(member.eof)

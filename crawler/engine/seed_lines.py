"""Reads the lines of a list of seeds, comments left out, compressed or not, in bounded memory.

What a list is compressed with is told by its first bytes, not by its name: gzip, zstd, bzip2 and xz. Members that
follow one another are one list, as for ``zcat``.
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

LINE_MAX = 64 * 1024  # characters, with the line feed; no URL is longer
_COMMENT = re.compile(r"(?:\A|\s+)#")
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = 80  # characters shown of a line that is too long
_PIECE = 64 * 1024  # bytes read, and bytes handed on, at a time
_MAGIC_LENGTH = 6
_XZ_MEMORY = 128 * 1024 * 1024  # bytes: `xz -9` needs 65 MiB
_ZSTD_WINDOW = 27  # log2 of bytes: what `zstd -d` takes without a flag, and `zstd --ultra -22` makes


class DamagedListError(ValueError):
    """The list is compressed, and cannot be decompressed to its end."""


def _gzip() -> Any:
    return zlib.decompressobj(wbits=31)


def _zstd() -> Any:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW})


def _xz() -> Any:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


# First bytes -> (name, what makes a decompressor of one member)
_CODINGS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", _xz),
}
_FAULTS = (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, ValueError)  # bz2 raises OSError


def urls_of(stream: BinaryIO) -> Iterator[str]:
    """Yield the URLs of a list, as they are written. For a line over 64 KiB, or one that is not UTF-8 where its URL
    stands, this is a text that says so. A list with a byte order mark of UTF-16 is in UTF-16. ``stream`` is unbuffered
    or has ``read1``. Raises OSError, DamagedListError."""
    plain = plain_bytes(stream)
    wide = plain.peek(2).startswith(UTF_16)
    # A lone carriage return ends a line too: in a URL it would vanish, and join two of them.
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
    """Return the URL of a line, or None for an empty line or a comment. What follows a space and ``#`` is a comment
    too: no URL has spaces, and browsers would make a page of another name of it."""
    text = line.strip()
    if "#" in text:
        text = _COMMENT.split(text, maxsplit=1)[0]
    return text or None


def _readable(text: str) -> str:
    """Return the text with the bytes that are not UTF-8 as ``\\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def plain_bytes(stream: BinaryIO) -> io.BufferedReader:
    """Return what the list is when it is decompressed. What it returns is handed on as it arrives."""
    read = getattr(stream, "read1", stream.read)
    head = b""
    while len(head) < _MAGIC_LENGTH and b"\n" not in head and (piece := read(_PIECE)):
        head += piece
    return io.BufferedReader(_Plain(read, head, *_coding_of(head)), _PIECE)


def coding_of(head: bytes) -> str | None:
    """Return the name of what the list that begins so is compressed with."""
    return _coding_of(head)[0]


def _coding_of(head: bytes) -> tuple[str | None, Callable[[], Any] | None]:
    return next((found for magic, found in _CODINGS.items() if head.startswith(magic)), (None, None))


class _Plain(io.RawIOBase):
    """The plain bytes of a stream, a piece at a time."""

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
        """Begin the next member, if there is one. Zeros between members, as on tapes, are passed over."""
        assert self._make is not None
        piece = self._ahead or self._read(_PIECE)
        while piece and not piece.strip(b"\0"):
            piece = self._read(_PIECE)
        self._ahead = piece.lstrip(b"\0")
        self._member = self._make() if piece else None
        return bool(piece)

    def _piece(self, most: int) -> tuple[bytes, bool]:
        """(The next plain bytes, whether the member has ended). Raises DamagedListError."""
        member: Any = self._member
        if not self._ahead and getattr(member, "needs_input", True):
            self._ahead = self._read(_PIECE)
            if not self._ahead:
                raise DamagedListError(f"its {self._name} data ends in the middle")
        try:
            found: bytes = member.decompress(self._ahead, most)
        except _FAULTS as error:
            raise DamagedListError(f"its {self._name} data is damaged") from error
        # zlib hands back what it has not used; the others keep it until the member ends.
        self._ahead = member.unused_data or getattr(member, "unconsumed_tail", b"")
        return found, bool(member.eof)

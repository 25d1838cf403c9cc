"""Undoes content codings (RFC 9110, 8.4) piece by piece, so that the expanded body is never in memory as a whole.

``Content-Encoding`` names the codings in the order in which they were applied. Servers and browsers are more tolerant
than the RFC: a body that is wrongly labelled as gzip is used unchanged, and so is one with an unknown coding; data
after the end of a coding is ignored, with a note; deflate is accepted with and without the zlib header.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import brotli  # type: ignore[import-untyped]

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 256 * 1024  # bytes that a stage passes on at once
MAX_CODINGS = 5  # no honest server applies more than two; curl has the same limit
_MAX_MEMBERS = 1_024  # maximum gzip members or zstd frames in one body: more would only cost time
_ZSTD_WINDOW = 23  # log2 of bytes; the maximum of RFC 9659 in HTTP, 8 MiB
_SLACK = 64 * 1024  # bytes by which a coded form may exceed the size limit, in addition to one eighth
_ZLIB_METHOD = 8
_STEP = 4096  # coded bytes per step when locating a fault
_NO_CODING = frozenset(("", "identity", "none", "utf-8", "utf8", "binary", "8bit", "7bit"))


class Undecodable(ValueError):
    """The body is not in the coding named by its headers."""


class Overlong(ValueError):
    """A body, or one of its coded forms, is longer than allowed."""


class _Stage(Protocol):
    """Undoes one coding."""

    plain: bool  # the body was not in this coding, and is passed on unchanged
    window: int  # bytes of history for a long body; 0 if too few to count

    @property
    def cut(self) -> bool:
        """True if data after the end of the coding was ignored."""

    @property
    def short(self) -> bool:
        """True if the coding has started and not ended."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the output for ``data``, in pieces of about ``PIECE`` bytes; raise Undecodable."""

    def end(self) -> None:
        """Raise Undecodable if the body must not end here."""


class _Members:
    """A format of concatenated streams: gzip and zstd."""

    def __init__(self, new: Callable[[], Any], begins: Callable[[bytes], bool | None], window: int = 0) -> None:
        self.plain = False
        self.window = window
        self._new = new
        self._begins = begins
        self._current: Any = None
        self._begin = b""  # too few bytes to identify the next member
        self._members = 0
        self._over = False

    @property
    def cut(self) -> bool:
        return self._over

    @property
    def short(self) -> bool:
        return self._current is not None or bool(self._begin)  # the body ends within the header of a member

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data and not self._over:
            if self.plain:
                yield data
                return
            if self._current is None:
                data = self._begin + data
                begins = self._begins(data)
                if begins is None:
                    self._begin = data
                    return
                self._begin = b""
                self._open(begins)
                if self._current is None:
                    continue
            out, data, more = _undo(self._current, data)
            if out:
                yield out
            while more:
                out, data, more = _undo(self._current, data)
                if out:
                    yield out
            if self._current.eof:
                data = self._current.unused_data
                self._current = None

    def _open(self, begins: bool) -> None:
        if begins:
            self._members += 1
            if self._members > _MAX_MEMBERS:
                raise Undecodable(f"more than {_MAX_MEMBERS} members")
            self._current = self._new()
        elif self._members:
            self._over = True  # padding or garbage after the last member
        else:
            self.plain = True

    def end(self) -> None:
        """Accept any end of the body: browsers show the part that arrived."""


def _undo(stream: Any, data: bytes) -> tuple[bytes, bytes, bool]:
    """Return the output, the unused input, and whether more output follows without further input."""
    try:
        out: bytes = stream.decompress(data, PIECE)
    except (zlib.error, zstd.ZstdError) as error:
        raise Undecodable(str(error)) from error
    left: bytes = getattr(stream, "unconsumed_tail", b"")
    return out, left, not stream.eof and (bool(left) or len(out) >= PIECE)


class _Deflate:
    """The zlib format, with or without its header: implementations disagree about the RFC."""

    def __init__(self) -> None:
        self.plain = self.cut = False
        self.window = 0
        self._begin = b""
        self._inflate: Any = None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._begin + data
            if len(data) < 2:
                self._begin = data
                return
            self._begin = b""
            zlib_header = data[0] & 15 == _ZLIB_METHOD and int.from_bytes(data[:2]) % 31 == 0
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS)
        if self._inflate.eof:
            self.cut = self.cut or bool(data)
            return
        more = bool(data)
        while more:
            out, data, more = _undo(self._inflate, data)
            if out:
                yield out
        self.cut = bool(self._inflate.unused_data)

    @property
    def short(self) -> bool:
        return self._inflate is not None and not self._inflate.eof

    def end(self) -> None:
        if self._begin or self.short:
            raise Undecodable("ends too early")


class _Brotli:
    """The Brotli format. The library rejects a stream that is followed by other data, and loses the output of the same
    call, so ``salvage`` finds the end of the stream."""

    def __init__(self) -> None:
        self.plain = self.cut = False
        self.window = 0
        self._stream = brotli.Decompressor()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._stream.is_finished():
            self.cut = self.cut or bool(data)
            return
        if not self.window and data:
            self.window = _brotli_window(data[0])
        try:
            yield from _unbrotli(self._stream, data)
        except brotli.error as error:
            raise Undecodable("not brotli") from error

    @property
    def short(self) -> bool:
        return self.window > 0 and not self._stream.is_finished()

    def end(self) -> None:
        """Accept any end of the body: browsers show the part that arrived."""


def _unbrotli(stream: Any, data: bytes) -> Iterator[bytes]:
    while not stream.is_finished():
        out = stream.process(data, output_buffer_limit=PIECE)
        data = b""
        if out:
            yield out
        elif stream.can_accept_more_data():
            return  # the error also occurs while the stream still holds output


def _brotli_window(first: int) -> int:
    """Return the window size of a stream in bytes, from its first byte (RFC 7932, 9.1)."""
    if not first & 1:
        return 1 << 16
    if first & 0b1110:
        return 1 << (17 + (first >> 1 & 7))
    return 1 << (8 + (first >> 4 & 7)) if first & 0b1110000 else 1 << 17


def _gzip() -> _Stage:
    return _Members(lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), _begins_gzip)


def _zstd() -> _Stage:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW}
    return _Members(lambda: zstd.ZstdDecompressor(options=options), _begins_zstd, 1 << _ZSTD_WINDOW)


GZIP = b"\x1f\x8b"
_FRAME = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # follows a byte from 0x50 to 0x5f


def _begins_gzip(data: bytes) -> bool | None:
    """Return whether ``data`` starts a member; None if there is too little of it."""
    return data[:2] == GZIP if len(data) > 1 or data != GZIP[:1] else None


def _begins_zstd(data: bytes) -> bool | None:
    """Return whether ``data`` starts a frame; None if there is too little of it."""
    known = _FRAME if data[0] & 0xF0 != 0x50 else data[:1] + _SKIPPABLE
    if len(data) < len(known) and known.startswith(data):
        return None
    return data.startswith(known)


_STAGES: dict[str, Callable[[], _Stage]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _zstd,
}


@lru_cache(maxsize=256)
def _parse(header: str) -> tuple[str, ...]:
    names = (token.partition(";")[0].strip().lower() for token in header.split(","))
    return tuple(name for name in names if name not in _NO_CODING)


class Decoder:
    """Undoes the codings of one body. ``limit`` bounds the bytes of every form of the body but the last, which the
    caller counts, because a coded form that decodes to nothing could also be endless."""

    def __init__(self, codings: Sequence[str], limit: int) -> None:
        self._stages = [_STAGES[name]() for name in reversed(codings)]
        self._sizes = [0] * len(codings)
        self._names = tuple(reversed(codings))
        self._limit = limit + limit // 8 + _SLACK

    def pieces(self, data: bytes, stage: int = 0) -> Iterator[bytes]:
        """Yield the decoded bytes of ``data``. Raises Undecodable, Overlong."""
        self._sizes[stage] += len(data)
        if self._sizes[stage] > self._limit:
            raise Overlong(f"more than {self._limit} bytes of {self._names[stage]}")
        try:
            if stage + 1 == len(self._stages):
                yield from self._stages[stage].pieces(data)
                return
            for piece in self._stages[stage].pieces(data):
                yield from self.pieces(piece, stage + 1)
        except Undecodable as error:
            raise _named(error, self._names[stage]) from error

    def end(self) -> None:
        """Mark the body as complete. Raises Undecodable."""
        for stage, name in zip(self._stages, self._names, strict=True):
            try:
                stage.end()
            except Undecodable as error:
                raise _named(error, name) from error

    @property
    def short(self) -> str | None:
        """The coding whose end is missing although the body is complete, as if it had been cut off; None if there is
        none."""
        found = (name for name, stage in zip(self._names, self._stages, strict=True) if stage.short)
        return next(found, None)

    @property
    def window(self) -> int:
        """The bytes of history that the stages hold for a long body."""
        return sum(stage.window for stage in self._stages)

    @property
    def note(self) -> str | None:
        """A note about coding faults in a body that can be read nevertheless; None if there are none."""
        for name, stage in zip(self._names, self._stages, strict=True):
            if stage.plain:
                return f"the body is not {name}, although its headers say so"
            if stage.cut:
                return f"the data after the end of the {name} stream was ignored"
        return None


def salvage(header: str, data: bytes, limit: int) -> tuple[bytes, bool]:
    """Decode a damaged body up to the first error, and return the data and True if there was no error. ``Decoder``
    cannot be used for this: when it rejects its input, the output of that call is lost. ``limit`` bounds every form of
    the body; the codings must be known. This takes three times as long as ``Decoder``."""
    whole = True
    for name in reversed(_parse(header)):
        data, sound = _up_to_the_fault(_STAGES[name], data, limit)
        whole = whole and sound
    return data, whole


def _up_to_the_fault(new: Callable[[], _Stage], data: bytes, limit: int) -> tuple[bytes, bool]:
    """Decode one coding as ``salvage`` does. The step that contains the fault is decoded again, byte by byte."""
    fault = len(data)
    for _ in range(2):
        stage, out, at = new(), bytearray(), 0
        try:
            while at < len(data):
                step = 1 if fault <= at < fault + _STEP else _STEP
                for piece in stage.pieces(data[at : at + step]):
                    out += piece
                    if len(out) > limit:
                        return bytes(out), False
                at += step
            stage.end()
        except Undecodable:
            fault = at
        else:
            return bytes(out), not stage.short
    return bytes(out), False


class _Named(Undecodable):
    """An error whose message already names the coding."""


def _named(error: Undecodable, name: str) -> Undecodable:
    return error if isinstance(error, _Named) else _Named(f"{name}: {error}")


def decoder(header: str, limit: int) -> tuple[Decoder | None, str | None]:
    """Return the decoder for a ``Content-Encoding`` header (None if it names no coding), and a note about the header.
    Raises Undecodable."""
    codings = _parse(header)
    if not codings:
        return None, None
    unknown = [name for name in codings if name not in _STAGES]
    if unknown and len(unknown) == len(codings):
        return None, f"the content coding {unknown[0][:40]!r} is unknown, so the body was not decoded"
    if unknown:
        raise Undecodable(f"unknown coding {unknown[0][:40]!r} among others")
    if len(codings) > MAX_CODINGS:
        raise Undecodable(f"more than {MAX_CODINGS} codings")
    return Decoder(codings, limit), None

"""Small files that people can read and programs can verify: a head line with a checksum, then JSON.

    <magic> <version> <checksum>\\n
    <JSON, UTF-8>\\n

The checksum is the MurmurHash3 x64-128 (seed 0, 32 hexadecimal digits) of all bytes after the head line. A file larger
than ``MOST_BYTES`` is not read, because the program never writes one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import mmh3
import msgspec

from crawler.base.faults import UserFault

MOST_BYTES = 64 * 2**20  # far more than the program writes: the largest are inbox files, of at most 10,000 URLs
_HEAD_MAX = 200  # bytes; a longer first line is not a head
T = TypeVar("T")


class EnvelopeError(ValueError):
    """The file is not a valid envelope; the message names it and the problem."""


class UnknownVersionError(UserFault, EnvelopeError):
    """The file was written by another version of the program."""


def encode_envelope(magic: str, version: int, content: dict[str, Any]) -> bytes:
    """Return the bytes of an envelope with this content."""
    body = json.dumps(content, indent=1, sort_keys=True).encode("ascii") + b"\n"
    return f"{magic} {version} {mmh3.hash_bytes(body).hex()}\n".encode("ascii") + body


def read_envelope(path: Path, magic: str, version: int, name: str) -> dict[str, Any]:
    """Return the content of a file. Raises OSError and the exceptions of ``decode_envelope``."""
    return decode_envelope(read_bounded(path, name), magic, version, name)


def content_of(
    content: dict[str, Any], kind: type[T], name: str, dec_hook: Callable[[type, Any], Any] | None = None
) -> T:
    """Convert the content of an envelope to the type ``kind``; ``dec_hook`` is msgspec's. Raises EnvelopeError."""
    try:
        return msgspec.convert(content, kind, dec_hook=dec_hook)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # UnicodeEncodeError: half a surrogate pair in a key
        raise EnvelopeError(f"{name}: {error}") from error


def fault_of(read: Callable[[Path], object], directory: Path) -> str | None:
    """Return what is wrong with the file in the directory that ``read`` reads; None if it is intact, or missing."""
    try:
        read(directory)
    except (EnvelopeError, OSError) as error:
        return str(error)
    return None


def read_bounded(path: Path, name: str, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a small file. Raises OSError, and EnvelopeError if it is larger than ``most`` bytes, or a
    pipe or device, where a read could block."""
    with open(path, "rb", opener=_without_waiting) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise EnvelopeError(f"{name}: not a file")
        # `read` allocates all the requested bytes first, so do not ask for `most`.
        data = stream.read(min(status.st_size, most) + 1)
    if len(data) > most:
        raise EnvelopeError(f"{name}: larger than {most} bytes, so this program did not write it")
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Open without blocking, even a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def envelope_version(data: bytes, magic: str) -> int | None:
    """Return the version in the head line; None if the line is not the head of an envelope."""
    words = data[:_HEAD_MAX].partition(b"\n")[0].split(b" ")
    if len(words) != 3 or words[0] != magic.encode("ascii") or not words[1].isdigit():
        return None
    return int(words[1])


def decode_envelope(data: bytes, magic: str, version: int, name: str) -> dict[str, Any]:
    """Return the content of an envelope. ``name`` names the file in messages. Raises UnknownVersionError, and
    EnvelopeError for any other fault."""
    head, found, body = data.partition(b"\n")
    words = head[:_HEAD_MAX].split(b" ")
    if not found or len(words) != 3 or words[0] != magic.encode("ascii"):
        raise EnvelopeError(f"{name}: not a {magic} file (offset 0)")
    if words[1] != str(version).encode("ascii"):
        raise UnknownVersionError(
            f"{name}: {magic} version {words[1].decode('ascii', 'replace')}, this program reads version {version}"
        )
    if words[2] != mmh3.hash_bytes(body).hex().encode("ascii"):
        raise EnvelopeError(f"{name}: checksum does not match (offset {len(head) + 1})")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(f"{name}: not JSON (offset {len(head) + 1}): {error}") from error
    if not isinstance(content, dict):
        raise EnvelopeError(f"{name}: not a JSON object (offset {len(head) + 1})")
    return content

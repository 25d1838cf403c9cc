"""``DIR/homes.json``: in which directories the partitions of a crawl are at home, for good.

A partition stays in the directory in which it was first opened: begun anew in another one, it would not know what
others have long sent to it. What carries messages between workers may forget where that is, and the machine may be
away at that time. So whoever has partition 0 says where a partition is to begin, and notes it here before that. A
directory without partition 0 notes where that one is.

The file is an envelope with the number of each partition whose home is known, and the id of that directory.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from crawler.checkpoint import EnvelopeError, decode_envelope, encode_envelope, read_bounded
from crawler.disk import Disk, write_file
from crawler.job.directory import JobError

HOMES = "homes.json"
MAGIC = "crawler-homes"
VERSION = 1


def encode_homes(homes: Mapping[int, str]) -> bytes:
    """The bytes of the file."""
    return encode_envelope(MAGIC, VERSION, {f"{number:02}": home for number, home in sorted(homes.items())})


def decode_homes(data: bytes, name: str) -> dict[int, str]:
    """What the bytes of a file say; ``name`` is what messages call it. Raises JobError."""
    try:
        content = decode_envelope(data, MAGIC, VERSION, name)
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    if all(number.isdecimal() and isinstance(home, str) for number, home in content.items()):
        return {int(number): home for number, home in content.items()}
    raise JobError(f"{name}: not a list of directories")


def read_homes(directory: Path) -> dict[int, str]:
    """The homes that are known in the directory of a crawl. Raises JobError, OSError."""
    path = directory / HOMES
    try:
        return decode_homes(read_bounded(path, str(path)), str(path))
    except FileNotFoundError:
        return {}
    except EnvelopeError as error:
        raise JobError(str(error)) from error


def write_homes(disk: Disk, directory: Path, homes: Mapping[int, str]) -> None:
    """Replace the file, durably. Several processes of the directory may do so at once. Raises OSError."""
    part = directory / f"{HOMES}.{secrets.token_hex(8)}.part"
    try:
        write_file(disk, part, encode_homes(homes))
        disk.replace(part, directory / HOMES)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    disk.sync_directory(directory)

"""``DIR/homes.json``: in which directories the partitions of a crawl are at home.

A partition is at home where it was first opened: begun anew in another directory, it would not know what others have
long sent to it. What carries messages between workers may forget where that is, and the machine may be away at that
time. So whoever has partition 0 says where a partition is to begin, and notes it here before that.

A partition that has moved, or whose replica took its place, has another home, in the epoch of its claim then. The
greatest epoch counts. Everybody who learns of a home notes it before anything else, because the machine of partition 0
may be lost with its notes.

The file is an envelope with the number of each partition whose home is known, and a list of the id of that directory
and the epoch.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from crawler.base.disk import Disk, write_file
from crawler.job.checkpoint.envelope import EnvelopeError, decode_envelope, encode_envelope, read_bounded
from crawler.job.directory import JobError

HOMES = "homes.json"
MAGIC = "crawler-homes"
VERSION = 1
EPOCH_MOST = 2**63 - 1


class Home(NamedTuple):
    """Where a partition is: the id of a directory, and the epoch in which it came there; 0 where it began."""

    id: str
    epoch: int = 0


def encode_homes(homes: Mapping[int, Home]) -> bytes:
    """The bytes of the file."""
    return encode_envelope(MAGIC, VERSION, {f"{number:02}": list(home) for number, home in sorted(homes.items())})


def decode_homes(data: bytes, name: str) -> dict[int, Home]:
    """What the bytes of a file say; ``name`` is what messages call it. Raises JobError."""
    try:
        content = decode_envelope(data, MAGIC, VERSION, name)
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    homes = {number: _home(value) for number, value in content.items() if number.isdecimal()}
    known = {int(number): home for number, home in homes.items() if home is not None}
    if len(known) != len(content):
        raise JobError(f"{name}: not a list of directories")
    return known


def _home(value: Any) -> Home | None:
    match value:
        case [str(own), int(epoch)] if not isinstance(epoch, bool) and 0 <= epoch <= EPOCH_MOST:
            return Home(own, epoch)
    return None


def read_homes(directory: Path) -> dict[int, Home]:
    """The homes that are known in the directory of a crawl. Raises JobError, OSError."""
    path = directory / HOMES
    try:
        return decode_homes(read_bounded(path, str(path)), str(path))
    except FileNotFoundError:
        return {}
    except EnvelopeError as error:
        raise JobError(str(error)) from error


def homes_elsewhere(directory: Path, own: str) -> set[int]:
    """The numbers of the partitions that are at home in other directories than this one, whose id is ``own``, as far as
    is known here. Raises JobError, OSError."""
    return {number for number, home in read_homes(directory).items() if home.id != own}


def check_any_here(directory: Path, own: str, there: int) -> None:
    """Raise JobError if no partition is ``there`` in the directory, whose id is ``own``. Raises OSError too."""
    if there:
        return
    if homes_elsewhere(directory, own):
        raise JobError(
            f"{directory} has no partition now: those that have begun are in other directories; `crawler stats` with "
            "the --engine and --crawl of the crawl shows them"
        )
    raise JobError(f"{directory} holds a crawl that has not begun: no partition has a job yet")


def write_homes(disk: Disk, directory: Path, homes: Mapping[int, Home]) -> None:
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


def add_homes(disk: Disk, directory: Path, known: Mapping[int, Home]) -> None:
    """Note durably what is known, over what is noted in no greater epoch. Several processes of the directory may do so
    at once. Raises JobError, OSError."""
    with _alone(directory):
        noted = read_homes(directory)
        news = {number: home for number, home in known.items() if number not in noted or noted[number] != home}
        both = {**noted, **{n: home for n, home in news.items() if n not in noted or noted[n].epoch <= home.epoch}}
        if both != noted:
            write_homes(disk, directory, both)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

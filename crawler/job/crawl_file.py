"""``DIR/crawl.json``: the properties that all partitions of a crawl share, fixed when the crawl starts.

DIR/crawl.json       an envelope, readable only by its owner: it contains the secret that places URLs
DIR/partitions/07    the job directory of partition 7, created when a worker first opens it
DIR/partitions/07/left  exists once the partition may have been resumed in another directory
DIR/begun/07         an empty file, created after the directory: if it exists alone, the partition's state is lost

``crawl.json`` is read before anything else of the crawl, and its version before the rest of the file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from crawler import __version__
from crawler.base.clock import BOOT_ID
from crawler.base.disk import Disk, make_private_directory, write_file
from crawler.base.settings.parts import PARTITIONS_MOST, SHAPING, SiteGroups
from crawler.job.checkpoint.envelope import (
    EnvelopeError,
    content_of,
    decode_envelope,
    encode_envelope,
    read_bounded,
)
from crawler.job.directory import UNUSABLE, JobError, check_format, holds_job, make_directory
from crawler.job.partition.placement import Placement

CRAWL = "crawl.json"
PARTITIONS = "partitions"
BEGUN = "begun"
LEFT = "left"
MAGIC, FORMER_MAGIC = "frontier-crawl", "crawler-crawl"
VERSION = 2
SECRET_BYTES = 16
Shaping = dict[str, dict[str, Any]]


class CrawlFile(Struct, frozen=True):
    """The content of ``crawl.json``.

    ``id``: random, identifies this directory. ``partitions``: their number. ``secret``: the secret of the hash that
    assigns URLs to them; ``suffixes``: the version of the public suffix list used for that; ``by_host``: URLs are
    assigned by host instead of domain; ``groups``: groups of hosts that are assigned by the group's name. ``shaping``:
    the shaping settings of the whole crawl."""

    name: str
    id: str
    partitions: Annotated[int, Meta(gt=0, le=PARTITIONS_MOST)]
    secret: Annotated[bytes, Meta(min_length=SECRET_BYTES)]
    suffixes: str
    shaping: Shaping
    by_host: bool = False
    groups: SiteGroups = ()

    @property
    def placement(self) -> Placement:
        """The assignment of URLs to partitions."""
        return Placement(self.secret, self.partitions, by_host=self.by_host, groups=self.groups)

    @property
    def by(self) -> str:
        """The unit that is never split between partitions, as in `partitions.placed_by`."""
        return "host" if self.by_host else "domain"


def holds_crawl(directory: Path) -> bool:
    """True if the directory contains a partitioned crawl."""
    return (directory / CRAWL).is_file()


def partition_directory(directory: Path, number: int) -> Path:
    """Return the job directory of a partition."""
    return directory / PARTITIONS / f"{number:02}"


def partition_directories(directory: Path) -> list[Path]:
    """Return the job directories of the partitions in this directory, in order. Raises OSError."""
    return [path for path in _begun_here(directory) if not (path / LEFT).exists()]


def partitions_left(directory: Path) -> set[int]:
    """Return the numbers of the partitions that were in this directory but may have been resumed in another one. Raises
    OSError."""
    return {int(path.name) for path in _begun_here(directory) if (path / LEFT).exists()}


def _begun_here(directory: Path) -> list[Path]:
    try:
        found = [path for path in (directory / PARTITIONS).iterdir() if path.name.isdecimal() and holds_job(path)]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda path: int(path.name))


def leave_partition(disk: Disk, partition: Path) -> None:
    """Record that the partition may be resumed in another directory. Raises OSError."""
    write_file(disk, partition / LEFT, b"")


def return_to_partition(disk: Disk, partition: Path) -> None:
    """Record that the partition is in this directory again. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(partition / LEFT)


def check_any_here(directory: Path, there: int) -> None:
    """Raise JobError if ``there``, the number of partitions in the directory, is 0. Raises OSError."""
    if there:
        return
    if partitions_left(directory):
        raise JobError(f"{directory} has no partitions: other workers have resumed them; see their store")
    raise JobError(f"{directory} holds a crawl that has not started: no partition has a job yet")


def place_of(directory: Path) -> str:
    """Return an identifier of the directory that only processes of this machine can compute, and that a copy of the
    directory does not share; empty if the machine has no boot ID. Raises OSError."""
    try:
        boot = BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
    return f"{boot} {directory.stat().st_ino}"


def note_begun(disk: Disk, directory: Path, number: int) -> None:
    """Record durably that the partition has a job directory here. Raises OSError."""
    mark = directory / BEGUN / f"{number:02}"
    if mark.exists():
        return
    make_directory(mark.parent, disk)
    write_file(disk, mark, b"")
    disk.sync_directory(mark.parent)


def partitions_gone(directory: Path) -> list[Path]:
    """Return the directories of partitions that were created here and are missing now, in order. Raises OSError."""
    try:
        numbers = sorted(int(path.name) for path in (directory / BEGUN).iterdir() if path.name.isdecimal())
    except FileNotFoundError:
        return []
    return [path for number in numbers if not holds_job(path := partition_directory(directory, number))]


def check_none_gone(directory: Path) -> None:
    """Raise JobError if a partition that was created here is missing. Raises OSError.

    A recreated partition would lack the links that other partitions have already sent to it and will not send again."""
    gone = partitions_gone(directory)
    if gone:
        raise JobError(
            f"{gone[0]} is missing, and with it URLs that are stored nowhere else: put it back, or restore the crawl "
            f"from a backup; to continue without them, remove {directory / BEGUN / gone[0].name}"
        )


def crawl_around(directory: Path) -> Path | None:
    """Return the directory of the crawl of which a job directory is a partition; None if it is not partitioned."""
    place = directory.absolute()
    around = place.parent.parent
    return around if place.parent.name == PARTITIONS and holds_crawl(around) else None


def check_whole(directory: Path) -> None:
    """Raise JobError if an unpartitioned crawl cannot run in the directory: it contains a partitioned crawl, or is one
    partition, which would then also crawl the hosts of the others."""
    around = crawl_around(directory)
    if around is not None:
        raise JobError(f"{directory} is a partition of the crawl in {around}: resume that crawl with --partitions N")
    if holds_crawl(directory):
        count = read_crawl_file(directory).partitions
        raise JobError(
            f"{directory} holds a crawl in {count} partitions: add --partitions N to resume it with N processes"
        )


def read_crawl_file(directory: Path) -> CrawlFile:
    """Read ``crawl.json``. Raises JobError, including when another version wrote it, and OSError if the disk fails."""
    path = directory / CRAWL
    try:
        data = read_bounded(path, str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise JobError(f"{directory} holds no partitioned crawl") from None
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise JobError(str(error)) from error
    return decode_crawl(data, str(path))


def encode_crawl(crawl: CrawlFile) -> bytes:
    """Return the bytes of ``crawl.json``."""
    return encode_envelope(MAGIC, VERSION, {"program": __version__, **to_builtins(crawl)})


def decode_crawl(data: bytes, name: str) -> CrawlFile:
    """Decode the bytes of a ``crawl.json``; ``name`` names the file in messages. Raises JobError."""
    check_format(data, name, MAGIC, VERSION, FORMER_MAGIC)
    try:
        crawl = content_of(decode_envelope(data, MAGIC, VERSION, name), CrawlFile, name)
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    if not is_complete(crawl.shaping):
        raise JobError(f"{name}: a shaping setting of the crawl is missing")
    return crawl


def is_complete(shaping: Shaping) -> bool:
    """True if all shaping settings are present."""
    return all(key in shaping.get(table, {}) for table, key in SHAPING)


def begin_crawl_file(disk: Disk, directory: Path, crawl: CrawlFile) -> CrawlFile:
    """Create ``crawl.json``, durably, and return its content. If another process has just created it, that file is
    kept, so all processes that start a crawl in a directory use the same content. Raises JobError, OSError."""
    make_directory(directory, disk)
    make_private_directory(directory / PARTITIONS, exist_ok=True)
    if holds_crawl(directory):
        return read_crawl_file(directory)
    path, part = directory / CRAWL, directory / f"{CRAWL}.{secrets.token_hex(8)}.part"
    try:
        write_file(disk, part, encode_crawl(crawl))
        with contextlib.suppress(FileExistsError):
            disk.link(part, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)
    disk.sync_directory(directory)
    return read_crawl_file(directory)

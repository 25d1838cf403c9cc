"""``DIR/crawl.json``: what all partitions of a crawl have in common, fixed when the crawl begins.

DIR/crawl.json       an envelope, readable by its owner alone: it holds the secret that places URLs
DIR/partitions/07    the job directory of partition 7, made when a worker first opens it
DIR/partitions/07/left  there once another directory may have gone on with the partition
DIR/begun/07         an empty file, made after that: without its directory, what only partition 7 knew is lost

The file is read before anything else of the crawl, and its version before anything else of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from crawler import __version__
from crawler.base.clock import BOOT_ID
from crawler.base.disk import Disk, make_private_directory, write_file
from crawler.base.settings.parts import PARTITIONS_MOST, SHAPING, SiteGroups
from crawler.job.checkpoint.envelope import EnvelopeError, decode_envelope, encode_envelope, read_bounded
from crawler.job.directory import UNUSABLE, JobError, check_format, holds_job, make_directory
from crawler.job.partition.placement import Placement

CRAWL = "crawl.json"
PARTITIONS = "partitions"
BEGUN = "begun"
LEFT = "left"
MAGIC, FORMER_MAGIC = "frontier-crawl", "crawler-crawl"
VERSION = 1
SECRET_BYTES = 16
Shaping = dict[str, dict[str, Any]]


class CrawlFile(Struct, frozen=True):
    """The content of ``crawl.json``. ``id``: random, of this directory. ``partitions``: how many there are. ``secret``:
    of the hash that places URLs on them; ``suffixes``: the version of the public suffix list by which it does;
    ``by_host``: it does so by hosts instead of domains; ``groups``: of hosts that it places by the names of these.
    ``shaping``: the shaping settings of the crawl as a whole."""

    name: str
    id: str
    partitions: int
    secret: bytes
    suffixes: str
    shaping: Shaping
    by_host: bool = False
    groups: SiteGroups = ()

    @property
    def placement(self) -> Placement:
        """Which partition a URL belongs to."""
        return Placement(self.secret, self.partitions, by_host=self.by_host, groups=self.groups)

    @property
    def by(self) -> str:
        """What stays in one partition: `partitions.placed_by`."""
        return "host" if self.by_host else "domain"


def holds_crawl(directory: Path) -> bool:
    """Whether the directory is that of a crawl in partitions."""
    return (directory / CRAWL).is_file()


def partition_directory(directory: Path, number: int) -> Path:
    """The job directory of a partition."""
    return directory / PARTITIONS / f"{number:02}"


def partition_directories(directory: Path) -> list[Path]:
    """The job directories of the partitions that are here, in order. Raises OSError."""
    return [path for path in _begun_here(directory) if not (path / LEFT).exists()]


def partitions_left(directory: Path) -> set[int]:
    """The numbers of the partitions that were here, and with which another directory may have gone on. Raises
    OSError."""
    return {int(path.name) for path in _begun_here(directory) if (path / LEFT).exists()}


def _begun_here(directory: Path) -> list[Path]:
    try:
        found = [path for path in (directory / PARTITIONS).iterdir() if path.name.isdecimal() and holds_job(path)]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda path: int(path.name))


def leave_partition(disk: Disk, partition: Path) -> None:
    """Note that another directory may go on with the partition. Raises OSError."""
    write_file(disk, partition / LEFT, b"")


def return_to_partition(disk: Disk, partition: Path) -> None:
    """Note that it is here. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(partition / LEFT)


def check_any_here(directory: Path, there: int) -> None:
    """Raise JobError if no partition is ``there`` in the directory. Raises OSError."""
    if there:
        return
    if partitions_left(directory):
        raise JobError(f"{directory} has no partition now: other workers go on with them; ask their store")
    raise JobError(f"{directory} holds a crawl that has not begun: no partition has a job yet")


def place_of(directory: Path) -> str:
    """What only processes of this machine say of the directory, and nobody of a copy of it; empty if the machine has
    no name. Raises OSError."""
    try:
        boot = BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
    return f"{boot} {directory.stat().st_ino}"


def note_begun(disk: Disk, directory: Path, number: int) -> None:
    """Note durably that the partition has a job directory here. Raises OSError."""
    mark = directory / BEGUN / f"{number:02}"
    if mark.exists():
        return
    make_directory(mark.parent, disk)
    write_file(disk, mark, b"")
    disk.sync_directory(mark.parent)


def partitions_gone(directory: Path) -> list[Path]:
    """The directories of partitions that had begun here and are not there any more, in order. Raises OSError."""
    try:
        numbers = sorted(int(path.name) for path in (directory / BEGUN).iterdir() if path.name.isdecimal())
    except FileNotFoundError:
        return []
    return [path for number in numbers if not holds_job(path := partition_directory(directory, number))]


def check_none_gone(directory: Path) -> None:
    """Raise JobError if a partition that had begun here is gone: begun anew, it would not know what others have long
    sent to it, and nobody would send that again. Raises OSError."""
    gone = partitions_gone(directory)
    if gone:
        raise JobError(
            f"{gone[0]} is gone, and with it URLs that nothing else knows: put it back, or restore the crawl from a "
            f"backup; to go on without them, remove {directory / BEGUN / gone[0].name}"
        )


def crawl_around(directory: Path) -> Path | None:
    """The directory of the crawl that a job directory is a partition of; None if it is one of its own."""
    place = directory.absolute()
    around = place.parent.parent
    return around if place.parent.name == PARTITIONS and holds_crawl(around) else None


def check_whole(directory: Path) -> None:
    """Raise JobError if a crawl without partitions cannot run in the directory: the directory is that of one with
    partitions, or is a partition itself, of which one that knows nothing of the others would crawl their hosts too."""
    around = crawl_around(directory)
    if around is not None:
        raise JobError(f"{directory} is a partition of the crawl in {around}: go on with that one, with --partitions N")
    if holds_crawl(directory):
        count = read_crawl_file(directory).partitions
        raise JobError(
            f"{directory} holds a crawl in {count} partitions: add --partitions N to go on, N the number of processes"
        )


def read_crawl_file(directory: Path) -> CrawlFile:
    """What ``crawl.json`` says. Raises JobError, also if another version wrote it, and OSError when the disk fails."""
    path = directory / CRAWL
    try:
        data = read_bounded(path, str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise JobError(f"{directory} holds no crawl in partitions") from None
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise JobError(str(error)) from error
    return decode_crawl(data, str(path))


def encode_crawl(crawl: CrawlFile) -> bytes:
    """The bytes of ``crawl.json``."""
    content: dict[str, Any] = {
        "program": __version__,
        "name": crawl.name,
        "id": crawl.id,
        "partitions": crawl.partitions,
        "secret": crawl.secret.hex(),
        "suffixes": crawl.suffixes,
        "by": crawl.by,
        "groups": crawl.groups,
        "shaping": crawl.shaping,
    }
    return encode_envelope(MAGIC, VERSION, content)


def decode_crawl(data: bytes, name: str) -> CrawlFile:
    """What the bytes of a ``crawl.json`` say; ``name`` is what messages call it. Raises JobError."""
    check_format(data, name, MAGIC, VERSION, FORMER_MAGIC)
    try:
        content = decode_envelope(data, MAGIC, VERSION, name)
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    match content:
        case {
            "name": str(crawl),
            "id": str(own),
            "partitions": int(count),
            "secret": str(secret),
            "suffixes": str(suffixes),
            "by": "domain" | "host" as by,
            "groups": list(groups),
            "shaping": dict(shaping),
        } if 0 < count <= PARTITIONS_MOST and _is_complete(shaping):
            with contextlib.suppress(ValueError, msgspec.ValidationError):
                if len(bytes.fromhex(secret)) >= SECRET_BYTES:
                    placed = msgspec.convert(groups, SiteGroups)
                    return CrawlFile(crawl, own, count, bytes.fromhex(secret), suffixes, shaping, by == "host", placed)
    raise JobError(f"{name}: not the description of a crawl")


def _is_complete(shaping: dict[str, Any]) -> bool:
    return all(isinstance(shaping.get(table), dict) and key in shaping[table] for table, key in SHAPING)


def begin_crawl_file(disk: Disk, directory: Path, crawl: CrawlFile) -> CrawlFile:
    """Make ``crawl.json``, durably, and return what it says. If another process has just made it, that one counts: of
    several that begin a crawl in a directory, all get the same. Raises JobError, OSError."""
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

"""What a bucket holds, below the address of the crawl.

    crawl                             whose crawl it is; the first object
    owner/PARTITION/EPOCH             who has the partition from that epoch on, and the name of its log
    log/WORKER/NUMBER                 steps, in order; the last one may close the log
    snapshot/PARTITION/EPOCH-NUMBER   the files of the partition at one step, as names of pieces
    pieces/PARTITION/DIGEST           pieces of files, named by what is in them

No object is ever overwritten. All but the log and the pieces are envelopes (``checkpoint.envelope``).
"""

from __future__ import annotations

import re
import secrets
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins

from crawler import __version__
from crawler.job.bucket.objects import BucketError, Objects
from crawler.job.checkpoint.envelope import EnvelopeError, UnknownVersionError, decode_envelope, encode_envelope
from crawler.job.replica.step_codec import Mark

CRAWL = "crawl"
MAGIC = "crawler-bucket"
VERSION = 1
KEPT = 2  # snapshots of a partition
PIECES = "pieces/"
_SNAPSHOT = re.compile(r"snapshot/[0-9]{2,}/([0-9]{8})-([0-9]{6})", re.ASCII)
_OWNER = re.compile(r"owner/[0-9]{2,}/([0-9]{8})", re.ASCII)

T = TypeVar("T", bound=Struct)


class CrawlObject(Struct, frozen=True):
    """Whose crawl it is. ``secret`` seals the objects of its logs; ``partitions``: how many it has. ``of`` stands for
    the job of which there are backups; empty: the crawl lives here."""

    id: str
    secret: str
    partitions: int = 1
    of: str = ""

    @classmethod
    def new(cls, partitions: int = 1, of: str = "") -> CrawlObject:
        """A new crawl, or the first backup of one."""
        return cls(secrets.token_hex(16), secrets.token_hex(32), partitions, of)


class Owner(Struct, frozen=True):
    """Who has a partition. ``worker`` is the name of its log, ``place`` tells people where it runs, ``began`` is in
    seconds since 1970."""

    worker: str
    place: str
    began: float


class Stored(Struct, frozen=True):
    """A file in pieces, in order; ``size`` is in bytes."""

    size: int = 0
    pieces: tuple[str, ...] = ()


class Snapshot(Struct, frozen=True):
    """The files of a partition at the step ``mark`` (line, number). Later steps are in the log of ``worker``, in the
    objects from ``log`` on; an empty ``worker``: there are none.

    ``files``: those of the state, by their path in the job. ``pages``: the whole text of the records. ``outputs``: the
    files of other outputs. ``bodies``: packs of the bodies that the records name; ``missing`` of these were not there.
    ``made_at`` is in seconds since 1970."""

    mark: tuple[int, int]
    worker: str
    log: int
    files: dict[str, Stored]
    pages: Stored
    outputs: dict[str, Stored]
    bodies: tuple[str, ...]
    missing: int
    source: str
    made_at: float
    urls_admitted: int
    urls_pending: int

    @property
    def reaches(self) -> Mark:
        """The step that it has."""
        return Mark(*self.mark)

    def pieces(self) -> set[str]:
        """All that it names."""
        stored = [self.pages, *self.files.values(), *self.outputs.values()]
        return {piece for each in stored for piece in each.pieces} | set(self.bodies)

    @property
    def size(self) -> int:
        """Bytes of its files, without bodies."""
        return self.pages.size + sum(each.size for each in (*self.files.values(), *self.outputs.values()))


def log_key(worker: str, number: int) -> str:
    return f"log/{worker}/{number:012}"


def owner_key(partition: int, epoch: int) -> str:
    return f"owner/{partition:02}/{epoch:08}"


def snapshot_key(partition: int, epoch: int, number: int) -> str:
    return f"snapshot/{partition:02}/{epoch:08}-{number:06}"


def piece_key(partition: int, digest: str) -> str:
    return f"{PIECES}{partition:02}/{digest}"


def encode(kind: str, content: Struct) -> bytes:
    """The bytes of an envelope; ``kind`` is the first word of its key."""
    return encode_envelope(f"{MAGIC}-{kind}", VERSION, {"program": __version__, **to_builtins(content)})


def decode(kind: str, data: bytes, of: type[T], name: str) -> T:
    """The inverse. ``name`` is what messages call the object. Raises BucketError."""
    try:
        content: dict[str, Any] = decode_envelope(data, f"{MAGIC}-{kind}", VERSION, name)
        return convert(content, of)
    except UnknownVersionError as error:
        raise BucketError(f"{error}: use the program that wrote it") from error
    except (EnvelopeError, ValidationError) as error:
        raise BucketError(f"{name} is damaged, or no object of a crawl: {error}") from error


def read(objects: Objects, key: str, of: type[T]) -> T | None:
    """The envelope with that key; None if there is none. Raises BucketError, BucketDown."""
    data = objects.get(key)
    return None if data is None else decode(key.partition("/")[0], data, of, f"{objects.address}/{key}")


def read_crawl(objects: Objects) -> CrawlObject | None:
    """Whose crawl it is; None if there is none. Raises BucketError if something else is there, BucketDown."""
    crawl = read(objects, CRAWL, CrawlObject)
    if crawl is None:
        strange = next((each.key for each in objects.list("") if not each.key.startswith("probe/")), None)
        if strange == CRAWL:
            return read_crawl(objects)  # another process has just put it
        if strange is not None:
            raise BucketError(f"{objects.address} holds something else ({strange}): name an empty prefix")
    return crawl


def newest_owner(objects: Objects, partition: int) -> tuple[int, Owner | None]:
    """The newest epoch of the partition and its owner; 0 and None if nobody has begun it. Raises BucketError,
    BucketDown."""
    found = [_OWNER.fullmatch(each.key) for each in objects.list(f"owner/{partition:02}/")]
    epoch = max((int(each[1]) for each in found if each is not None), default=0)
    return epoch, read(objects, owner_key(partition, epoch), Owner) if epoch else None


def snapshots(objects: Objects, partition: int) -> list[tuple[int, int]]:
    """The epoch and number of all snapshots of the partition, newest first. Raises BucketError, BucketDown."""
    found = [_SNAPSHOT.fullmatch(each.key) for each in objects.list(f"snapshot/{partition:02}/")]
    return sorted(((int(each[1]), int(each[2])) for each in found if each is not None), reverse=True)


def read_snapshot(objects: Objects, partition: int, place: tuple[int, int]) -> Snapshot | None:
    """A snapshot; None if it was removed meanwhile. Raises BucketError, BucketDown."""
    return read(objects, snapshot_key(partition, *place), Snapshot)


def newest_snapshot(objects: Objects, partition: int, most: int | None = None) -> Snapshot | None:
    """The newest snapshot of the partition, of the epoch ``most`` or an earlier one. Raises BucketError, BucketDown."""
    for place in snapshots(objects, partition):
        if (most is None or place[0] <= most) and (found := read_snapshot(objects, partition, place)) is not None:
            return found
    return None

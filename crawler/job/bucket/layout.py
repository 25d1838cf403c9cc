"""The objects of a bucket, below the address of the crawl.

    crawl                             which crawl the bucket holds; the first object
    shape/NUMBER                      of a partitioned crawl: the number of partitions, and which URLs belong to each;
                                      the last shape counts
    owner/PARTITION/EPOCH             the owner of the partition from that epoch on, and the name of its log
    owner/PARTITION/EPOCH-released    exists once that owner has released the partition properly
    log/WORKER/NUMBER                 steps, in order; the last object may close the log
    snapshot/PARTITION/EPOCH-NUMBER   the files of the partition at one step, as names of pieces
    pieces/PARTITION/DIGEST           pieces of files, named by the partition that stored them and the digest of their
                                      content

No object is ever overwritten. All except the log and the pieces are envelopes (``checkpoint.envelope``).
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from crawler import __version__
from crawler.base import entropy
from crawler.job.bucket.objects import BucketError, Objects
from crawler.job.checkpoint.envelope import (
    EnvelopeError,
    UnknownVersionError,
    content_of,
    decode_envelope,
    encode_envelope,
)
from crawler.job.crawl_file import CrawlFile, decode_crawl, encode_crawl
from crawler.job.steps.seal import Sealing
from crawler.job.steps.step_codec import Mark

CRAWL = "crawl"
MAGIC = "crawler-bucket"
VERSION = 1
KEPT = 2  # snapshots kept per partition
KEEP = 86_400.0  # seconds before pieces without a snapshot are removed: their snapshot may be in progress
PIECES, ALIVE = "pieces/", "alive/"
SNAPSHOT = re.compile(r"snapshot/([0-9]{2,})/([0-9]{8})-([0-9]{6})", re.ASCII)  # partition, epoch, number
_SILENT = 30.0  # seconds without an object after which a worker counts as gone
OWNER = re.compile(r"owner/([0-9]{2,})/([0-9]{8})(-released)?", re.ASCII)  # partition, epoch

T = TypeVar("T", bound=Struct)


class CrawlObject(Struct, frozen=True):
    """The crawl that the bucket holds. ``secret`` seals the objects of its logs. ``of`` identifies the job whose
    backups the bucket stores; it is empty if the crawl itself lives in the bucket."""

    id: str
    secret: str
    of: str = ""

    @classmethod
    def new(cls, of: str = "") -> CrawlObject:
        """Create a new crawl, or the first backup of one."""
        return cls(entropy.random_bytes(16).hex(), entropy.random_bytes(32).hex(), of)

    @property
    def sealing(self) -> Sealing:
        """Seals and opens the messages in the log objects."""
        return Sealing(bytes.fromhex(self.secret))


class Shape(Struct, frozen=True):
    """A partitioned crawl. ``crawl``: its ``crawl.json`` without the directory, as text. ``engine``: the URL, without a
    password, of the carrier that passes links between workers; empty if only one command has run the crawl so far.
    ``settings``: the tables of settings for workers that have none of their own."""

    crawl: str
    engine: str = ""
    settings: dict[str, dict[str, Any]] = {}

    @classmethod
    def of(cls, crawl: CrawlFile) -> Shape:
        return cls(encode_crawl(replace(crawl, id="")).decode("utf-8"))

    @property
    def file(self) -> CrawlFile:
        """The decoded crawl file. Raises JobError."""
        return decode_crawl(self.crawl.encode("utf-8"), "the shape of the crawl")


class Owner(Struct, frozen=True):
    """The owner of a partition. ``worker`` is the name of its log, in which ``first`` is the first object that can
    contain steps of the partition. ``place`` describes for users where the owner runs; ``began`` is in seconds since
    1970."""

    worker: str
    first: int
    place: str
    began: float


class Release(Struct, frozen=True):
    """The release of a partition: all its steps are in its owner's log, below the number ``end``."""

    end: int


class Standing(Struct, frozen=True):
    """The newest ``epoch`` of a partition and its owner; 0 and None if the partition has never had an owner.
    ``releases``: the epochs whose owners have released it."""

    epoch: int = 0
    owner: Owner | None = None
    releases: frozenset[int] = frozenset()

    @property
    def is_released(self) -> bool:
        """True if its newest owner has released the partition."""
        return self.epoch in self.releases


class Stored(Struct, frozen=True):
    """A file as a sequence of pieces; ``size`` is in bytes. A small file shares a piece with others, and starts at byte
    ``at`` of that piece."""

    size: int = 0
    pieces: tuple[str, ...] = ()
    at: int = 0


class Snapshot(Struct, frozen=True):
    """The files of a partition at the step ``mark`` (line, number), written by the owner in that ``epoch``. Later steps
    are in the log of ``worker``, in the objects from ``log`` on; if ``worker`` is empty, there are none.

    ``files``: the files of the state, by their path in the job. ``pages``: the whole text of the records. ``outputs``:
    the files of other outputs. ``bodies``: packs of the bodies that the records name; ``missing``: how many of these
    bodies did not exist. ``made_at`` is in seconds since 1970. ``partitions``: the snapshot counts only if the crawl
    has this many partitions (set for the first snapshots after a split); 0: it always counts.
    """

    epoch: int
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
    partitions: int = 0

    @property
    def reaches(self) -> Mark:
        """The last step that the snapshot includes."""
        return Mark(*self.mark)

    def pieces(self) -> set[str]:
        """Return the names of all pieces of the snapshot."""
        stored = [self.pages, *self.files.values(), *self.outputs.values()]
        return {piece for each in stored for piece in each.pieces} | set(self.bodies)

    @property
    def size(self) -> int:
        """The size of the snapshot's files in bytes, without bodies."""
        return self.pages.size + sum(each.size for each in (*self.files.values(), *self.outputs.values()))


def alive_key(worker: str, number: int) -> str:
    return f"{ALIVE}{worker}/{number}"


def log_key(worker: str, number: int) -> str:
    return f"log/{worker}/{number:012}"


def owner_key(partition: int, epoch: int) -> str:
    return f"owner/{partition:02}/{epoch:08}"


def release_key(partition: int, epoch: int) -> str:
    return f"{owner_key(partition, epoch)}-released"


def shape_key(number: int) -> str:
    return f"shape/{number:06}"


def snapshot_key(partition: int, epoch: int, number: int) -> str:
    return f"snapshot/{partition:02}/{epoch:08}-{number:06}"


def piece_name(partition: int, digest: str) -> str:
    """Return the name by which snapshots refer to a piece."""
    return f"{partition:02}/{digest}"


def encode(kind: str, content: Struct) -> bytes:
    """Encode an envelope; ``kind`` is the first word of its key."""
    return encode_envelope(f"{MAGIC}-{kind}", VERSION, {"program": __version__, **to_builtins(content)})


def decode(kind: str, data: bytes, of: type[T], name: str) -> T:
    """Decode an envelope. Error messages refer to the object by ``name``. Raises BucketError."""
    try:
        return content_of(decode_envelope(data, f"{MAGIC}-{kind}", VERSION, name), of, name)
    except UnknownVersionError as error:
        raise BucketError(f"{error}: use the program that wrote it") from error
    except EnvelopeError as error:
        raise BucketError(f"{name} is damaged, or not an object of a crawl: {error}") from error


def read(objects: Objects, key: str, of: type[T]) -> T | None:
    """Read the envelope with that key; None if there is none. Raises BucketError, BucketDown."""
    data = objects.get(key)
    return None if data is None else decode(key.partition("/")[0], data, of, f"{objects.address}/{key}")


def read_crawl(objects: Objects, cure: str = "it is neither a store nor a backup") -> CrawlObject | None:
    """Read the crawl that the bucket holds; None if the bucket is empty. Raises BucketError, with ``cure``, if
    it holds foreign objects, and BucketDown."""
    crawl = read(objects, CRAWL, CrawlObject)
    if crawl is None:
        strange = next((each.key for each in objects.list("") if not each.key.startswith("probe/")), None)
        if strange == CRAWL:
            return read_crawl(objects, cure)  # another process has just put it
        if strange is not None:
            raise BucketError(f"{objects.address} holds other objects ({strange}): {cure}")
    return crawl


def read_shape(objects: Objects) -> tuple[int, Shape | None]:
    """Return the number and content of the newest shape; 0 and None for a crawl of one process. Raises BucketError,
    BucketDown."""
    number, found = 0, None
    while (shape := read(objects, shape_key(number + 1), Shape)) is not None:
        number, found = number + 1, shape
    return number, found


def standing(objects: Objects, partition: int) -> Standing:
    """Return the newest owner of the partition. Raises BucketError, BucketDown."""
    listed = (OWNER.fullmatch(each.key) for each in objects.list(f"owner/{partition:02}/"))
    found = [(int(match[2]), match[3] is not None) for match in listed if match is not None]
    epoch = max((epoch for epoch, is_release in found if not is_release), default=0)
    owner = read(objects, owner_key(partition, epoch), Owner) if epoch else None
    return Standing(epoch, owner, frozenset(epoch for epoch, is_release in found if is_release))


def is_at_work(objects: Objects, partition: int, now: float) -> bool:
    """Return True if the partition has an owner, and this owner stored steps or a sign of life shortly before ``now``.
    All times are by the store's clock. Raises BucketError, BucketDown."""
    there = standing(objects, partition)
    if there.owner is None or there.is_released:
        return False
    prefixes = f"log/{there.owner.worker}/", f"{ALIVE}{there.owner.worker}/"
    return any(each.modified > now - _SILENT for prefix in prefixes for each in objects.list(prefix))


def snapshots(objects: Objects, partition: int) -> list[tuple[int, int]]:
    """Return the epoch and number of all snapshots of the partition, newest first. Raises BucketError, BucketDown."""
    found = [SNAPSHOT.fullmatch(each.key) for each in objects.list(f"snapshot/{partition:02}/")]
    return sorted(((int(each[2]), int(each[3])) for each in found if each is not None), reverse=True)


def read_snapshot(objects: Objects, partition: int, place: tuple[int, int]) -> Snapshot | None:
    """Read a snapshot; None if it has been removed meanwhile. Raises BucketError, BucketDown."""
    return read(objects, snapshot_key(partition, *place), Snapshot)


def _counts(objects: Objects, snapshot: Snapshot) -> bool:
    """Return False if the snapshot belongs to an unfinished split."""
    _, shape = read_shape(objects) if snapshot.partitions else (0, None)
    return not snapshot.partitions or (shape is not None and shape.file.partitions == snapshot.partitions)


def newest_snapshot(objects: Objects, partition: int, most: int | None = None) -> Snapshot | None:
    """Return the partition's newest snapshot that counts, of epoch ``most`` or earlier. Raises BucketError,
    BucketDown."""
    for place in snapshots(objects, partition):
        found = read_snapshot(objects, partition, place) if most is None or place[0] <= most else None
        if found is not None and _counts(objects, found):
            return found
    return None

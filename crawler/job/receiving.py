"""What a job stores and says as a partition of a crawl, besides its outbox and its inlet."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader
from crawler.job.directory import JobError
from crawler.job.found import Found
from crawler.job.partition.inlet import Verdict
from crawler.job.partition.link_batch_codec import LinkBatch
from crawler.job.partition.messages import Links, MessageError, UnknownMessage, Widened, decode_message, found_of
from crawler.job.records import JournalError

EPOCH = b"epoch"  # the META key of the last epoch that was begun
CRAWL = b"crawl"  # the META key of the mark of the crawl that the partition is of
_MARK_BYTES = 16
_EPOCH = struct.Struct("<BQ")
_VERSION = 1


def encode_epoch(epoch: int) -> bytes:
    """The stored form of an epoch."""
    return _EPOCH.pack(_VERSION, epoch)


def decode_epoch(value: bytes | None) -> int:
    """The inverse of ``encode_epoch``, 0 if none is stored. Raises JournalError."""
    if value is None:
        return 0
    if len(value) != _EPOCH.size or value[0] != _VERSION:
        raise JournalError(f"{len(value)} bytes are no epoch of a partition")
    return int(_EPOCH.unpack(value)[1])


class ForeignPartitionError(JobError):
    """The job is a partition of another crawl."""


def mark_of(secret: bytes) -> bytes:
    """The mark of the crawl with that secret, which does not tell it."""
    return blake2b(key=secret, digest_size=_MARK_BYTES, person=b"crawl").digest()


def check_crawl_of(directory: Path, store: Reader, secret: bytes) -> None:
    """Raise ForeignPartitionError if the partition in the directory is that of a crawl with another secret. One that
    has begun no epoch does not say so. Raises OSError."""
    kept = store.get(Family.META, CRAWL)
    if kept is not None and kept != mark_of(secret):
        raise ForeignPartitionError(
            f"{directory} is a partition of another crawl: put the one of this crawl back, or restore the crawl from a "
            "backup; nothing was changed"
        )


def keep_crawl(store: Reader, secret: bytes, batch: Batch) -> None:
    """Put the mark of its crawl into the store of a partition that has none."""
    if store.get(Family.META, CRAWL) is None:
        batch.put(Family.META, CRAWL, mark_of(secret))


class Receipt(Struct, frozen=True):
    """What became of a batch, and how many of its URLs were ``new``. The seen-set calls the ``doubted`` ones seen and
    may be mistaken, and somebody named them: look them up as seeds are (``Job.search``, ``Job.admit_missed``).
    ``error``: why a message in it could not be read."""

    verdict: Verdict
    new: int = 0
    doubted: Sequence[Found] = ()
    error: str | None = None


class Content(Struct, frozen=True):
    """What the messages of a batch say."""

    found: Sequence[Found]
    widened: Sequence[Widened]


def is_named(found: Found) -> bool:
    """Whether somebody named the URLs, and no page."""
    return found.found_at is None and found.via is None


def read_content(link_batch: LinkBatch, now: float) -> Content | Receipt:
    """Read all messages of the batch; the receipt if one of them cannot be read. A batch is admitted as a whole or
    not at all."""
    found: list[Found] = []
    widened: list[Widened] = []
    for data in link_batch.messages:
        try:
            message = decode_message(data)
            if isinstance(message, UnknownMessage):
                return Receipt(Verdict.UNKNOWN, error=f"a message of kind {message.kind}: of a newer version")
            if isinstance(message, Links):
                found.append(found_of(message, now))
            else:
                widened.append(message)
        except MessageError as error:
            return Receipt(Verdict.DAMAGED, error=str(error))
    return Content(found, widened)

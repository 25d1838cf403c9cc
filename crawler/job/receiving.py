"""The data that a job stores and reports as a partition of a crawl, in addition to its outbox and inlet."""

from __future__ import annotations

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
from crawler.job.records import StoredValue

EPOCH = b"epoch"  # the META key of the last epoch that was started
CRAWL = b"crawl"  # the META key under which the mark of the crawl is stored
_MARK_BYTES = 16
_EPOCH = StoredValue(int, "the epoch of a partition")
encode_epoch = _EPOCH.encode


def decode_epoch(value: bytes | None) -> int:
    """Inverse of ``encode_epoch``; 0 if none is stored. Raises JournalError."""
    return 0 if value is None else _EPOCH.decode(value)


class ForeignPartitionError(JobError):
    """The job is a partition of another crawl."""


def mark_of(secret: bytes) -> bytes:
    """Return the mark of the crawl with that secret. The mark does not reveal the secret."""
    return blake2b(key=secret, digest_size=_MARK_BYTES, person=b"crawl").digest()


def check_crawl_of(directory: Path, store: Reader, secret: bytes) -> None:
    """Raise ForeignPartitionError if the partition in the directory belongs to a crawl with another secret. A partition
    that has started no epoch has no mark. Raises OSError."""
    kept = store.get(Family.META, CRAWL)
    if kept is not None and kept != mark_of(secret):
        raise ForeignPartitionError(
            f"{directory} is a partition of another crawl: restore the partition of this crawl, or restore the crawl "
            "from a backup; nothing was changed"
        )


def keep_crawl(store: Reader, secret: bytes, batch: Batch) -> None:
    """Store the digest that identifies the crawl in a partition that has none."""
    if store.get(Family.META, CRAWL) is None:
        batch.put(Family.META, CRAWL, mark_of(secret))


class Receipt(Struct, frozen=True):
    """The verdict on a batch, and the number of its URLs that were ``new``. ``error``: why a message could not be read.

    ``doubted``: URLs named by a user that the seen-set reports as seen, perhaps by mistake: look them up as for seeds
    (``Job.search``, ``Job.admit_missed``)."""

    verdict: Verdict
    new: int = 0
    doubted: Sequence[Found] = ()
    error: str | None = None


class Content(Struct, frozen=True):
    """The decoded messages of a batch."""

    found: Sequence[Found]
    widened: Sequence[Widened]


def is_named(found: Found) -> bool:
    """True if a user named the URLs, rather than a page."""
    return found.found_at is None and found.via is None


def read_content(link_batch: LinkBatch, now: float) -> Content | Receipt:
    """Decode all messages of the batch; return a receipt if one of them is invalid. A batch is admitted as a whole or
    not at all."""
    found: list[Found] = []
    widened: list[Widened] = []
    for data in link_batch.messages:
        try:
            message = decode_message(data)
            if isinstance(message, UnknownMessage):
                return Receipt(Verdict.UNKNOWN, error=f"message of unknown kind {message.kind}, from a newer version")
            if isinstance(message, Links):
                found.append(found_of(message, now))
            else:
                widened.append(message)
        except MessageError as error:
            return Receipt(Verdict.DAMAGED, error=str(error))
    return Content(found, widened)

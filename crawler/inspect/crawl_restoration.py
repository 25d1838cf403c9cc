"""Restores a crawl in partitions from the bucket that holds it, as the directory of a crawl on one machine.

The partitions are restored one by one, and their workers may continue meanwhile. That does not matter for a copy that
is only read. But a link leaves its sender's outbox as soon as its receiver has stored it in the bucket. If the receiver
is read before that and the sender after it, neither copy has the link. So the crawl can continue in the directory only
if all logs end at the same place before the first and after the last partition is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.disk import RealDisk, make_private_directory
from crawler.job.bucket.layout import CrawlObject, Standing, newest_snapshot, snapshots, standing
from crawler.job.bucket.log_objects import Log
from crawler.job.bucket.objects import BucketError, Objects
from crawler.job.bucket.restoration import Restored, Wanted, restore
from crawler.job.crawl_file import (
    PARTITIONS,
    SECRET_BYTES,
    CrawlFile,
    begin_crawl_file,
    note_begun,
    partition_directory,
)
from crawler.job.directory import RESTORING
from crawler.job.snapshot import remove_tree

_AT_ONCE = 4  # partitions restored at the same time


class _Moment(Struct, frozen=True):
    """A value that differs whenever a partition has changed: the owner of each, its newest snapshot, and the ends of
    the owners' logs."""

    standings: list[Standing]
    newest: list[list[tuple[int, int]]]
    ends: dict[str, int]


def restore_partitions(
    objects: Objects,
    crawl: CrawlObject,
    file: CrawlFile,
    directory: Path,
    wanted: Wanted,
    *,
    to_look: bool,
) -> list[Restored]:
    """Restore all partitions that have started. ``file`` has their common settings. ``to_look``: the copy
    is only read, so partitions may change meanwhile; otherwise a change raises BucketError. Raises BucketError,
    BucketDown, JobError, OSError."""
    disk, before = RealDisk(), None if to_look else _moment(objects, crawl, range(file.partitions))
    making = directory / RESTORING
    make_private_directory(making, parents=True, exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="restore") as executor:

        def restored(number: int) -> Restored | None:
            if newest_snapshot(objects, number) is None:
                return None  # it has not started
            place = partition_directory(directory, number)
            return restore(objects, crawl.sealing, number, place, disk, wanted)

        made = [each for each in executor.map(restored, range(file.partitions)) if each is not None]
    if not made:
        making.rmdir()
        raise BucketError(f"{objects.address} holds a crawl in partitions none of which has started yet")
    if before is not None and _moment(objects, crawl, range(file.partitions)) != before:
        remove_tree(directory / PARTITIONS)
        making.rmdir()
        raise BucketError(_runs(objects, before))
    for each in made:
        note_begun(disk, directory, int(each.directory.name))
    making.rmdir()
    begin_crawl_file(disk, directory, replace(file, id=entropy.random_bytes(SECRET_BYTES).hex()))
    return made


def _moment(objects: Objects, crawl: CrawlObject, partitions: Iterable[int]) -> _Moment:
    """Return the current state. Raises BucketError, BucketDown."""
    standings = [standing(objects, number) for number in partitions]
    owners = [each.owner for each in standings if each.owner is not None]
    firsts = {owner.worker: owner.first for owner in sorted(owners, key=lambda owner: owner.first)}
    return _Moment(
        standings,
        [snapshots(objects, number)[:1] for number in partitions],
        {worker: Log(objects, crawl.sealing, worker).end(first) for worker, first in firsts.items()},
    )


def _runs(objects: Objects, moment: _Moment) -> str:
    at = next((each.owner.place for each in moment.standings if each.owner is not None and not each.is_released), "")
    where = f", among others at {at}" if at else ""
    return (
        f"the crawl in {objects.address} is running{where}: stop it first, because copies of its partitions made at "
        "different times lack the links between them"
    )

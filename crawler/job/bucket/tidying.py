"""Removes from a bucket what nothing needs any more. Of all partitions at once: after a split they name the same
pieces, and a log has the steps of several."""

from __future__ import annotations

import re
from collections import defaultdict

from crawler.job.bucket.layout import KEEP, PIECES, read_snapshot, standing
from crawler.job.bucket.objects import Objects

_SNAPSHOT = re.compile(r"snapshot/([0-9]+)/([0-9]+)-([0-9]+)", re.ASCII)
_OWNER = re.compile(r"owner/([0-9]+)/([0-9]+)(?:-released)?", re.ASCII)


def tidy(objects: Objects, now: float) -> None:
    """Remove pieces that no snapshot names, logs that no snapshot follows, but for the object that closes each (its
    worker may only be asleep), and owners before the snapshots. ``now`` is in seconds since 1970. Raises BucketError,
    BucketDown."""
    logs = defaultdict[str, list[str]](list)  # first: whoever begins after this is in none of the lists
    for each in objects.list("log/"):
        logs[each.key.split("/")[1]].append(each.key)
    found = [match for each in objects.list("snapshot/") if (match := _SNAPSHOT.fullmatch(each.key)) is not None]
    named, workers, oldest = set[str](), set[str](), dict[int, int]()
    for partition, epoch, number in (map(int, match.groups()) for match in found):
        snapshot = read_snapshot(objects, partition, (epoch, number))
        if snapshot is None:
            return  # a newer one has just taken its place, and is not listed: next time
        named |= snapshot.pieces()
        workers.add(snapshot.worker)
        oldest[partition] = min(epoch, oldest.get(partition, epoch))
    owners = [(each.key, match) for each in objects.list("owner/") if (match := _OWNER.fullmatch(each.key)) is not None]
    for partition in {int(match[1]) for _, match in owners}:
        owner = standing(objects, partition).owner
        workers.add("" if owner is None else owner.worker)
    gone = [key for key, match in owners if int(match[2]) < oldest.get(int(match[1]), 0)]
    for each in objects.list(PIECES):
        if each.modified < now - KEEP and each.key.removeprefix(PIECES) not in named:
            gone.append(each.key)
    for worker, keys in logs.items():
        if worker not in workers:
            gone += sorted(keys)[:-1]
    objects.delete(gone)

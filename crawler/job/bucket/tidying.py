"""Removes unneeded objects from a bucket. This covers all partitions at once, because partitions share pieces after a
split, and a log has the steps of several partitions."""

from __future__ import annotations

from collections import defaultdict

from crawler.job.bucket.layout import ALIVE, KEEP, OWNER, PIECES, SNAPSHOT, read_snapshot, standing
from crawler.job.bucket.objects import Objects


def tidy(objects: Objects) -> None:
    """Remove pieces that are in no snapshot, logs and signs of life that belong to no snapshot or owner, and owner
    objects older than the oldest snapshot. Keep the closing object of each log, because the log's worker may merely be
    suspended. An object's age is the time from it to the newest object, because the clock of this machine may be wrong.
    Raises BucketError, BucketDown."""
    logs = defaultdict[str, list[str]](list)  # listed first: logs that start later must not be removed
    newest = 0.0
    for each in objects.list("log/"):
        logs[each.key.split("/")[1]].append(each.key)
        newest = max(newest, each.modified)
    found = [match for each in objects.list("snapshot/") if (match := SNAPSHOT.fullmatch(each.key)) is not None]
    named, workers, oldest = set[str](), set[str](), dict[int, int]()
    for partition, epoch, number in (map(int, match.groups()) for match in found):
        snapshot = read_snapshot(objects, partition, (epoch, number))
        if snapshot is None:
            return  # a newer snapshot that is not listed has just replaced it: retry next time
        named |= snapshot.pieces()
        workers.add(snapshot.worker)
        oldest[partition] = min(epoch, oldest.get(partition, epoch))
    owners = [(each.key, match) for each in objects.list("owner/") if (match := OWNER.fullmatch(each.key)) is not None]
    for partition in {int(match[1]) for _, match in owners}:
        owner = standing(objects, partition).owner
        workers.add("" if owner is None else owner.worker)
    gone = [key for key, match in owners if int(match[2]) < oldest.get(int(match[1]), 0)]
    pieces = list(objects.list(PIECES))
    newest = max([newest, *(each.modified for each in pieces)])
    for each in pieces:
        if each.modified < newest - KEEP and each.key.removeprefix(PIECES) not in named:
            gone.append(each.key)
    for worker, keys in logs.items():
        if worker not in workers:
            gone += sorted(keys)[:-1]
    gone += [each.key for each in objects.list(ALIVE) if each.key.split("/")[1] not in workers]
    objects.delete(gone)

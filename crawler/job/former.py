"""Keeps what a partition had before it began anew.

Somebody may say that a partition whose directories are all gone begins again (``--forget-partition``). If one of them
comes back after all, it is the only place of what was fetched until then. It cannot go on: its partition has another
*life*. But neither is it a replica that is made anew, as one is that only lacks the last steps. So it is never removed:

DIR/replicas/07.former-1   what a partition had in its life before

A life is told by the secret of the job's hash, which is drawn when a partition begins, and which its replicas have too.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from crawler.base.disk import Disk
from crawler.job.directory import JobError
from crawler.job.identity import read_identity
from crawler.seen.slices.key_hash import KeyHash

_FORMER = ".former-"


def life_of(hash: KeyHash) -> int:
    """The life of the job with that hash, a number of 56 bits."""
    return int.from_bytes(blake2b(b"life", key=hash.secret, digest_size=7).digest(), "big")


def life_there(directory: Path) -> int:
    """The life of the partition in a directory; 0 if that cannot be told, or nothing is there."""
    try:
        return life_of(read_identity(directory).hash)
    except (JobError, OSError):
        return 0


def is_former(directory: Path, life: int) -> bool:
    """Whether the directory has another life of a partition than that."""
    there = life_there(directory)
    return there != life and 0 not in (there, life)


def set_aside(disk: Disk, source: Path, replica: Path) -> Path:
    """Keep what is in a directory under a name beside that of the replica, durably, and return that. Raises OSError."""
    number = 1
    while (kept := replica.with_name(f"{replica.name}{_FORMER}{number}")).exists():
        number += 1
    disk.move(source, kept)
    for parent in {kept.parent, source.parent}:
        disk.sync_directory(parent)
    return kept


def kept_former(path: Path) -> str:
    """What the user is told of what is kept there."""
    return f"the partition began anew while this directory was away: pages and URLs that only it had are kept in {path}"

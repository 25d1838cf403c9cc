"""What a job is made of: the machine it stands on, and the steps that change it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from crawler.disk import Disk, RealDisk
from crawler.kv import Batch, Store
from crawler.records import PageRecord
from crawler.store import RocksStore


def scope_key(mode: str, entry: str) -> bytes:
    """The META key that keeps an entry of a scope."""
    return f"scope/{mode}/{entry}".encode()


# A disk that is full may have room again; any other error of a disk does not pass by itself.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def no_room(error: OSError) -> str:
    """Why nothing can be written, for one of ``FULL``. Without the name of a file, which would be a path of this
    machine: it is shown to whoever looks at the dashboard."""
    return os.strerror(error.errno or errno.ENOSPC)


# How the note begins that says so of a checkpoint.
NO_CHECKPOINT = "no checkpoint, the journal stands for it"


@dataclass(slots=True)
class Step:
    """One atomic change: what goes to the store, and the records (with their journal numbers) that go to the output
    before it."""

    batch: Batch = field(default_factory=Batch)
    records: list[tuple[int, PageRecord]] = field(default_factory=list)


def _durability_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="durability")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a job stands on: the real one, or what a simulation puts in its place. ``executor`` makes what runs syncs
    and checkpoints one after the other, beside the event loop."""

    disk: Disk = field(default_factory=RealDisk)
    open_store: Callable[[Path], Store] = RocksStore
    executor: Callable[[], Executor] = _durability_thread

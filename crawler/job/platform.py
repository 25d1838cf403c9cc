"""What a job stands on: the real disk, store and thread, or what a simulation puts in their place."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from crawler.checkpoint import Renewal
from crawler.disk import Disk, RealDisk
from crawler.kv import Store
from crawler.store import RocksStore


def _durability_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="durability")


@dataclass(frozen=True, slots=True)
class Platform:
    """``executor`` makes what runs syncs and checkpoints one after the other, beside the event loop. ``renewal`` says
    how seldom the seen-set is stored again."""

    disk: Disk = field(default_factory=RealDisk)
    open_store: Callable[[Path], Store] = RocksStore
    executor: Callable[[], Executor] = _durability_thread
    renewal: Renewal = field(default_factory=Renewal)

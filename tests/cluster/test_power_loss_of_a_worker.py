"""A worker dies, with all that it had not synced, and the others live on: the crawl is complete, each page once.

``benchmarks/partitions/losses.py`` is the long form, with machines of their own.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.durability.synced import Synced
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import begun, ended, in_two, records, workers
from tests.needs import need
from tests.program import wait_until

pytestmark = pytest.mark.long


def partitions_of(directory: Path, pid: int) -> list[Path]:
    """Those that the process has open."""
    locks = directory.glob("partitions/*/lock")
    return [lock.parent for lock in locks if lock.read_text().strip() == str(pid)]


def asked_by(directory: Path, pid: int) -> int:
    """How many pages the partitions have that the process has open."""
    files = (path / "pages.jsonl" for path in partitions_of(directory, pid))
    return sum(path.read_bytes().count(b"\n") for path in files if path.exists())


def test_what_a_worker_had_not_synced_costs_no_page(tmp_path: Path) -> None:
    """Pages are undone whose links the other one has followed, and links that had come from it."""
    need("gcc", "gcc libc6-dev")
    directory, synced, undone = tmp_path / "crawl", Synced(tmp_path), Counter[str]()
    environment = {**os.environ, **synced.environment}
    with Chain(16, 16, 0.1) as chain, begun(chain, *in_two(directory), env=environment) as process:
        for loss in range(2):
            wait_until(lambda: len(workers(process.pid)) == 2, "both workers run")
            victim = workers(process.pid)[loss]
            known = asked_by(directory, victim)
            wait_until(
                lambda known=known, victim=victim: asked_by(directory, victim) > known + 15, "it has fetched pages"
            )
            process.send_signal(signal.SIGSTOP)  # it is to start no other one before the loss
            lost = partitions_of(directory, victim)
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda victim=victim: is_dead(victim), "it is gone")
            before = records(directory)
            for partition in lost:
                synced.lose_power(partition, random.Random(loss), all_of_it=True)
            undone += before - records(directory)
            process.send_signal(signal.SIGCONT)
        ran = ended(process)
        assert ran.code == 0, ran.err
        assert records(directory) == Counter(dict.fromkeys(chain.pages, 1))
        assert undone, "it had fetched what it had not synced"
        assert min(chain.asked[url] for url in undone) > 1, "these were asked for again"


def is_dead(pid: int) -> bool:
    """Whether a child that nobody has waited for is a zombie, whose files are closed."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

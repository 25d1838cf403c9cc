"""``crawler work --drain --dir DIR``: has the worker of a directory leave, and waits until it has."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from crawler.cli.exit_codes import Exit, UsageError
from crawler.cluster.drain_file import asked, is_alive, working_in
from crawler.disk import RealDisk
from crawler.job.crawl_file import holds_crawl, partition_directories
from crawler.progress.say import say

_LOOK = 0.5  # seconds between two looks


def drain(directory: Path) -> int:
    """Returns the exit code. Raises UsageError, OSError."""
    if not holds_crawl(directory):
        raise UsageError(f"{directory} holds no crawl in partitions")
    working = working_in(directory)
    if working:
        with asked(RealDisk(), directory):
            _wait(directory, working)
    left = _partitions(directory)
    if not left:
        say(sys.stderr, f"{directory} has no partition any more: it can be removed")
        return Exit.OK
    one = len(left) == 1
    named = f"partition{'' if one else 's'} {', '.join(map(str, left))} {'is' if one else 'are'}"
    why = "no other worker could take them" if working else "no worker has them open: start it, then drain it"
    say(sys.stderr, f"crawler: {named} still in {directory}: {why}")
    return Exit.FAILED


def _wait(directory: Path, working: set[int]) -> None:
    """Wait until these processes have ended, and all that take their places. Say how many partitions are left."""
    told: Sequence[int] = ()
    while any(map(is_alive, working)):
        left = _partitions(directory)
        if left != told:
            told = left
            say(sys.stderr, f"{len(left)} partitions left")
        time.sleep(_LOOK)
        working |= working_in(directory)


def _partitions(directory: Path) -> Sequence[int]:
    return [int(path.name) for path in partition_directories(directory)]

"""``crawler work --drain --dir DIR``: asks the workers of a directory to leave, and waits until they have left."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from crawler.base.carrier.local_frames import SOCKET_NAME
from crawler.base.disk import RealDisk
from crawler.base.figures import listed
from crawler.base.say import say
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cluster.drain_file import asked, is_at_work
from crawler.job.bucket.address import open_objects
from crawler.job.bucket.ownership import has_last_word, read_here
from crawler.job.crawl_file import holds_crawl, partition_directories
from crawler.job.job_lock import lock_holder

_LOOK = 0.5  # seconds between two checks


def drain(directory: Path) -> int:
    """Drain the directory and return the exit code. Raises UsageError, FailedError, OSError."""
    here = read_here(directory) if holds_crawl(directory) else None
    if here is None:
        raise UsageError(
            f"{directory} holds no partitioned crawl in a store, so it cannot be drained; Ctrl-C stops its workers"
        )
    first = lock_holder(directory)
    if first is not None and (directory / SOCKET_NAME).exists():
        raise UsageError(
            f"process {first} in {directory} connects all workers, and they would end with it: a directory can be "
            "drained only if the crawl has an `--engine`"
        )
    with asked(RealDisk(), directory):
        while is_at_work(directory) or lock_holder(directory) is not None:
            time.sleep(_LOOK)
    objects = open_objects(here.address, reading=True)
    left = [int(job.name) for job in partition_directories(directory) if has_last_word(objects, job)]
    if left:
        say(
            sys.stderr,
            f"crawler: {here.address} lacks the last steps of partitions {listed(left)}, which only {directory} has: "
            "start a worker there, and drain that directory again",
        )
        return Exit.FAILED
    say(sys.stderr, f"{here.address} has everything from {directory}, which can be removed")
    return Exit.OK

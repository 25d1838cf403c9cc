"""``DIR/drain``: the workers of a directory are asked to leave.

The file has the pid of the process that asks and waits. When that process is gone, nobody is asked any more, so a file
that was left behind does nothing to a worker that begins later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from crawler.base.disk import Disk, replace_file
from crawler.job.crawl_file import CRAWL
from crawler.job.job_lock import in_use, is_in_use

DRAIN = "drain"


@contextlib.contextmanager
def asked(disk: Disk, directory: Path) -> Iterator[None]:
    """A context in which the workers of the directory are asked to leave. Raises OSError."""
    path = directory / DRAIN
    replace_file(disk, path, f"{os.getpid()}\n".encode())
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(path)


def is_asked(directory: Path) -> bool:
    """Whether they are. Raises OSError."""
    try:
        text = (directory / DRAIN).read_bytes().strip()
    except FileNotFoundError:
        return False
    return text.isdigit() and is_alive(int(text))


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def at_work(directory: Path) -> contextlib.AbstractContextManager[None]:
    """A context in which this process works on the crawl with that directory, whether it has a partition or not. Raises
    OSError."""
    return in_use(directory / CRAWL)


def is_at_work(directory: Path) -> bool:
    """Whether any process does. Raises OSError."""
    return is_in_use(directory / CRAWL)

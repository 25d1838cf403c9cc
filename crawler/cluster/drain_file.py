"""``DIR/drain`` asks the workers of a directory to leave.

The file holds the pid of the requesting process, which waits for the workers. The request is valid only while that
process exists, so a leftover file does not affect workers that start later.
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
    """While this context is active, the workers of the directory are asked to leave. Raises OSError."""
    path = directory / DRAIN
    replace_file(disk, path, f"{os.getpid()}\n".encode())
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(path)


def is_asked(directory: Path) -> bool:
    """Return True if the directory's workers are asked to leave. Raises OSError."""
    try:
        text = (directory / DRAIN).read_bytes().strip()
    except FileNotFoundError:
        return False
    return text.isdigit() and is_alive(int(text))


def is_alive(pid: int) -> bool:
    """Return True if a process with this pid exists."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def at_work(directory: Path) -> contextlib.AbstractContextManager[None]:
    """While this context is active, this process is marked as working on the crawl in that directory, even if it owns
    no partition. Raises OSError."""
    return in_use(directory / CRAWL)


def is_at_work(directory: Path) -> bool:
    """Return True if any process is working on the crawl in that directory. Raises OSError."""
    return is_in_use(directory / CRAWL)

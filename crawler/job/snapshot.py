"""``DIR/snapshot``: the state of a job at one moment, for a backup.

Whoever writes the job makes it: a running crawl, or else the command. It costs no space and little time, because almost
all of it is second names of files that are never changed in place. Whoever asked for it copies it elsewhere, as slowly
as that takes, and removes it.

The order makes it consistent. What waits in the inbox and the generations of the seen-set come before the store: a
parcel that is admitted in between is admitted again, which changes nothing, and a generation older than the journal is
what each resumed crawl finds. The output is not part of it: the journal says how much of ``pages.jsonl`` belongs to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from crawler.disk import failpoint
from crawler.job.directory import IDENTITY, SEEN, STORE
from crawler.job.history_file import COURSE
from crawler.job.inbox import INBOX
from crawler.job.run_settings import RUN

SNAPSHOT = "snapshot"
_FILES = (IDENTITY, RUN, COURSE, "demo.json")  # replaced by a rename, never written in place
_PARCELS = ".urls"


def remove_snapshot(directory: Path) -> None:
    """Remove the snapshot, or what an interrupted backup left of one. Raises OSError."""
    if (directory / SNAPSHOT).exists():
        shutil.rmtree(directory / SNAPSHOT)


def make_snapshot(directory: Path, copy_store: Callable[[Path], None]) -> None:
    """Make the snapshot; ``copy_store`` copies the store to a directory that does not exist. Raises OSError, also when
    there is a snapshot already."""
    snapshot = directory / SNAPSHOT
    snapshot.mkdir()
    _link_files(directory / INBOX, snapshot / INBOX, _PARCELS)
    _link_files(directory / SEEN, snapshot / SEEN)
    for name in _FILES:
        with contextlib.suppress(FileNotFoundError):
            os.link(directory / name, snapshot / name)
    failpoint("snapshot.linked")
    copy_store(snapshot / STORE)
    failpoint("snapshot.made")


def _link_files(source: Path, target: Path, suffix: str = "") -> None:
    target.mkdir()
    for path in source.iterdir() if source.is_dir() else ():
        if path.name.endswith(suffix) and path.is_file():
            with contextlib.suppress(FileNotFoundError):  # the crawl has admitted a parcel since
                os.link(path, target / path.name)

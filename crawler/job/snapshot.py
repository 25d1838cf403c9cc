"""``DIR/snapshot``: the state of a job at one moment, for a backup.

The process that writes the job creates it: a running crawl, or otherwise the command. A snapshot costs little space and
time, because almost all of its files are hard links to files that are never changed in place. The command that
requested the snapshot copies it elsewhere, which may take long, and then removes it.

``DIR/copying/ID`` is such a snapshot for the store of a crawl (``bucket.snapshots``), without the inbox.

The order of copying makes the snapshot consistent. The files in the inbox and the generations of the seen-set come
before the store. A batch that is admitted in between is admitted again, which changes nothing; and every resumed crawl
finds a generation that is older than the journal. The output is not part of the snapshot: the journal records how much
of ``pages.jsonl`` belongs to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from crawler.base.disk import failpoint, make_private_directory
from crawler.job.directory import IDENTITY, SEEN, STORE
from crawler.job.history_file import HISTORY
from crawler.job.inbox import INBOX
from crawler.job.run_settings import RUN

SNAPSHOT = "snapshot"
COPYING = "copying"
_FILES = (IDENTITY, RUN, HISTORY, "demo.json")  # files replaced by a rename, never written in place
_URL_BATCHES = ".urls"


def remove_snapshot(directory: Path) -> None:
    """Remove the snapshot, complete or not, if it exists. Raises OSError."""
    if (directory / SNAPSHOT).exists():
        shutil.rmtree(directory / SNAPSHOT)


def make_snapshot(directory: Path, copy_store: Callable[[str], None]) -> None:
    """Create the snapshot. ``copy_store`` copies the store to a directory that does not exist yet. Raises OSError,
    including when a snapshot already exists."""
    snapshot = directory / SNAPSHOT
    make_private_directory(snapshot)
    _link_files(directory / INBOX, snapshot / INBOX, _URL_BATCHES)
    link_state(directory, snapshot, copy_store)


def remove_tree(directory: Path) -> None:
    """Remove the directory tree if it exists; if it is a link, remove only the link. Another process may remove it at
    the same time. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        if directory.is_dir() and not directory.is_symlink():
            shutil.rmtree(directory)
        else:
            directory.unlink()


def link_state(directory: Path, snapshot: Path, copy_store: Callable[[str], None]) -> None:
    """Create all of a snapshot except its inbox, in an existing directory. Raises OSError."""
    _link_files(directory / SEEN, snapshot / SEEN)
    for name in _FILES:
        if (directory / name).is_file():
            os.link(directory / name, snapshot / name)
    failpoint("snapshot.linked")
    copy_store(str(snapshot / STORE))
    failpoint("snapshot.made")


def _link_files(source: Path, target: Path, suffix: str = "") -> None:
    make_private_directory(target)
    for path in source.iterdir() if source.is_dir() else ():
        if path.name.endswith(suffix) and path.is_file():
            with contextlib.suppress(FileNotFoundError):  # the crawl has admitted the batch meanwhile
                os.link(path, target / path.name)

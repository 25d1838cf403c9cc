"""The names of the files in a job directory, and the settings that its stored state depends on.

DIR/job.json   format version and the shaping settings, fixed when the job began
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from crawler.checkpoint import EnvelopeError, encode_envelope, read_envelope
from crawler.disk import Disk, replace_file
from crawler.settings import SHAPING, Settings, as_tables

MAGIC = "crawler-job"
VERSION = 1
IDENTITY = "job.json"
STORE = "store"
BROKEN_OFF = "a repair was interrupted here: `crawler repair` completes it"
REPAIRED = "store.repaired"  # a new store, until a repair moves it to the place of the old one
SEEN = "seen"
PAGES = "pages.jsonl"
LIVE = "live.json"
# What may be in a directory without a job: a file system's own, and what is left of a crawl killed before it began.
_BEFORE = frozenset({"lost+found", "lock", f"{IDENTITY}.part", "crash.txt"})

Shaping = dict[str, dict[str, Any]]  # settings as nested tables


class JobError(Exception):
    """The job directory cannot be used as requested. ``str`` gives one line for the user.

    ``new_job``: a new job in another directory is a way out. ``fault`` is then the line without that advice, so that
    the command line can name its own option."""

    def __init__(self, fault: str, *, new_job: bool = False) -> None:
        super().__init__(fault)
        self.fault = fault
        self.new_job = new_job

    def __str__(self) -> str:
        return f"{self.fault}, or start a new job in another directory" if self.new_job else self.fault


def holds_job(directory: Path) -> bool:
    """Whether the directory holds a job."""
    return (directory / IDENTITY).is_file()


def check_vacant(directory: Path, own: Collection[str] = ()) -> None:
    """Raise JobError if a new job would be mixed with files of somebody else: a mistyped --job must not fill a
    directory of photographs. Files with the names in ``own`` may be there; ``identify`` checks for parts of a crawl."""
    try:
        found = {path.name for path in directory.iterdir()}
    except OSError:
        return  # there is none yet, or it cannot be used: told when it is made
    strange = sorted(name for name in found - _BEFORE - set(own) if not name.startswith("."))
    if strange and not found & {PAGES, STORE, SEEN, REPAIRED}:
        raise JobError(f"{directory} holds no crawl but other files ({strange[0]}): name a job directory", new_job=True)


def read_identity(directory: Path) -> Shaping:
    """The shaping settings of the job as nested tables. Raises JobError."""
    path = directory / IDENTITY
    try:
        content = read_envelope(path, MAGIC, VERSION, str(path))
        return {table: dict(values) for table, values in content["shaping"].items()}
    except (FileNotFoundError, NotADirectoryError):
        raise JobError(f"{directory} holds no crawl: name a job directory") from None
    except (EnvelopeError, OSError) as error:  # before ValueError, the base of EnvelopeError
        raise JobError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError):
        raise JobError(f"{path}: the shaping settings are missing") from None


def write_identity(disk: Disk, directory: Path, shaping: Shaping) -> None:
    """Write ``job.json``. Raises OSError."""
    content = encode_envelope(MAGIC, VERSION, {"shaping": shaping})
    replace_file(disk, directory / IDENTITY, content, "begin.identity")


def identify(disk: Disk, directory: Path, shaping: Shaping, *, resumed: bool) -> None:
    """Begin the job in its directory, or check that no part of the job to resume is missing.

    Raises JobError, OSError."""
    pages = directory / PAGES
    if (directory / REPAIRED).exists():
        raise JobError(f"{directory}: {BROKEN_OFF}")
    if resumed:
        if not (directory / STORE).is_dir() and pages.exists() and pages.stat().st_size:
            raise JobError(f"{directory}: {STORE}/ is missing but {PAGES} exists: restore {STORE}/", new_job=True)
    elif any((directory / name).exists() for name in (PAGES, STORE, SEEN)):
        raise JobError(f"{directory} holds a part of a crawl but no {IDENTITY}: restore that file", new_job=True)
    else:
        write_identity(disk, directory, shaping)


def shaping_of(settings: Settings) -> Shaping:
    """The shaping settings as nested tables."""
    tables = as_tables(settings)
    shaping: Shaping = {}
    for table, key in SHAPING:
        shaping.setdefault(table, {})[key] = tables[table][key]
    return shaping


def shape_of_job(directory: Path) -> Shaping:
    """The shaping settings of the job in the directory, as nested tables; empty if there is no job.

    Raises JobError when one of them is missing."""
    if not holds_job(directory):
        return {}
    stored = read_identity(directory)
    shape: Shaping = {}
    for table, key in SHAPING:
        if key not in stored.get(table, {}):
            raise JobError(f"{directory / IDENTITY}: {table}.{key}, which shapes the job, is missing", new_job=True)
        shape.setdefault(table, {})[key] = stored[table][key]
    return shape


def check_shape(directory: Path, asked: Shaping) -> None:
    """Raises JobError when the job in the directory has other shaping settings: the state on disk depends on them."""
    for table, values in shape_of_job(directory).items():
        for key, kept in values.items():
            if asked[table][key] != kept:
                raise JobError(
                    f"{directory}: {table}.{key} cannot change after the crawl began (was {kept!r}, now "
                    f"{asked[table][key]!r}): restore {kept!r}",
                    new_job=True,
                )


def make_directory(directory: Path, disk: Disk) -> None:
    """Create the directory and its missing parents, and make their names durable. Raises OSError."""
    above = [parent for parent in directory.absolute().parents if not parent.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in (directory.absolute(), *above):
        # A directory that this user may not read existed before.
        with contextlib.suppress(PermissionError):
            disk.sync_directory(path.parent)

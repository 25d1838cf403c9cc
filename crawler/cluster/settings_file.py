"""``DIR/settings.json``: the settings that the carrier last gave a worker.

If the carrier has lost them, and the process that started the crawl is not running to publish them again, the worker
uses these, and restores them for others. The file is an envelope that only its owner can read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawler.base.disk import Disk, replace_file
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.directory import JobError

NAME = "settings.json"
Tables = dict[str, dict[str, Any]]
_MAGIC = "crawler-settings"
_VERSION = 1


def keep_settings(disk: Disk, directory: Path, tables: Tables) -> None:
    """Write the settings, unless the file already holds the same. Raises JobError, OSError."""
    if kept_settings(directory) != tables:
        replace_file(disk, directory / NAME, encode_envelope(_MAGIC, _VERSION, {"settings": tables}))


def kept_settings(directory: Path) -> Tables | None:
    """Return the stored settings; None if there are none. Raises JobError, OSError."""
    path = directory / NAME
    try:
        content = read_envelope(path, _MAGIC, _VERSION, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    match content:
        case {"settings": dict(tables)} if all(isinstance(table, dict) for table in tables.values()):
            return tables
    raise JobError(f"{path}: not a crawl's settings")

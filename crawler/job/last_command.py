"""How the last run of a job was started: ``DIR/command.json``, for ``crawler dashboard``, which can start it again.

It holds the seeds as they were named and the flags, not what they refer to: no content of a configuration file, no
token, no login. Only its owner may read it, as all files of a job. If it is missing or damaged, nothing is lost: the
next run by hand writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crawler.checkpoint import EnvelopeError, encode_envelope, read_envelope
from crawler.disk import Disk, replace_file

COMMAND = "command.json"
MAGIC = "crawler-last-command"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LastCommand:
    """``seeds``: as they were named. ``words``: the flags, without that for the job's directory. ``directory``: where
    relative paths begin."""

    seeds: tuple[str, ...]
    words: tuple[str, ...]
    directory: str


def write_command(disk: Disk, directory: Path, command: LastCommand) -> None:
    """Raises OSError."""
    content = {"seeds": list(command.seeds), "words": list(command.words), "directory": command.directory}
    replace_file(disk, directory / COMMAND, encode_envelope(MAGIC, VERSION, content))


def read_command(directory: Path) -> LastCommand | None:
    """Return how the last run was started; None if that is not known. Raises EnvelopeError for a damaged file,
    OSError."""
    try:
        content = read_envelope(directory / COMMAND, MAGIC, VERSION, COMMAND)
    except FileNotFoundError:
        return None
    match content:
        case {"seeds": [*seeds], "words": [*words], "directory": str(place)} if all(
            isinstance(word, str) for word in (*seeds, *words)
        ):
            return LastCommand(tuple(seeds), tuple(words), place)
    raise EnvelopeError(f"{COMMAND}: not the command of a crawl")

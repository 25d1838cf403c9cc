"""Records in ``DIR/command.json`` how the last run of a job was started, so that ``crawler dashboard`` can repeat it.

It holds the seeds as given and the flags, but no content from elsewhere: no configuration file, token or login. Like
all files of a job, only its owner can read it. If it is missing or damaged, nothing is lost: the next run from the
command line writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from crawler.base.disk import Disk, replace_file
from crawler.job.checkpoint.envelope import content_of, encode_envelope, read_envelope
from crawler.url.urls.typed import has_url_scheme

COMMAND = "command.json"
MAGIC = "crawler-last-command"
VERSION = 1
STDIN = "-"


class LastCommand(Struct, frozen=True):
    """A command. ``seeds``: as given, except files in the job's directory.

    Those are ``own_seeds``, relative to it, so that the job may be moved. ``words``: the flags, except the one for the
    job's directory. ``directory``: the base of other relative paths."""

    seeds: tuple[str, ...]
    words: tuple[str, ...]
    directory: str
    own_seeds: tuple[str, ...] = ()

    @classmethod
    def of(cls, seeds: Sequence[str], words: Sequence[str], place: Path, job: Path) -> LastCommand:
        """Return the command of a run of ``job`` that was started in ``place``."""
        home, named, own = job.resolve(), list[str](), list[str]()
        for seed in seeds:
            path = (place / seed).resolve()
            if not has_url_scheme(seed) and path.is_relative_to(home) and path.is_file():
                own.append(str(path.relative_to(home)))
            else:
                named.append(seed)
        return cls(tuple(named), tuple(words), str(place), tuple(own))

    def seeds_of(self, job: Path) -> tuple[list[str], list[Path], bool]:
        """Return the seeds that can be read again, as URLs and files, and whether any of the files are missing. Seeds
        from standard input are not included."""
        place = Path(self.directory)
        named = [seed for seed in self.seeds if seed != STDIN]
        files = [
            *(place / seed for seed in named if not has_url_scheme(seed)),
            *(job / name for name in self.own_seeds),
        ]
        there = [path for path in files if path.is_file()]
        return [seed for seed in named if has_url_scheme(seed)], there, len(there) < len(files)


def write_command(disk: Disk, directory: Path, command: LastCommand) -> None:
    """Write the file. Raises OSError."""
    replace_file(disk, directory / COMMAND, encode_envelope(MAGIC, VERSION, msgspec.to_builtins(command)))


def read_command(directory: Path) -> LastCommand | None:
    """Return how the last run was started; None if unknown. Raises OSError, and EnvelopeError for a damaged file."""
    try:
        return content_of(read_envelope(directory / COMMAND, MAGIC, VERSION, COMMAND), LastCommand, COMMAND)
    except FileNotFoundError:
        return None

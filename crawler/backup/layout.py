"""What a backup directory holds.

    backup.json       what the backup consists of; written last, replaced by a rename
    backup-000003/    the state of the job, as in its directory, without the output
    pages-000001      the output; only the first bytes of it belong to the backup, ``output_end`` says how many

A later backup makes a directory with the next number beside the one that is there, and appends to the output. Until
``backup.json`` is replaced, the backup before it is unchanged and complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from crawler import __version__
from crawler.checkpoint import EnvelopeError, UnknownVersionError, encode_envelope, read_envelope
from crawler.disk import Disk, replace_file

MANIFEST = "backup.json"
MAGIC = "crawler-backup"
VERSION = 1
_STATE = re.compile(r"backup-([0-9]{6,})", re.ASCII)
_OUTPUT = re.compile(r"pages-([0-9]{6,})", re.ASCII)


class BackupError(Exception):
    """A backup cannot be made or restored as asked. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a backup comes from. ``store`` is RocksDB's name for the database, which a copy keeps; ``output`` is device
    and inode of ``pages.jsonl``, which a repair replaces."""

    directory: str
    store: str
    output: tuple[int, int] | None

    def is_other(self, source: Source) -> bool:
        """Whether it is certainly another job: a job that was moved keeps its store, a repaired one its place."""
        return self.directory != source.directory and self.store != source.store


@dataclass(frozen=True, slots=True)
class Manifest:
    """``files`` are those of the state with their sizes, by the path in its directory. ``made_at`` is in seconds since
    1970."""

    number: int
    output: int  # number of the file
    output_end: int
    source: Source
    files: dict[str, int]
    made_at: float

    def check_sizes(self, top: Path) -> None:
        """Raise BackupError if a file is missing or has another size."""
        sizes = {state_name(self.number) + "/" + name: size for name, size in self.files.items()}
        if self.output_end:
            sizes[output_name(self.output)] = self.output_end
        for name, size in sizes.items():
            path = top / name
            found = path.stat().st_size if path.is_file() else None
            whole = found is not None and (found == size or (found > size and name == output_name(self.output)))
            if not whole:
                was = "is missing" if found is None else f"has {found} bytes where {size} were written"
                raise BackupError(f"{top} is damaged: {name} {was}")


def state_name(number: int) -> str:
    return f"backup-{number:06d}"


def output_name(number: int) -> str:
    return f"pages-{number:06d}"


def read_manifest(top: Path) -> Manifest | None:
    """None if there is no backup. Raises BackupError for one that is damaged, or of a newer program; OSError."""
    try:
        content = read_envelope(top / MANIFEST, MAGIC, VERSION, str(top / MANIFEST))
        source = content["source"]
        output = source["output"]
        return Manifest(
            int(content["number"]),
            int(content["output"]),
            int(content["output_end"]),
            Source(str(source["directory"]), str(source["store"]), None if output is None else (output[0], output[1])),
            {str(name): int(size) for name, size in content["files"].items()},
            float(content["made_at"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnknownVersionError as error:
        raise BackupError(f"{error}: use the program that made the backup, or a newer one") from error
    except EnvelopeError as error:
        raise BackupError(f"{error}: restore another backup, or make a new one in an empty directory") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BackupError(f"{top / MANIFEST} is damaged: {error!r}") from error


def write_manifest(disk: Disk, top: Path, manifest: Manifest) -> None:
    """Raises OSError."""
    content = encode_envelope(MAGIC, VERSION, {"program": __version__, **asdict(manifest)})
    replace_file(disk, top / MANIFEST, content, "backup.manifest")


def parts(top: Path) -> Iterator[tuple[Path, str, int]]:
    """All states ("state") and outputs ("output") in the directory with their numbers, of whatever backup."""
    for path in top.iterdir():
        for kind, pattern in (("state", _STATE), ("output", _OUTPUT)):
            match = pattern.fullmatch(path.name)
            if match:
                yield path, kind, int(match[1])

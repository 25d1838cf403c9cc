"""What a backup directory holds.

    backup.json       the list of what belongs to the backup; written last, replaced by a rename
    backup-000003/    the state of the job, as in its directory, without the output
    pages-000001      ``pages.jsonl``; only its first ``output_end`` bytes belong to the backup
    outputs-000001/   the files of the other outputs, as in the job; only their first ``kept_files`` bytes belong to it
    bodies/           the bodies that the records name, as in the job: every backup adds those that are not there yet

A later backup makes a directory with the next number beside the earlier one, and appends to the outputs. Until
``backup.json`` is replaced, the earlier backup is unchanged and complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins

from crawler import __version__
from crawler.base.disk import Disk, replace_file
from crawler.base.faults import UserFault
from crawler.job.checkpoint.envelope import EnvelopeError, UnknownVersionError, encode_envelope, read_envelope

MANIFEST = "backup.json"
MAGIC = "crawler-backup"
VERSION = 1
_STATE = re.compile(r"backup-([0-9]{6,})", re.ASCII)
_OUTPUT = re.compile(r"pages-([0-9]{6,})", re.ASCII)
_KEPT = re.compile(r"outputs-([0-9]{6,})", re.ASCII)


class BackupError(UserFault):
    """A backup cannot be made or restored as asked. The text is one line for the user."""


class Source(Struct, frozen=True):
    """Where a backup comes from. ``store`` is RocksDB's name for the database; a copy of it has the same. ``output`` is
    the device and inode of ``pages.jsonl``; a repair replaces that file."""

    directory: str
    store: str
    output: tuple[int, int] | None

    def is_other(self, source: Source) -> bool:
        """Whether ``source`` is certainly another job: a job keeps its store when it is moved, and its place when it is
        repaired."""
        return self.directory != source.directory and self.store != source.store


class Manifest(Struct, frozen=True):
    """The content of ``backup.json``. ``files`` maps the path of each file of the state to its size in bytes.
    ``output_end`` is in bytes, ``made_at`` in seconds since 1970. ``kept_files`` maps the path in the job of each file
    of another output to the bytes of it; ``kept`` is the number of their directory, 0 if there are none. ``bodies``:
    bytes of all files of bodies."""

    number: int
    output: int  # number of its file
    output_end: int
    source: Source
    files: dict[str, int]
    made_at: float
    kept: int
    kept_files: dict[str, int]
    bodies: int

    @property
    def size(self) -> int:
        """Bytes of the whole backup."""
        return sum(self.files.values()) + self.output_end + sum(self.kept_files.values()) + self.bodies

    def check_sizes(self, top: Path) -> None:
        """Raise BackupError if a file is missing or has another size."""
        sizes = {state_name(self.number) + "/" + name: size for name, size in self.files.items()}
        if self.output_end:
            sizes[output_name(self.output)] = self.output_end
        kept = {f"{kept_name(self.kept)}/{name}": size for name, size in self.kept_files.items()}
        grows = {output_name(self.output), *kept}  # for the next backup
        for name, size in (sizes | kept).items():
            path = top / name
            found = path.stat().st_size if path.is_file() else None
            whole = found is not None and (found == size or (found > size and name in grows))
            if not whole:
                was = "is missing" if found is None else f"has {found} bytes where {size} were written"
                raise BackupError(f"{top} is damaged: {name} {was}")


def state_name(number: int) -> str:
    return f"backup-{number:06d}"


def output_name(number: int) -> str:
    return f"pages-{number:06d}"


def kept_name(number: int) -> str:
    return f"outputs-{number:06d}"


def read_manifest(top: Path) -> Manifest | None:
    """The manifest of the backup; None if there is no backup. Raises BackupError if it is damaged or of a newer
    program, and OSError."""
    try:
        content = read_envelope(top / MANIFEST, MAGIC, VERSION, str(top / MANIFEST))
        return convert(content, Manifest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnknownVersionError as error:
        raise BackupError(f"{error}: use the program that made the backup, or a newer one") from error
    except EnvelopeError as error:
        raise BackupError(f"{error}: restore another backup, or make a new one in an empty directory") from error
    except ValidationError as error:
        raise BackupError(f"{top / MANIFEST} is damaged: {error}") from error


def write_manifest(disk: Disk, top: Path, manifest: Manifest) -> None:
    """Replace ``backup.json``, durably. Raises OSError."""
    content = encode_envelope(MAGIC, VERSION, {"program": __version__, **to_builtins(manifest)})
    replace_file(disk, top / MANIFEST, content, "backup.manifest")


def parts(top: Path) -> Iterator[tuple[Path, str, int]]:
    """Every state ("state"), output ("output") and directory of other outputs ("kept") in the directory, with its
    number, whichever backup it belongs to."""
    for path in top.iterdir():
        for kind, pattern in (("state", _STATE), ("output", _OUTPUT), ("kept", _KEPT)):
            match = pattern.fullmatch(path.name)
            if match:
                yield path, kind, int(match[1])

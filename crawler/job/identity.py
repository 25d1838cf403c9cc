"""``DIR/job.json``: the format of the job, the settings on which its stored state depends, and the secret of its hash.

The head line is read before anything else of the job. Its version covers everything that a job stores, and increases
with every change: only a program that knows the version can interpret the stored bytes. Until the first release no
conversion exists: every other version is refused, and so are jobs from before the version was reset to 1, which have
another magic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from crawler import __version__
from crawler.base.disk import Disk, replace_file
from crawler.base.settings.load import as_tables
from crawler.base.settings.parts import SEEN_HASHES, SHAPING, Settings
from crawler.job.checkpoint.envelope import (
    EnvelopeError,
    content_of,
    decode_envelope,
    encode_envelope,
    read_bounded,
)
from crawler.job.crawl_file import holds_crawl, is_complete, read_crawl_file
from crawler.job.directory import IDENTITY, OBJECT_PARTS, UNUSABLE, JobError, OtherFormatError, check_format, holds_job
from crawler.seen.filters import FilterError, KeyHash

MAGIC, FORMER_MAGIC = "frontier-job", "crawler-job"
VERSION = 3
FORMAT = f"{MAGIC} {VERSION}".encode("ascii")  # the format as recorded in the store
Shaping = dict[str, dict[str, Any]]


class FixedSettingError(JobError):
    """A setting differs from the one with which the job was created. ``directory``, ``table`` and ``key`` identify the
    setting, ``kept`` is the job's value."""

    def __init__(self, directory: Path, place: tuple[str, str], kept: Any, asked: Any) -> None:
        self.directory = directory
        self.table, self.key = place
        self.kept = kept
        was, now = _shown(kept), _shown(asked)
        super().__init__(
            f"{directory}: {self.table}.{self.key} cannot change after the crawl started (was {was}, now {now}): "
            f"restore {was}",
            new_job=True,
        )


def _shown(value: Any) -> str:
    """Return the value as written in a configuration file."""
    return json.dumps(value, ensure_ascii=False)


class Identity(Struct, frozen=True):
    """The content of ``job.json``. ``hash`` hashes the job's URLs, with its secret.

    ``fetcher`` is the program that makes the requests of the job, and the only one that can resume it; None for this
    one. ``partition``: the job's partition number and the number of partitions of its crawl; None if it is not
    partitioned."""

    shaping: Shaping
    hash: KeyHash
    fetcher: str | None = None
    partition: tuple[int, int] | None = None


def read_identity(directory: Path) -> Identity:
    """Read ``job.json``. Raises JobError; OtherFormatError if another version of the program created the job; and
    OSError if the disk fails."""
    path = directory / IDENTITY
    try:
        data = read_bounded(path, str(path))
        check_format(data, directory, MAGIC, VERSION, FORMER_MAGIC)
        content = decode_envelope(data, MAGIC, VERSION, str(path))
        identity = content_of(content, Identity, str(path), lambda _, stored: _stored_hash(path, stored))
    except (FileNotFoundError, NotADirectoryError):
        if (directory / OBJECT_PARTS).is_dir():
            raise JobError(f"{directory} is a store or a backup: name it file:{directory.absolute()}") from None
        raise JobError(f"{directory} holds no crawl: name a job directory") from None
    except EnvelopeError as error:  # caught before ValueError, its base class
        raise JobError(str(error)) from error
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise JobError(str(error)) from error
    if not is_complete(identity.shaping):
        raise JobError(f"{path}: a shaping setting is missing")
    return identity


def _stored_hash(path: Path, stored: object) -> KeyHash:
    """Raise OtherFormatError for an algorithm that this program does not know, and JobError for damage."""
    algorithm = stored.get("algorithm") if isinstance(stored, dict) else None
    if isinstance(algorithm, str) and algorithm not in SEEN_HASHES:
        raise OtherFormatError(
            f"{path}: the job's URLs are hashed with {algorithm}; this program, crawler {__version__}, knows "
            f"{' and '.join(SEEN_HASHES)}: use the program that created the job, nothing was changed"
        )
    try:
        return KeyHash.from_json(stored)
    except FilterError as error:
        raise JobError(f"{path}: {error}") from error


def check_fetcher(directory: Path, fetcher: str | None = None) -> None:
    """Raise JobError if the directory contains a job of another fetcher."""
    kept = read_identity(directory).fetcher if holds_job(directory) else fetcher
    if kept == fetcher:
        return
    if kept is None:
        raise JobError(
            f"{directory} contains a crawl of the command line, which {fetcher} cannot resume: name another directory"
        )
    raise JobError(
        f"{directory} is the job of {kept}: only its spider can resume or change it: start the spider with this JOBDIR"
    )


def check_partition(directory: Path, partition: tuple[int, int] | None) -> None:
    """Raise JobError if the directory contains a job other than that partition of a crawl (None: an unpartitioned
    job)."""
    kept = read_identity(directory).partition if holds_job(directory) else partition
    if kept != partition:
        asked = "an unpartitioned crawl" if partition is None else f"partition {partition[0]} of {partition[1]}"
        found = "an unpartitioned crawl" if kept is None else f"partition {kept[0]} of {kept[1]} of a crawl"
        raise JobError(f"{directory} is {found}, not {asked}: nothing was changed")


def write_identity(disk: Disk, directory: Path, identity: Identity) -> None:
    """Replace ``job.json``, durably. Raises OSError."""
    replace_file(disk, directory / IDENTITY, _encoded(identity))


def begin_identity(disk: Disk, directory: Path, identity: Identity) -> None:
    """Write ``job.json`` of a new job, durably. Raises OSError."""
    replace_file(disk, directory / IDENTITY, _encoded(identity), "begin.identity")


def _encoded(identity: Identity) -> bytes:
    return encode_envelope(MAGIC, VERSION, {"program": __version__, **to_builtins(identity, enc_hook=KeyHash.as_json)})


def shaping_of(settings: Settings) -> Shaping:
    """Return the shaping settings as nested tables."""
    tables = as_tables(settings)
    shaping: Shaping = {}
    for table, key in SHAPING:
        shaping.setdefault(table, {})[key] = tables[table][key]
    return shaping


def shape_of_job(directory: Path) -> Shaping:
    """Return the shaping settings of the job, or partitioned crawl, in the directory, as nested tables; empty if there
    is none. Raises the errors of ``read_identity``."""
    if holds_job(directory):
        return read_identity(directory).shaping
    return read_crawl_file(directory).shaping if holds_crawl(directory) else {}


def over_shape(directory: Path, given: Mapping[str, Mapping[str, Any]]) -> Shaping:
    """Return the given tables merged over the shaping settings of the job in the directory.

    The job's ledger belongs to its kind of seen-set: if another kind is given, the ledger is left out, so that the
    error names the kind, not a ledger that the user did not set. Raises the errors of ``read_identity``."""
    tables = shape_of_job(directory)
    kept = tables.get("seen", {})
    if given.get("seen", {}).get("kind", kept.get("kind")) != kept.get("kind"):
        kept.pop("ledger", None)
    for table, values in given.items():
        tables[table] = {**tables.get(table, {}), **values}
    return tables


def check_shape(directory: Path, asked: Shaping, named: Path | None = None) -> None:
    """Raise FixedSettingError if the job has other shaping settings, on which the state on disk depends. ``named``: the
    directory that the error names instead."""
    for table, values in shape_of_job(directory).items():
        for key, kept in values.items():
            if asked[table][key] != kept:
                raise FixedSettingError(directory if named is None else named, (table, key), kept, asked[table][key])

"""``DIR/job.json``: the format of the job, the settings that its stored state depends on, and the secret of its hash.

The number in its head is the job's format. It is read before anything else of the job, because only a program that
knows a format can tell what the stored bytes mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from crawler import __version__
from crawler.base.disk import Disk, replace_file
from crawler.base.settings import SEEN_HASHES, SHAPING, Settings, as_tables
from crawler.job.checkpoint import EnvelopeError, decode_envelope, encode_envelope, envelope_version, read_bounded
from crawler.job.crawl_file import holds_crawl, read_crawl_file
from crawler.job.directory import IDENTITY, PAGES, UNUSABLE, JobError, holds_job
from crawler.job.formats import FIRST, KNOWN, SEVERAL_FILES, Formats
from crawler.job.output.record_text import page_numbers
from crawler.seen.exact.seen import usual_hash
from crawler.seen.filters import FilterError, KeyHash

MAGIC = "crawler-job"
VERSION = KNOWN.usual
Shaping = dict[str, dict[str, Any]]


class OtherFormatError(JobError):
    """The job is of a format that cannot be used here. It is not damaged."""


class FixedSettingError(JobError):
    """A setting differs from the one that the job began with. ``directory``, ``table`` and ``key`` say which, ``kept``
    is the job's value."""

    def __init__(self, directory: Path, place: tuple[str, str], kept: Any, asked: Any) -> None:
        self.directory = directory
        self.table, self.key = place
        self.kept = kept
        was, now = _shown(kept), _shown(asked)
        super().__init__(
            f"{directory}: {self.table}.{self.key} cannot change after the crawl began (was {was}, now {now}): "
            f"restore {was}",
            new_job=True,
        )


def _shown(value: Any) -> str:
    """The value as a configuration file has it."""
    return json.dumps(value, ensure_ascii=False)


class Identity(Struct, frozen=True):
    """The content of ``job.json``. ``shaping`` has every shaping setting; those that the job's format does not know
    have the values that the program used then. ``converting`` is the format from which the job is being converted to
    ``format``; None if no conversion is under way.

    ``hash`` is that of the job's URLs, with its secret; None for an older job that has not got a secret yet: the next
    run gives it one, if it can. ``unkeyed`` says why it could not.

    ``fetcher`` is the program that makes the requests of the job, and that alone can go on with it; None: this one.
    ``partition``: the number of the partition of a crawl that the job is, and how many the crawl has; None: it is a
    crawl of its own."""

    format: int
    shaping: Shaping
    converting: int | None = None
    hash: KeyHash | None = None
    unkeyed: str | None = None
    fetcher: str | None = None
    partition: tuple[int, int] | None = None

    @property
    def stored_format(self) -> int:
        """The format of the job's state, which changes only when a conversion ends."""
        return self.format if self.converting is None else self.converting

    @property
    def hash_in_use(self) -> KeyHash:
        """The hash of what is stored now."""
        return usual_hash(str(self.shaping["seen"]["kind"])) if self.hash is None else self.hash


def read_identity(directory: Path, formats: Formats = KNOWN) -> Identity:
    """What ``job.json`` says. Raises JobError; OtherFormatError if the job is newer than this program, or older than
    the first format; and OSError when the disk fails."""
    path = directory / IDENTITY
    try:
        data = read_bounded(path, str(path))
        number = envelope_version(data, MAGIC)
        if number is not None and number > formats.newest:
            raise OtherFormatError(
                f"{directory} has format version {number}{_writer(data, number)}; this program, crawler {__version__}, "
                f"reads jobs up to version {formats.newest}: use the newer program, nothing was changed"
            )
        known = number if number is not None and number >= FIRST else formats.newest
        content = decode_envelope(data, MAGIC, known, str(path))
        shaping = {table: dict(values) for table, values in content["shaping"].items()}
        converting = content.get("converting")
        unkeyed, fetcher = content.get("unkeyed"), content.get("fetcher")
        identity = Identity(
            known,
            shaping,
            None if converting is None else int(converting),
            _stored_hash(path, content.get("hash")),
            None if unkeyed is None else str(unkeyed),
            None if fetcher is None else str(fetcher),
            _stored_partition(content.get("partition")),
        )
    except (FileNotFoundError, NotADirectoryError):
        raise JobError(f"{directory} holds no crawl: name a job directory") from None
    except EnvelopeError as error:  # before ValueError, its base
        raise JobError(str(error)) from error
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise JobError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError):
        raise JobError(f"{path}: the shaping settings are missing") from None
    return _completed(path, identity, formats)


def _stored_partition(stored: Any) -> tuple[int, int] | None:
    return None if stored is None else (int(stored["number"]), int(stored["of"]))


def _stored_hash(path: Path, stored: object) -> KeyHash | None:
    """Raises OtherFormatError for an algorithm that this program does not know, and JobError for damage."""
    algorithm = stored.get("algorithm") if isinstance(stored, dict) else None
    if isinstance(algorithm, str) and algorithm not in SEEN_HASHES:
        raise OtherFormatError(
            f"{path}: the job's URLs are hashed with {algorithm}; this program, crawler {__version__}, knows "
            f"{' and '.join(SEEN_HASHES)}: use the program that made the job, nothing was changed"
        )
    try:
        return None if stored is None else KeyHash.from_json(stored)
    except FilterError as error:
        raise JobError(f"{path}: {error}") from error


def _writer(data: bytes, number: int) -> str:
    """The program that wrote the file, in words; empty if a file of that format does not say so where ours does."""
    try:
        return f", written by crawler {decode_envelope(data, MAGIC, number, IDENTITY)['program']}"
    except (EnvelopeError, KeyError):
        return ""


def _completed(path: Path, identity: Identity, formats: Formats) -> Identity:
    """Raises OtherFormatError when a setting is missing that every job of its format names."""
    added = formats.settings_after(identity.format)
    shaping: Shaping = {}
    for table, key in SHAPING:
        stored = identity.shaping.get(table, {})
        if key not in stored and (table, key) not in added:
            raise OtherFormatError(
                f"{path}: {table}.{key}, which shapes the job, is missing: the job was begun by a program older than "
                f"format version {FIRST}; this one, crawler {__version__}, reads jobs of version {FIRST} to "
                f"{formats.newest}: use the older program",
                new_job=True,
            )
        shaping.setdefault(table, {})[key] = stored[key] if key in stored else added[table, key]
    return replace(identity, shaping=shaping)


def check_readable(directory: Path, formats: Formats = KNOWN) -> Identity:
    """The identity of a job that can be read as it is, without changing what is stored.

    Raises what ``read_identity`` raises, and OtherFormatError also for a job that a run must convert first."""
    identity = read_identity(directory, formats)
    if identity.converting is not None:
        raise OtherFormatError(
            f"{directory} is being converted from format version {identity.converting} to {identity.format}: the "
            "command that resumes the crawl finishes this"
        )
    if formats.conversions_after(identity.format):
        raise OtherFormatError(
            f"{directory} has format version {identity.format}; this program, crawler {__version__}, reads version "
            f"{formats.newest}: the command that resumes the crawl converts it, nothing was changed"
        )
    return identity


def check_format(directory: Path, formats: Formats = KNOWN) -> None:
    """Raise OtherFormatError unless the job can be read as it is. Damage to ``job.json`` is ignored."""
    try:
        check_readable(directory, formats)
    except OtherFormatError:
        raise
    except JobError:
        pass


def format_in_use(directory: Path, formats: Formats = KNOWN) -> int:
    """The oldest format that a job with these files may have when it is opened for writing. Raises OSError."""
    return max(formats.usual, SEVERAL_FILES) if page_numbers(directory / PAGES) else formats.usual


def raise_format(disk: Disk, directory: Path, identity: Identity, number: int) -> Identity:
    """Give the job at least the format with that number, durably. Returns its identity. Raises OSError."""
    if identity.format >= number:
        return identity
    raised = replace(identity, format=number)
    write_identity(disk, directory, raised)
    return raised


def check_fetcher(directory: Path, fetcher: str | None = None, formats: Formats = KNOWN) -> None:
    """Raise JobError unless the job in the directory, if there is one, is that of this fetcher."""
    kept = read_identity(directory, formats).fetcher if holds_job(directory) else fetcher
    if kept == fetcher:
        return
    if kept is None:
        raise JobError(
            f"{directory} holds a crawl of the command line, which {fetcher} cannot go on with: name another directory"
        )
    raise JobError(
        f"{directory} is the job of {kept}: only its spider can go on with it or change it: start the spider with this "
        "JOBDIR"
    )


def check_partition(directory: Path, partition: tuple[int, int] | None, formats: Formats = KNOWN) -> None:
    """Raise JobError unless the job in the directory, if there is one, is that partition of a crawl; None: a crawl of
    its own."""
    kept = read_identity(directory, formats).partition if holds_job(directory) else partition
    if kept != partition:
        asked = "a crawl of its own" if partition is None else f"partition {partition[0]} of {partition[1]}"
        found = "a crawl of its own" if kept is None else f"partition {kept[0]} of {kept[1]} of a crawl"
        raise JobError(f"{directory} is {found}, not {asked}: nothing was changed")


def write_identity(disk: Disk, directory: Path, identity: Identity) -> None:
    """Replace ``job.json``, durably. Raises OSError."""
    replace_file(disk, directory / IDENTITY, _encoded(identity))


def begin_identity(disk: Disk, directory: Path, identity: Identity) -> None:
    """Write ``job.json`` of a new job, durably. Raises OSError."""
    replace_file(disk, directory / IDENTITY, _encoded(identity), "begin.identity")


def _encoded(identity: Identity) -> bytes:
    content: dict[str, Any] = {"program": __version__, "shaping": identity.shaping}
    if identity.converting is not None:
        content["converting"] = identity.converting
    if identity.hash is not None:
        content["hash"] = identity.hash.as_json()
    if identity.unkeyed is not None:
        content["unkeyed"] = identity.unkeyed
    if identity.fetcher is not None:
        content["fetcher"] = identity.fetcher
    if identity.partition is not None:
        content["partition"] = {"number": identity.partition[0], "of": identity.partition[1]}
    return encode_envelope(MAGIC, identity.format, content)


def shaping_of(settings: Settings) -> Shaping:
    """The shaping settings as nested tables."""
    tables = as_tables(settings)
    shaping: Shaping = {}
    for table, key in SHAPING:
        shaping.setdefault(table, {})[key] = tables[table][key]
    return shaping


def shape_of_job(directory: Path, formats: Formats = KNOWN) -> Shaping:
    """The shaping settings of the job, or crawl in partitions, in the directory, as nested tables; empty if there is
    none.

    Raises what ``read_identity`` raises."""
    if holds_job(directory):
        return read_identity(directory, formats).shaping
    return read_crawl_file(directory).shaping if holds_crawl(directory) else {}


def over_shape(directory: Path, given: Mapping[str, Mapping[str, Any]], formats: Formats = KNOWN) -> Shaping:
    """The given tables over the shaping settings of the job in the directory. A job's ledger is that of its kind of
    seen-set: where another kind is given, that one is to be refused, and not a ledger that nobody gave.

    Raises what ``read_identity`` raises."""
    tables = shape_of_job(directory, formats)
    kept = tables.get("seen", {})
    if given.get("seen", {}).get("kind", kept.get("kind")) != kept.get("kind"):
        kept.pop("ledger", None)
    for table, values in given.items():
        tables[table] = {**tables.get(table, {}), **values}
    return tables


def check_shape(directory: Path, asked: Shaping, formats: Formats = KNOWN) -> None:
    """Raise FixedSettingError if the job has other shaping settings: the state on disk depends on them."""
    for table, values in shape_of_job(directory, formats).items():
        for key, kept in values.items():
            if asked[table][key] != kept:
                raise FixedSettingError(directory, (table, key), kept, asked[table][key])

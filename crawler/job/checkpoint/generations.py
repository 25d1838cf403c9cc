"""Generations: copies of the seen-set on disk, each with its position in the journal.

    seen/generation-000012        the manifest: journal sequence, the seen-set's state, its segment files and checksums
    seen/slice-3.g000012          a segment first written in generation 12

A sealed segment (a full slice) is written once, and every later manifest refers to its file. The active segment is
rewritten only if rewriting it is worth the cost (``must_store``). Otherwise the manifest refers to the file of an
earlier generation, with its state and its journal position ``seen_sequence``; the keys that the journal has from there
on must be added on load. The watched keys are not in the journal, so they are written in each generation.

While a segment is written, the crawl continues to set bits in it. The order of writes makes this harmless: first the
segments, then all transactions that started in between, then a sync of the journal, then the manifest. So every bit in
a complete generation belongs to a durable admitted URL, and the journal from ``seen_sequence`` on restores the rest:
the bits are a cache of the journal.

A manifest is renamed into place after all its files are durable, so a generation is complete or does not exist. The
newest generation that passes verification is used. A damaged one is renamed, never deleted.

A generation may store the seen-set again, or refer to the one that an earlier generation stored. A slice that still
accepts keys is written as a whole, so storing it costs its full size however few keys are new. The journal has these
keys anyway, and a restart sets their bits again in half a microsecond each. So the earlier slice is good enough while

- the chain has the same slices: none has been sealed or replaced since. The journal records only keys that were added
  or removed;
- few keys have been added or removed since. ``BYTES_PER_KEY`` bounds the bytes written per new key, in addition to the
  16 bytes in the journal. ``MOST_KEYS`` bounds the time of a restart. It is more than 1% of the keys in a seen-set of
  one gigabyte.

A seen-set of at most ``FEW_BYTES`` is stored each time: writing it is cheap, and a restart then replays almost nothing.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from crawler.base.disk import Appender, Disk, failpoint, replace_file
from crawler.job.checkpoint.envelope import (
    EnvelopeError,
    UnknownVersionError,
    content_of,
    encode_envelope,
    read_envelope,
)
from crawler.seen.filters import FormatError, Part, SeenSnapshot, Segment, SegmentSum, read_segment, write_segment

MAGIC = "crawler-generation"
VERSION = 2
KEPT = 2  # generations kept: if one is damaged, its predecessor is used
_PREFIX = "generation-"
_DAMAGED = "damaged-"
_SEGMENT_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.g[0-9]{6,}")
_MANIFEST_FILE = re.compile(r"generation-([0-9]{6,})(?:\.part)?", re.ASCII)


class SegmentFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A segment in a manifest; ``size`` is the length of the file in bytes."""

    name: str
    file: Annotated[str, Meta(pattern=rf"\A{_SEGMENT_FILE.pattern}\Z")]  # in the directory of the manifest
    size: int
    checksum: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    sealed: bool


class Manifest(Struct, frozen=True):
    """The content of a generation. ``sequence`` is the first journal number that it does not cover: everything older
    was durable when the generation was written. ``seen_sequence`` is the first journal number whose keys are not in
    ``state`` and ``segments``. ``written_at`` is in seconds since 1970; ``seconds`` is the time that writing took."""

    generation: int
    sequence: int
    seen_sequence: int
    written_at: float
    seconds: float
    bytes: int
    state: dict[str, Any]
    segments: tuple[SegmentFile, ...]


class Loaded(Struct, frozen=True):
    """A generation read back: its manifest and each segment's payload by name."""

    manifest: Manifest
    payloads: dict[str, memoryview]


class Draft(Struct, frozen=True):
    """A generation whose segments are durable and whose manifest does not exist yet."""

    started: float
    manifest: Manifest


def is_segment(name: str) -> bool:
    """True if a file with that name in ``seen/`` is a segment of a seen-set."""
    return _SEGMENT_FILE.fullmatch(name) is not None


def manifest_name(generation: int) -> str:
    return f"{_PREFIX}{generation:06d}"


class Generations:
    """The directory ``seen/`` of a job."""

    def __init__(self, directory: Path, keep: int, disk: Disk) -> None:
        self.directory = directory
        self._disk = disk
        self._keep = keep
        self.newest: Manifest | None = None

    # -- reading -----------------------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """Return the generations in the directory, newest first."""
        try:
            with os.scandir(self.directory) as entries:  # fast, because statistics call this often
                found = [(_MANIFEST_FILE.fullmatch(entry.name), entry) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = {match[0]: int(match[1]) for match, entry in found if match is not None and entry.is_file()}
        return sorted((number for name, number in names.items() if name == manifest_name(number)), reverse=True)

    def read_manifest(self, generation: int) -> Manifest:
        """Return the manifest of a generation. Raises EnvelopeError, OSError."""
        name = manifest_name(generation)
        manifest = content_of(read_envelope(self.directory / name, MAGIC, VERSION, name), Manifest, name)
        if manifest.generation != generation or not 0 <= manifest.seen_sequence <= manifest.sequence:
            raise EnvelopeError(
                f"{name}: the manifest names generation {manifest.generation}, journal sequence {manifest.sequence} "
                f"and seen-set sequence {manifest.seen_sequence}, which do not match"
            )
        return manifest

    def read(self, generation: int) -> Loaded:
        """Return the manifest and the segments, after verifying every checksum. Raises EnvelopeError, FormatError,
        OSError."""
        manifest = self.read_manifest(generation)
        payloads: dict[str, memoryview] = {}
        for segment in manifest.segments:
            payloads[segment.name] = self._read_segment(segment)
        return Loaded(manifest, payloads)

    def _read_segment(self, segment: SegmentFile) -> memoryview:
        path = self.directory / segment.file
        found = path.lstat()
        size = found.st_size
        # Reading a pipe or a device of that name could block.
        if not stat.S_ISREG(found.st_mode):
            raise FormatError(f"{segment.file}: not a file")
        if size != segment.size:
            raise FormatError(f"{segment.file}: {size} bytes where the manifest says {segment.size}")
        with open(path, "rb") as stream:
            try:
                _, payload = read_segment(stream, limit=size)
            except FormatError as error:
                raise FormatError(f"{segment.file}: {error}") from error
            stream.seek(-len(bytes.fromhex(segment.checksum)), os.SEEK_END)
            checksum = stream.read().hex()
        if checksum != segment.checksum:
            raise FormatError(f"{segment.file}: not the file that the manifest names (its checksum is {checksum})")
        return payload

    def load_newest(self, numbers: Sequence[int] | None = None) -> tuple[Loaded | None, list[str]]:
        """Return the newest intact generation (None if there is none) and the faults of all newer ones. ``numbers``
        restricts the choice to these generations, newest first.

        Raises UnknownVersionError: a generation of a newer program is not damage, and must not be overwritten."""
        faults: list[str] = []
        for generation in self.numbers() if numbers is None else numbers:
            try:
                loaded = self.read(generation)
            except UnknownVersionError:
                raise
            except (EnvelopeError, FormatError, OSError) as error:
                faults.append(f"generation {generation} is damaged: {error}")
                continue
            self.newest = loaded.manifest
            return loaded, faults
        return None, faults

    def set_aside(self, generation: int) -> None:
        """Rename a damaged generation's manifest, so that it is not used, counted or deleted."""
        path = self.directory / manifest_name(generation)
        self._disk.replace(path, path.with_name(_DAMAGED + path.name))
        self._disk.sync_directory(self.directory)

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, snapshot: SeenSnapshot, sequence: int, now: float, sync: Callable[[], None]) -> Manifest:
        """Write a complete generation while the seen-set does not change. Raises OSError."""
        return self.complete(self.begin(snapshot, sequence, now), sync)

    def begin(self, snapshot: SeenSnapshot, sequence: int, now: float) -> Draft:
        """Write the segments of a generation. Runs in a thread while the crawl continues.

        ``sequence`` is the journal's next number at the moment of the snapshot, ``now`` the time in seconds since 1970.
        Transactions that run at the same time may set bits in the segments: complete the generation only after all
        these transactions have been written. Raises OSError; earlier generations are untouched.
        """
        before = self.newest
        known = {} if before is None else {s.name: s for s in before.segments if s.sealed}
        wanted = [known.get(s.name, s) if s.sealed else s for s in snapshot.segments]
        return self._begin(snapshot.state, wanted, sequence, sequence, now)

    def begin_again(self, unjournaled: Sequence[Segment], sequence: int, now: float) -> Draft:
        """Start a generation that refers to the segments of the newest one; the journal has the keys added since. Only
        the ``unjournaled`` segments are written. Raises OSError."""
        before = self.newest
        assert before is not None
        fresh = {segment.name: segment for segment in unjournaled}
        wanted = [fresh.get(s.name, s) for s in before.segments]
        return self._begin(before.state, wanted, before.seen_sequence, sequence, now)

    def _begin(
        self,
        state: dict[str, Any],
        wanted: Sequence[Segment | SegmentFile],
        seen_sequence: int,
        sequence: int,
        now: float,
    ) -> Draft:
        started = time.perf_counter()
        failpoint("checkpoint.begun")
        generation = self._next_number()
        segments: list[SegmentFile] = []
        written = 0
        for segment in wanted:
            if isinstance(segment, SegmentFile):
                segments.append(segment)
                continue
            file = f"{segment.name}.g{generation:06d}"
            total = self._write_segment(self.directory / file, segment)
            failpoint("checkpoint.segment")
            if segment.sealed:
                failpoint("checkpoint.sealed")
            segments.append(SegmentFile(segment.name, file, total.size, total.checksum, segment.sealed))
            written += total.size
        # A manifest must not become durable before the names of the files that it lists.
        self._disk.sync_directory(self.directory)
        failpoint("checkpoint.segments")
        manifest = Manifest(generation, sequence, seen_sequence, now, 0.0, written, state, tuple(segments))
        return Draft(started, manifest)

    def complete(self, draft: Draft, sync: Callable[[], None]) -> Manifest:
        """Put the manifest in place, and delete surplus generations. Runs in a thread. ``sync`` makes the journal and
        the outputs durable. Raises OSError; earlier generations are untouched."""
        sync()
        manifest = replace(draft.manifest, seconds=time.perf_counter() - draft.started)
        generation = manifest.generation
        path = self.directory / manifest_name(generation)
        replace_file(self._disk, path, _encode_manifest(manifest), "checkpoint.manifest")
        failpoint("checkpoint.done")
        self.newest = manifest
        self._prune()
        failpoint("checkpoint.pruned")
        return manifest

    def _write_segment(self, path: Path, segment: Segment) -> SegmentSum:
        file = self._disk.open(path, create=True)
        try:
            total = write_segment(Appender(file), {"segment": segment.name, **segment.header}, segment.buffer)
            file.sync()
        except OSError:
            # Half a segment is useless, and takes space on a full disk.
            self._disk.unlink(path)
            raise
        finally:
            file.close()
        return total

    def _next_number(self) -> int:
        """Return a number above those of all files in the directory, including files that were set aside or not
        finished."""
        highest = 0
        for entry in self.directory.iterdir():
            number = entry.name.removesuffix(".part").rpartition(".g" if ".g" in entry.name else "-")[2]
            if number.isdecimal():
                highest = max(highest, int(number))
        return highest + 1

    def oldest_sequence(self) -> int:
        """Return the first sequence from which finished URLs must stay in the journal; 0 if there is no generation."""
        # A generation kept only for its seen-set needs no such URLs: later ones cover the output.
        return min((manifest.sequence for manifest in self._kept()[: self._keep]), default=0)

    def _kept(self) -> list[Manifest]:
        """Return the manifests to keep, newest first: the configured number, plus one that refers to another seen-set
        if all of these refer to the same one. Otherwise one damaged file could make all of them unusable. Unreadable
        manifests are set aside.
        """
        kept: list[Manifest] = []
        for number in self.numbers():
            if len(kept) >= self._keep and len({manifest.seen_sequence for manifest in kept}) > 1:
                break
            try:
                manifest = self.read_manifest(number)
            except EnvelopeError:
                self.set_aside(number)
                continue
            if len(kept) < self._keep or manifest.seen_sequence != kept[-1].seen_sequence:
                kept.append(manifest)
        return kept

    def _prune(self) -> None:
        kept: set[str] = set()
        for manifest in self._kept():
            kept.add(manifest_name(manifest.generation))
            kept.update(segment.file for segment in manifest.segments)
        # Keep the files of a damaged generation as evidence: it is not known which of them are intact.
        damaged = {entry.name for entry in self.directory.iterdir() if entry.name.startswith(_DAMAGED)}
        spared = {name.rpartition("-")[2] for name in damaged}
        gone: list[Path] = []
        for entry in self.directory.iterdir():
            if entry.name in kept or entry.name in damaged:
                continue
            if entry.name.rpartition(".g")[2] in spared:
                continue
            # Files with other names belong to other programs.
            ours = _SEGMENT_FILE.fullmatch(entry.name) or _MANIFEST_FILE.fullmatch(entry.name)
            if ours and entry.is_file():
                gone.append(entry)
        # Delete manifests durably first: a manifest without its segments would look like damage.
        manifests = [entry for entry in gone if _MANIFEST_FILE.fullmatch(entry.name)]
        for some in (manifests, [entry for entry in gone if entry not in manifests]):
            for entry in some:
                self._disk.unlink(entry)
            if some:
                self._disk.sync_directory(self.directory)


def _encode_manifest(manifest: Manifest) -> bytes:
    return encode_envelope(MAGIC, VERSION, to_builtins(manifest))


FEW_BYTES = 4 * 2**20
BYTES_PER_KEY = 32
MOST_KEYS = 6 * 2**20  # replayed in about three seconds


class Renewal(Struct, frozen=True):
    """The bounds for deciding whether to store the seen-set again; measurements and simulations use other values."""

    few_bytes: int = FEW_BYTES
    bytes_per_key: int = BYTES_PER_KEY
    most_keys: int = MOST_KEYS


USUAL = Renewal()


def must_store(newest: Manifest | None, parts: Sequence[Part], keys: int, renewal: Renewal = USUAL) -> bool:
    """True if a generation must store the seen-set again. The seen-set consists of ``parts``; ``keys`` keys have been
    added or removed since the seen-set of the ``newest`` generation was stored."""
    if newest is None or {(s.name, s.sealed) for s in newest.segments} != {(part.name, part.sealed) for part in parts}:
        return True
    written = sum(part.size for part in parts if part.journaled and not part.sealed)
    return written <= renewal.few_bytes or keys >= renewal.most_keys or keys * renewal.bytes_per_key >= written

"""``DIR/parsing.map``: the URLs whose pages are being parsed, readable after a crash.

A page that kills the process (memory, a fault in a C library) would kill it again after each restart. So its URL is
noted before its body is parsed. The file is memory-mapped: a note costs no system call, and the kernel keeps it,
however the process ends. It need not survive a power loss, which no page can cause.

    file    =  64 notes of 512 bytes each
    note    =  state (1 byte: 1 in use), 0, size of the key (2 bytes), CRC-32 of key and href, key

Numbers are little-endian. The key is the key of the URL's entry in the family ``pending``. Slot numbers are never
reused, so a note without an entry belongs to a page that was finished.

Before the job resumes, the pages noted are moved to the end of the queue (``postpone_suspects``). One of them may have
killed the process; the others are innocent. All are visited later, and parsed in a separate process; a page fails only
if it kills that process too.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from crawler.base.disk import Expendable, failpoint, private_opener
from crawler.base.kv import Batch, Family, Store
from crawler.frontier.entry import Entry, decode_entry, pending_key
from crawler.frontier.lease import Lease
from crawler.frontier.postponement import postpone
from crawler.job.metrics.catalogue import Counters
from crawler.job.records import encode_counters
from crawler.job.recovery import COUNTERS
from crawler.job.transaction import TransactionWriter

PARSING = "parsing.map"
_NOTES = 64
_SIZE = 512
_NOTE = struct.Struct("<BxHI")
_KEY_MOST = _SIZE - _NOTE.size
_WHOLE = _NOTES * _SIZE


class Note(Struct, frozen=True):
    """A page that was being parsed: the key of its entry, and the checksum of key and href."""

    key: bytes
    checksum: int

    def is_of(self, href: str) -> bool:
        """True if the note is for this URL, and is complete."""
        return _checksum(self.key, href) == self.checksum


def read_notes(directory: Path) -> list[Note]:
    """Return the notes left by a crash. Raises OSError."""
    try:
        with open(directory / PARSING, "rb") as file:
            content = file.read(_WHOLE)
    except FileNotFoundError:
        return []
    starts = range(0, len(content) - _SIZE + 1, _SIZE)
    return [note for at in starts if (note := _note(content, at)) is not None]


def _note(content: bytes, at: int) -> Note | None:
    """Return the note at that offset; None if it is not in use."""
    state, length, checksum = _NOTE.unpack_from(content, at)
    key = content[at + _NOTE.size : at + _NOTE.size + length]
    return Note(key, checksum) if state == 1 and 0 < length <= _KEY_MOST else None


def _checksum(key: bytes, href: str) -> int:
    return crc32(href.encode("ascii", "replace"), crc32(key))


def remove_notes(directory: Path) -> None:
    """Remove the file, if it exists. Raises OSError."""
    (directory / PARSING).unlink(missing_ok=True)


class ParsingNotes:
    """The notes of a run. If the file cannot be created, the run continues without it: a page that kills the process is
    then not recognised."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._free: list[int] = []  # offsets of free notes
        self._map: mmap.mmap | None = None
        with Expendable(str(directory / PARSING)):
            self._map = _mapped(directory / PARSING)
            self._free = list(range(0, _WHOLE, _SIZE))

    def begin(self, lease: Lease) -> int | None:
        """Note the URL of the lease. Returns the offset of the note; None if it was not noted."""
        entry = lease.entry
        if not self._free or self._map is None or entry is None:
            return None
        key = pending_key(lease.host.name, lease.slot)
        if len(key) > _KEY_MOST:
            return None
        at = self._free.pop()
        start = at + _NOTE.size
        self._map[start : start + len(key)] = key
        _NOTE.pack_into(self._map, at, 1, len(key), _checksum(key, entry.href))
        failpoint("parsing")
        return at

    def end(self, at: int | None) -> None:
        """Release the note at that offset."""
        if at is not None and self._map is not None:
            self._map[at] = 0
            self._free.append(at)

    @contextlib.contextmanager
    def reading(self, lease: Lease) -> Iterator[None]:
        """Note the URL of the lease while the block runs."""
        at = self.begin(lease)
        try:
            yield
        finally:
            self.end(at)

    def close(self) -> None:
        """Remove the file, because the run ended cleanly: no page is being parsed."""
        if self._map is not None:
            self._map.close()
            self._map = None
            with Expendable(str(self._directory / PARSING)):
                remove_notes(self._directory)


def _mapped(path: Path) -> mmap.mmap:
    """Create the file and map it. Raises OSError."""
    path.unlink(missing_ok=True)
    with open(path, "x+b", opener=private_opener) as file:
        # Write all blocks before mapping: a page fault on a full disk would kill the process.
        file.write(bytes(_WHOLE))
        file.flush()
        return mmap.mmap(file.fileno(), _WHOLE)


def postpone_suspects(
    directory: Path, store: Store, counters: Counters, writer: TransactionWriter, say: Callable[[str], None]
) -> None:
    """Postpone the pages in the notes of the last run, each in its own batch, and remove the notes. The frontier must
    not be loaded yet. Raises OSError, EntryError and HostRecordError."""
    notes: list[Note] = []
    expendable = Expendable(str(directory / PARSING))
    with expendable:
        notes = read_notes(directory)
    for note in notes:
        entry = writer.apply(partial(_postpone, note, store, counters))
        if entry is not None:
            failpoint("resume.postponed")
            say(f"this URL is visited last, because the crawler died while parsing its page: {entry.href}")
    with expendable:
        remove_notes(directory)


def _postpone(note: Note, store: Store, counters: Counters, batch: Batch) -> Entry | None:
    value = store.get(Family.PENDING, note.key)
    if value is None or not note.is_of(decode_entry(value).href):
        return None  # the page was finished
    entry = postpone(store, note.key, counters.next_number, batch)
    if entry is not None:
        counters.next_number += 1
        batch.put(Family.META, COUNTERS, encode_counters(counters))
    return entry

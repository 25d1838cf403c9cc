"""A look at RocksDB's logs before RocksDB reads them.

RocksDB stops reading a log at a record that is damaged, and drops what follows it without saying where that is.
After a loss of power that is right: the end of a log that nobody synced may be there in part. Where it was synced, URLs
would be lost that nothing else knows. So each sync is followed by a *mark* in the log, which says how far it was
durable (``mark``): a mark behind the damage that vouches for what is missing tells the one from the other.

    log     =  blocks of 32 KiB (the last may be shorter)
    block   =  records, and fewer than 7 bytes of padding
    record  =  crc (4 bytes)  length (2, little-endian)  type (1)  payload
    type    =  1 whole, 2 first, 3 middle or 4 last part of a batch
    batch   =  sequence number of its first change (8)  number of changes (4)  changes

The crc is the masked CRC-32C of type and payload. See RocksDB's wiki, "Write Ahead Log File Format". Behind a damaged
record the next one is found by its checksum, at whatever byte it begins, since every length before it may be wrong.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from crc32c import crc32c

BLOCK = 32 * 1024
_RECORD = struct.Struct("<IHB")
_HEAD = _RECORD.size
_TYPE_AT = 6  # of the type in a record, where its checksum begins
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_RECYCLED = frozenset({5, 6, 7, 8, 11})
_MASK = 0xA282EAD8
_BATCH = struct.Struct("<QI")
_LOG_TAIL = 1 << 20  # bytes of RocksDB's words that are looked at, from their beginning
_DROPPED = re.compile(r"/([0-9]+\.log): dropping ([0-9]+) bytes; (.*)")

MARK = b"synced"  # the key of META that marks are written under
_MARK_FORM = struct.Struct("<Q")
# A batch of one change: a value (5) of a family that is not the default one (a varint), under the key of marks.
_MARKED = re.compile(rb".{8}\x01\0\0\0\x05.{1,5}?\x06synced\x08(.{8})", re.DOTALL)


def mark(sequence: int) -> bytes:
    """The value of a mark: all changes up to this sequence number of RocksDB are durable."""
    return _MARK_FORM.pack(sequence)


@dataclass(frozen=True, slots=True)
class Record:
    """A batch of changes as it stands in a log. ``offset`` is where its first part begins."""

    offset: int
    payload: bytes

    @property
    def sequence(self) -> int:
        return int(_BATCH.unpack_from(self.payload)[0])

    @property
    def behind(self) -> int:
        """The sequence number behind its last change."""
        first, count = _BATCH.unpack_from(self.payload)
        return int(first + count)

    @property
    def vouches(self) -> int | None:
        """Up to where it says that changes are durable; None where it is no mark."""
        found = _MARKED.fullmatch(self.payload)
        return None if found is None else int(_MARK_FORM.unpack(found[1])[0])


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log that are no record."""

    offset: int
    what: str


@dataclass(frozen=True, slots=True)
class LogFault:
    """The first damage of a store's logs. ``behind``: whole batches behind it. ``durable``: a mark vouches for some of
    what is missing; else it may be what a loss of power left of changes that nobody synced."""

    log: str
    offset: int
    what: str
    behind: int
    durable: bool

    def __str__(self) -> str:
        return f"{self.log}: offset {self.offset}: {self.what}; {self.behind} whole batches of changes stand behind it"


def log_fault(store: Path) -> LogFault | None:
    """The first damage of the logs of the store in this directory; None when they are whole, up to an end that is cut
    or holds zeros: a loss of power leaves such. Raises OSError."""
    first: tuple[str, Damage] | None = None
    expected: int | None = None
    behind, durable = 0, False
    for log in logs_of(store):
        try:
            for found in read_log(log):
                if isinstance(found, Damage):
                    first = first or (log.name, found)
                    continue
                if first is None and expected is not None and found.sequence > expected:
                    what = f"changes {expected} to {found.sequence - 1} are missing before it"
                    first = log.name, Damage(found.offset, what)
                if first is None:
                    expected = found.behind
                    continue
                behind += 1
                # Where nothing is known of what stood before, the change before the next one is what is missing.
                expected = found.sequence - 1 if expected is None else expected
                vouches = found.vouches
                durable |= vouches is not None and vouches >= expected
        except FileNotFoundError:
            expected = None  # who writes the store has put it into tables
    if first is None:
        return None
    return LogFault(first[0], first[1].offset, first[1].what, behind, durable)


def logs_of(store: Path) -> list[Path]:
    """The logs of a store, oldest first."""
    return sorted((log for log in store.glob("*.log") if log.stem.isdecimal()), key=lambda log: int(log.stem))


def read_log(log: Path) -> Iterator[Record | Damage]:
    """The batches of a log and the damage between them, in order. What is missing at the end, or zeros there, are no
    damage. Raises OSError."""
    parts: list[bytes] = []  # of a batch that is not whole yet
    began = 0
    damage: Damage | None = None
    torn = False  # whether the damage may be no more than the end of the log
    with open(log, "rb") as stream:
        for start, block in _blocks(stream):
            at = 0
            while len(block) - at >= _HEAD:
                end = _end_of_record(block, at)
                if end is None:
                    cut = len(block) < BLOCK and at + _HEAD + _length(block, at) > len(block)
                    if damage is None:
                        damage, torn = Damage(start + at, _what(block, at)), True
                    torn = torn and (cut or not any(block[at:]))
                    parts.clear()
                    at = next_record(block, at + 1)
                    continue
                kind, payload = block[at + _TYPE_AT], block[at + _HEAD : end]
                follows = kind in (_MIDDLE, _LAST)
                if follows != bool(parts) and damage is None and kind <= _LAST:
                    what = "a part of a batch without its beginning" if follows else "a batch without its end"
                    damage = Damage(start + at if follows else began, what)
                    torn = False
                    parts.clear()
                if kind in (_WHOLE, _FIRST):
                    parts, began = [payload], start + at
                elif parts and follows:
                    parts.append(payload)
                if parts and kind in (_WHOLE, _LAST):
                    if damage is not None:
                        yield damage
                        damage = None
                    whole = b"".join(parts)
                    parts = []
                    if len(whole) < _BATCH.size:
                        damage, torn = Damage(began, "too short for a batch"), False
                    else:
                        yield Record(began, whole)
                at = end
    if damage is not None and not torn:
        yield damage


def _blocks(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    start = 0
    while block := stream.read(BLOCK):
        yield start, block
        start += len(block)


def _length(block: bytes, at: int) -> int:
    return block[at + 4] | block[at + 5] << 8


def _end_of_record(block: bytes, at: int) -> int | None:
    """Where the record that begins there ends; None where none does."""
    checksum, length, kind = _RECORD.unpack_from(block, at)
    end = at + _HEAD + length
    if kind == 0 or end > len(block):
        return None
    return end if checksum == _masked(memoryview(block)[at + _TYPE_AT : end]) else None


def _masked(data: bytes | memoryview) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def _what(block: bytes, at: int) -> str:
    if not any(block[at : at + _HEAD]):
        return "zeros where a record was"
    if at + _HEAD + _length(block, at) > len(block):
        return "a record longer than its block"
    return "checksum does not match"


def next_record(block: bytes, at: int) -> int:
    """Where the next whole record of the block begins, or the block's end."""
    data = np.frombuffer(block, np.uint8)
    last = len(block) - _HEAD
    if at > last:
        return len(block)
    starts = np.arange(at, last + 1)
    kinds = data[starts + _TYPE_AT]
    ends = starts + _HEAD + data[starts + 4] + (data[starts + 5].astype(np.int64) << 8)
    # The types that our stores write, and an end within the block: few of all bytes are asked for their checksum.
    for start in starts[(kinds >= _WHOLE) & (kinds <= _LAST) & (ends <= len(block))].tolist():
        if _end_of_record(block, start) is not None:
            return int(start)
    return len(block)


def rewrite_log(log: Path, to: Path) -> list[Damage]:
    """Write a log of the batches of ``log`` that are whole; returns the damage between them. Raises OSError."""
    found: list[Damage] = []
    with open(to, "wb") as stream:
        for each in read_log(log):
            if isinstance(each, Damage):
                found.append(each)
            else:
                append_record(stream, each.payload)
    return found


def append_record(stream: BinaryIO, payload: bytes) -> None:
    begun = False
    while payload or not begun:
        left = BLOCK - stream.tell() % BLOCK
        if left < _HEAD:
            stream.write(bytes(left))
            continue
        part, payload = payload[: left - _HEAD], payload[left - _HEAD :]
        kind = (_MIDDLE if payload else _LAST) if begun else (_FIRST if payload else _WHOLE)
        body = bytes((kind,)) + part
        stream.write(_RECORD.pack(_masked(body), len(part), kind) + part)
        begun = True


def recycled_record(log: Path) -> int | None:
    """The offset of the first record that says it belongs to a recycled log (types 5 to 8, and 11); None where there is
    none, or where the heads before it make no sense and RocksDB stops earlier. RocksDB takes such a record for the rest
    of an older log, looks at it again, and never ends. Raises OSError."""
    with open(log, "rb") as stream:
        for start, block in _blocks(stream):
            at = 0
            while len(block) - at >= _HEAD:
                kind = block[at + _TYPE_AT]
                if kind in _RECYCLED:
                    return start + at
                at += _HEAD + _length(block, at)
                if kind == 0 or at > BLOCK:
                    return None
    return None


def dropped_records(store: Path) -> list[str]:
    """What RocksDB says it could not read of the logs when the store was last opened for writing: a line for each log,
    which was read up to there. Raises OSError."""
    said: dict[str, str] = {}
    log = store / "LOG"  # RocksDB begins a new one each time
    if log.exists():
        with open(log, "rb") as stream:
            words = stream.read(_LOG_TAIL).decode("utf-8", "replace")
        for found in _DROPPED.finditer(words):
            said.setdefault(found[1], f"{found[1]}: {found[3]}")
    return list(said.values())

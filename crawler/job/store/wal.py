"""Checks RocksDB's logs before RocksDB reads them.

RocksDB stops reading a log at a damaged record, and silently drops everything after it. After a power loss that is
correct, because the unsynced end of a log may be incomplete. But if the damaged part was synced, dropping what follows
would lose URLs that are in no other file. So after each sync a *mark* is written to the log: it records up to which
change the log was durable (``mark``). If a mark after the damage covers missing changes, these had been synced.

    log     =  blocks of 32 KiB (the last may be shorter)
        block   =  records, then fewer than 7 bytes of padding
    record  =  crc (4 bytes)  length (2, little-endian)  type (1)  payload
    type    =  1 whole, 2 first, 3 middle or 4 last part of a batch
    batch   =  sequence number of its first change (8)  number of changes (4)  changes

The crc is the masked CRC-32C of type and payload. See RocksDB's wiki, "Write Ahead Log File Format". After a damaged
record, the next valid one is found by testing the checksum at every byte, since all lengths before it may be wrong.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from msgspec import Struct

BLOCK = 32 * 1024
_RECORD = struct.Struct("<IHB")
_HEAD = _RECORD.size
_TYPE_AT = 6  # offset of the type in a record; the checksum covers the bytes from there on
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_RECYCLED = frozenset({5, 6, 7, 8, 11})
_MASK = 0xA282EAD8
_BATCH = struct.Struct("<QI")
_LOG_TAIL = 1 << 20  # bytes read from the start of RocksDB's information log
_DROPPED = re.compile(r"/([0-9]+\.log): dropping ([0-9]+) bytes; (.*)")

MARK = b"synced"  # the key of marks in META
_MARK_FORM = struct.Struct("<Q")
# A batch of one change: a value (5) of a non-default family (a varint), with the key of marks.
_MARKED = re.compile(rb".{8}\x01\0\0\0\x05.{1,5}?\x06synced\x08(.{8})", re.DOTALL)


def mark(sequence: int) -> bytes:
    """Return the value of a mark: all changes up to this sequence number of RocksDB are durable."""
    return _MARK_FORM.pack(sequence)


class Record(Struct, frozen=True):
    """A batch of changes in a log. ``offset`` is the start of its first part, in bytes."""

    offset: int
    payload: bytes

    @property
    def sequence(self) -> int:
        return int(_BATCH.unpack_from(self.payload)[0])

    @property
    def behind(self) -> int:
        """The sequence number after the batch's last change."""
        first, count = _BATCH.unpack_from(self.payload)
        return int(first + count)

    @property
    def vouches(self) -> int | None:
        """The sequence number up to which changes are durable, if the batch is a mark; otherwise None."""
        found = _MARKED.fullmatch(self.payload)
        return None if found is None else int(_MARK_FORM.unpack(found[1])[0])


class Damage(Struct, frozen=True):
    """A range of bytes in a log that is not a valid record."""

    offset: int
    what: str


class LogFault(Struct, frozen=True):
    """The first damage found in a store's logs. ``behind``: the number of complete batches after it. ``durable``: a
    mark shows that some of the missing changes were durable; otherwise the damage may consist of changes that had not
    been synced before a power loss."""

    log: str
    offset: int
    what: str
    behind: int
    durable: bool

    def __str__(self) -> str:
        return f"{self.log}: offset {self.offset}: {self.what}; {self.behind} complete batches of changes follow"


def log_fault(store: Path) -> LogFault | None:
    """Return the first damage of the logs of the store in this directory; None if they are intact. Raises OSError.

    A truncated log, or zeros at its end, do not count as damage: a power loss causes them."""
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
                # If no sequence number is known from before the damage, at least the change before this batch is
                # missing.
                expected = found.sequence - 1 if expected is None else expected
                vouches = found.vouches
                durable |= vouches is not None and vouches >= expected
        except FileNotFoundError:
            expected = None  # the process that writes to the store has flushed this log into tables
    if first is None:
        return None
    return LogFault(first[0], first[1].offset, first[1].what, behind, durable)


def logs_of(store: Path) -> list[Path]:
    """Return the logs of a store, oldest first."""
    return sorted((log for log in store.glob("*.log") if log.stem.isdecimal()), key=lambda log: int(log.stem))


def read_log(log: Path) -> Iterator[Record | Damage]:
    """Yield the batches of a log and the damage between them, in order. Raises OSError.

    A truncated log, or zeros at its end, do not count as damage."""
    parts: list[bytes] = []  # parts of an incomplete batch
    began = 0
    damage: Damage | None = None
    torn = False  # True if the damage may just be the incomplete end of the log
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
                    what = "a part of a batch without its start" if follows else "a batch without its end"
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
    """Return the end of the record that starts at ``at``; None if there is no valid record."""
    checksum, length, kind = _RECORD.unpack_from(block, at)
    end = at + _HEAD + length
    if kind == 0 or end > len(block):
        return None
    return end if checksum == _masked(memoryview(block)[at + _TYPE_AT : end]) else None


def _masked(data: bytes | memoryview) -> int:
    from crc32c import crc32c  # noqa: PLC0415, it takes 5 ms, and a new store has no log to check

    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def _what(block: bytes, at: int) -> str:
    if not any(block[at : at + _HEAD]):
        return "zeros where a record was"
    if at + _HEAD + _length(block, at) > len(block):
        return "a record longer than its block"
    return "checksum does not match"


def next_record(block: bytes, at: int) -> int:
    """Return the start of the next valid record in the block, or the block's end."""
    data = np.frombuffer(block, np.uint8)
    last = len(block) - _HEAD
    if at > last:
        return len(block)
    starts = np.arange(at, last + 1)
    kinds = data[starts + _TYPE_AT]
    ends = starts + _HEAD + data[starts + 4] + (data[starts + 5].astype(np.int64) << 8)
    # Consider only known types, and records that end within the block, so that few checksums need computing.
    for start in starts[(kinds >= _WHOLE) & (kinds <= _LAST) & (ends <= len(block))].tolist():
        if _end_of_record(block, start) is not None:
            return int(start)
    return len(block)


def rewrite_log(log: Path, to: Path) -> None:
    """Write the complete batches of ``log`` to a new log. Raises OSError."""
    with open(to, "wb") as stream:
        for each in read_log(log):
            if isinstance(each, Record):
                append_record(stream, each.payload)


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
    """Return the offset of the first record with a type of recycled logs (5 to 8, and 11). Raises OSError.

    Returns None if there is none, or if a record before it has an invalid head, where RocksDB would stop. RocksDB takes
    a record of these types for the rest of an older log, reads it again, and never finishes."""
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
    """Return a line for each log that RocksDB could not read to the end when it last opened the store for writing: the
    name of the log, and RocksDB's reason, from its information log. Raises OSError."""
    said: dict[str, str] = {}
    log = store / "LOG"  # RocksDB starts a new information log each time it opens a store
    if log.exists():
        with open(log, "rb") as stream:
            words = stream.read(_LOG_TAIL).decode("utf-8", "replace")
        for found in _DROPPED.finditer(words):
            said.setdefault(found[1], f"{found[1]}: {found[3]}")
    return list(said.values())

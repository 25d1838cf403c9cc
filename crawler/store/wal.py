"""A look at RocksDB's log before RocksDB reads it.

RocksDB stops reading at a record that is damaged, and what was written before it is there. There is one exception: a
record whose type, with a bit flipped, is that of a recycled log (5 to 8, and 11). RocksDB takes it for the rest of an
older log, looks at it again, and never ends. Logs of a job are not recycled, so such a record can be told beforehand.

    log     =  blocks of 32 KiB (the last may be shorter)
    block   =  records, and fewer than 7 bytes of padding
    record  =  crc (4 bytes)  length (2, little-endian)  type (1)  payload

See RocksDB's wiki, "Write Ahead Log File Format". Only the heads are looked at: RocksDB checks the checksums.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

_BLOCK = 32 * 1024
_HEAD = 7
_RECYCLED = frozenset({5, 6, 7, 8, 11})
_DROPPED = re.compile(r"/([0-9]+\.log): dropping ([0-9]+) bytes; (.*)")


def recycled_record(log: Path) -> int | None:
    """The offset of the first record that says it belongs to a recycled log; None where there is none, or where the
    heads before it make no sense and RocksDB stops earlier. Raises OSError."""
    with open(log, "rb") as stream:
        if stream.seek(0, 2) == 0:
            return None
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at, size = 0, len(data)
            while at + _HEAD <= size:
                left = _BLOCK - at % _BLOCK
                if left < _HEAD:
                    at += left
                    continue
                length, kind = data[at + 4] | data[at + 5] << 8, data[at + 6]
                if kind in _RECYCLED:
                    return at
                if kind == 0 or _HEAD + length > left:
                    return None
                at += _HEAD + length
    return None


def dropped_records(store: Path) -> list[str]:
    """What RocksDB says it could not read of the logs when the store was last opened for writing: a line for each log,
    which was read up to there. Raises OSError."""
    said: dict[str, str] = {}
    log = store / "LOG"  # RocksDB begins a new one each time
    if log.exists():
        for found in _DROPPED.finditer(log.read_text("utf-8", "replace")):
            said.setdefault(found[1], f"{found[1]}: {found[3]}")
    return list(said.values())

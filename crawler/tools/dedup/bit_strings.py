"""A Bloom filter as Redis strings, which any client can query with plain GETBIT.

GETBIT counts the bits of a byte from the most significant one, a filter's words from the least, so the bits of
each byte are reversed. A string has at most 2**31 bits, half of Redis's limit. The output is commands for
``redis-cli --pipe`` with 1 MiB each, so that the server's buffers never need to hold more.

``docs/reference/dedup.md`` describes the computation for readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from crawler.seen.filters import Filter, FilterError
from crawler.seen.slices.classic_slice import POSITIONS
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS

VERSION = 1
STRING_BITS = 2**31
_PIECE = 2**20  # bytes
_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


def redis_commands(seen: Filter, key: str, string_bits: int = STRING_BITS) -> Iterator[bytes]:
    """Return commands that write the bits of ``seen`` to ``key``:0 and so on, and its description to ``key``. Raises
    FilterError, before the first command, if its layout is not one bit per position. ``string_bits`` must be a multiple
    of 2**23."""
    shot = seen.snapshot()
    state: Any = shot.state
    described = state["slices"][0]
    layout = described["layout"]
    if len(state["slices"]) > 1 or layout not in ("classic", *GUAVA_LAYOUTS):
        raise FilterError(
            f"it is of kind {seen.kind} and layout {layout}: GETBIT needs a bloom filter of layout classic, guava or "
            "guava32: build it with --layout"
        )
    memory = np.frombuffer(shot.segments[0].buffer, np.uint8)
    return _commands(key, {**described, "string_bits": string_bits}, seen, memory)


def _commands(key: str, described: dict[str, Any], seen: Filter, memory: np.ndarray) -> Iterator[bytes]:
    fields = {
        "format": "crawler-bits",
        "version": VERSION,
        "layout": described["layout"],
        "bits": described["bits"],
        "hashes": described["hashes"],
        "positions": POSITIONS if described["layout"] == "classic" else described["layout"],
        "algorithm": seen.hash.algorithm,
        "keyed": int(seen.hash.keyed),
        "string_bits": described["string_bits"],
        "count": described["count"],
    }
    for start in range(0, len(memory), _PIECE):
        number, offset = divmod(start, described["string_bits"] // 8)
        data = _REVERSED[memory[start : start + _PIECE]].tobytes()
        if offset == 0:
            yield _command("SET", f"{key}:{number}", data)
        else:
            yield _command("SETRANGE", f"{key}:{number}", offset, data)
    # Last, so that a client that finds the description finds all bits.
    yield _command("DEL", key)
    yield _command("HSET", key, *(word for field in fields.items() for word in field))


def _command(*words: str | int | bytes) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)

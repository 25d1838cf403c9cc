"""Converts filters from and to other programs: Guava (``crawler.seen.filters.guava``), and Redis.

A seen-set of kind ``bloom`` and layout ``guava``, or ``guava32`` for the strategy MURMUR128_MITZ_32, has exactly the
bits of a Guava filter, so conversion loses nothing in either direction. A Guava file stores neither its number of keys
nor its intended capacity. The number of keys is estimated from its bits. The capacity is assumed to be the number of
keys at which half of the bits are set, so that the fpp is 2**-k.

A Bloom filter as Redis strings can be queried by any client with plain GETBIT. GETBIT numbers the bits of a byte from
the most significant one, but a filter numbers them from the least significant one, so the bits of each byte are
reversed. A string has at most 2**31 bits, half of Redis's limit. The output consists of commands of 1 MiB each, for
``redis-cli --pipe``, so that the server never needs to buffer more. ``docs/reference/dedup.md`` describes the
computation for readers.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from crawler.seen.filters import BloomFilter, Filter, FilterError, FormatError, load_seen
from crawler.seen.filters.guava import GuavaBloomFilter
from crawler.seen.filters.watched_keys import WatchedKeys
from crawler.seen.slices.classic_slice import POSITIONS, classic_fpp
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS
from crawler.tools.dedup.store import open_filter

VERSION = 1
STRING_BITS = 2**31
_PIECE = 2**20  # bytes
_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


def read_guava(path: Path) -> Filter:
    """Read a Guava filter from ``path``. Raises FilterFileError."""
    with open_filter(path) as (inp, size):
        found = GuavaBloomFilter.read_from(inp, limit=size)
        if inp.read(1):
            raise FormatError("the file has more data after its last word")
        seen = seen_from_guava(found)
    return seen


def seen_from_guava(found: GuavaBloomFilter) -> Filter:
    """Return a seen-set that shares the words of the Guava filter. Raises FilterError."""
    bits, hashes = found.slice.bits, found.slice.hashes
    capacity = max(1, int(bits * math.log(2) / hashes))
    fpp = classic_fpp(capacity, bits, hashes)
    empty = BloomFilter(capacity, fpp, layout=found.slice.layout, bits=bits, hashes=hashes)
    state: Any = copy.deepcopy(empty.snapshot().state)
    part = state["slices"][0]
    part["count"] = part["admitted"] = round(min(found.slice.count_estimated(), bits))
    # The keys of the filter are unknown, so none can be watched: each would look like a false positive.
    return load_seen(state, {part["segment"]: found.slice.words.data, "watched": WatchedKeys(0).dump()})


def guava_from_seen(seen: Filter) -> GuavaBloomFilter:
    """Return a Guava filter that shares the words of ``seen``. Raises FilterError if the bits of ``seen`` are laid out
    differently."""
    parameters: Any = seen.parameters()
    if parameters.get("layout") not in GUAVA_LAYOUTS:
        made = f"kind {seen.kind}" + (f" and layout {parameters['layout']}" if "layout" in parameters else "")
        raise FilterError(
            f"it is of {made}, whose bits are laid out differently: build it with --layout guava, or guava32 for "
            "MURMUR128_MITZ_32"
        )
    words = np.frombuffer(seen.snapshot().segments[0].buffer, "<u8")
    return GuavaBloomFilter(GUAVA_LAYOUTS[parameters["layout"]](len(words) * 64, parameters["hashes"], words))


def redis_commands(seen: Filter, key: str, string_bits: int = STRING_BITS) -> Iterator[bytes]:
    """Return commands that write the bits of ``seen`` to ``key``:0 and so on, and its description to ``key``. Raises
    FilterError, before the first command, if the layout of ``seen`` is not one bit per position. ``string_bits`` must
    be a multiple of 2**23."""
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
    # The description is written last, so that a client that finds it also finds all bits.
    yield _command("DEL", key)
    yield _command("HSET", key, *(word for field in fields.items() for word in field))


def _command(*words: str | int | bytes) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)

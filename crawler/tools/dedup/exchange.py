"""Converts filters from and to other libraries: Guava (``crawler.seen.filters.guava``).

A seen-set of kind ``bloom`` and layout ``guava``, or ``guava32`` for the strategy MURMUR128_MITZ_32, has exactly the
bits of a Guava filter, so conversion loses nothing in either direction. A Guava file stores neither its number of keys
nor its intended capacity. The first is estimated from its bits. The second is assumed to be the number at which half of
the bits are set and the fpp is 2**-k.
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np

from crawler.seen.filters import BloomFilter, Filter, FilterError, FormatError, load_seen
from crawler.seen.filters.guava import GuavaBloomFilter
from crawler.seen.filters.watched_keys import WatchedKeys
from crawler.seen.slices.classic_slice import classic_fpp
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS
from crawler.tools.dedup.store import open_filter


def read_guava(path: Path) -> Filter:
    """Read a Guava filter from ``path``. Raises FilterFileError."""
    with open_filter(path) as (inp, size):
        found = GuavaBloomFilter.read_from(inp, limit=size)
        if inp.read(1):
            raise FormatError("the file has more data after its last word")
        seen = seen_from_guava(found)
    return seen


def seen_from_guava(found: GuavaBloomFilter) -> Filter:
    """Return a seen-set that uses the filter's words. Raises FilterError."""
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
    """Return the Guava filter that uses the words of ``seen``. Raises FilterError if the bits of ``seen`` are laid out
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

"""Plans the slices of a seen-set, and the size of each kind for a new crawl.

Pure arithmetic: nothing is allocated. Sizes are computed by the slices' own rules.

    plan(urls, ...)     for each kind: bytes, bits per URL, slices and the bound on its fpp with ``urls`` URLs
    plan_compacted(...) the same for the chain of a crawl, which is rebuilt as one slice from time to time
    schedule(...)       the slices that a seen-set opens, one after another
    next_size(...)      the size of the next slice of a seen-set in use
    Room, check_memory  whether slices fit into the free memory. The filters also check this before they allocate
                        memory; the checks here name the purpose of the memory, and add up several filters
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

from msgspec import Struct

from crawler.base.memory import available_memory, memory_left
from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters.chain_compaction import GROWTH, TIGHTENING, following_share, successor_share
from crawler.seen.filters.guava import guava_size
from crawler.seen.filters.protocol import SeenStatistics
from crawler.seen.slices.blocked_slice import sized_blocks
from crawler.seen.slices.classic_slice import classic_size
from crawler.seen.slices.cuckoo_slice import LOAD, PLACES, TAG_BITS, cuckoo_fpp
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.fpp_model import compound
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS, GuavaSlice32
from crawler.seen.slices.table_slice import table_buckets

_FIXED = ("bloom", "bitmap")


class SlicePlan(Struct, frozen=True):
    """The size and fpp of a future slice."""

    capacity: int  # maximum number of keys
    size: int  # bytes
    fpp: float  # false-positive rate when full


class Plan(Struct, frozen=True):
    """The size of a seen-set of one kind when it holds the planned number of URLs."""

    kind: str
    slices: int
    size: int  # bytes
    bits_per_url: float
    fpp: float  # upper bound of the compound fpp
    urls_skipped: float  # upper bound of the expected number of URLs skipped by mistake
    forgets: bool
    peak: int  # maximum number of bytes while the set grows


def schedule(parameters: Mapping[str, Any], compacted: int | None = None) -> Iterator[SlicePlan]:
    """Yield the slices that a seen-set with these ``parameters()`` opens, in order; only one if its size is fixed.

    ``compacted`` is the capacity of the first slice of a compacted chain. Raises ``FilterError`` for a kind
    that has no slices.
    """
    if compacted is not None:
        yield from _compacted(parameters, compacted)
    kind, growth = parameters["kind"], parameters.get("growth")
    capacity = parameters["capacity"]
    number, spent = 0, 0.0
    while number == 0 or growth is not None:
        keys = capacity if growth is None else int(capacity * growth**number)
        fpp = parameters.get("fpp", 0.0)
        if growth is not None and "tightening" in parameters:
            fpp *= (1 - parameters["tightening"]) * parameters["tightening"] ** number
        if kind == "cuckoo":
            may = fpp if growth is None else (fpp - spent) / 2
            made = _cuckoo(keys, may)
            spent += made.fpp
        else:
            made = _slice(kind, keys, fpp, parameters)
        yield made
        number += 1


def _compacted(parameters: Mapping[str, Any], capacity: int) -> Iterator[SlicePlan]:
    fpp, growth, tightening = parameters["fpp"], parameters["growth"], parameters["tightening"]
    yield _slice("scalable", capacity, fpp * tightening, parameters)
    for number in count():
        yield _slice("scalable", *following_share(number, capacity, fpp, growth, tightening), parameters)


def successor_plan(keys: int, parameters: Mapping[str, Any]) -> SlicePlan:
    """Return the slice that replaces a scalable chain with ``keys`` keys."""
    return _slice("scalable", *successor_share(keys, parameters["fpp"], parameters["tightening"]), parameters)


def _slice(kind: str, keys: int, fpp: float, parameters: Mapping[str, Any]) -> SlicePlan:
    match kind:
        case "scalable" | "bloom":
            bits = parameters.get("bits")
            return SlicePlan(keys, bits // 8 if bits else _bloom_size(parameters["layout"], keys, fpp), fpp)
        case "bitmap":
            return SlicePlan(keys, classic_size(keys, fpp, 1)[0] // 8, fpp)
        case "counting":
            return SlicePlan(keys, classic_size(keys, fpp)[0] * parameters["counter_bits"] // 8, fpp)
        case "digest":
            bits = parameters["digest_bits"]
            return SlicePlan(keys, table_buckets(keys, bits) * 64, keys / 2.0**bits)
    raise FilterError(f"a seen-set of kind {kind} cannot be planned")


def _bloom_size(layout: str, keys: int, fpp: float) -> int:
    if layout == "classic":
        return classic_size(keys, fpp)[0] // 8
    shape, per_region = sized_blocks(keys, fpp, blocks=2 if layout == "paired" else 1)
    return shape.blocks * per_region * shape.words * 8


def _cuckoo(keys: int, may: float) -> SlicePlan:
    for tag_bits in TAG_BITS:
        fpp = cuckoo_fpp(LOAD, tag_bits)
        if fpp <= may:
            buckets = max(2, math.ceil(keys / (PLACES * LOAD)))
            return SlicePlan(keys, math.ceil(buckets * PLACES * tag_bits / 64) * 8, fpp)
    raise FilterError(f"the widest tag of a cuckoo filter is too narrow for an fpp of {may:.3g}")


def plan(urls: int, fpp: float = 0.001, capacity: int = 2**20) -> list[Plan]:
    """Return a plan for every kind for ``urls`` URLs at ``fpp``, except the kinds that ``not_planned`` lists.

    Kinds of fixed size are planned for exactly ``urls`` keys. Raises ``FilterError`` for invalid numbers.
    """
    made = _plans(urls, fpp, capacity)
    return [each for each in made.values() if isinstance(each, Plan)]


def not_planned(urls: int, fpp: float = 0.001, capacity: int = 2**20) -> dict[str, str]:
    """Return the kinds that ``plan`` omits, with the reasons. Raises ``FilterError`` for invalid numbers."""
    made = _plans(urls, fpp, capacity)
    return {kind: each for kind, each in made.items() if isinstance(each, str)}


def _plans(urls: int, fpp: float, capacity: int) -> dict[str, Plan | str]:
    _check_plan(urls, fpp)
    fixed = {"capacity": urls, "fpp": fpp}
    growing = {"capacity": capacity, "fpp": fpp, "growth": GROWTH}
    made: list[dict[str, Any]] = [
        {"kind": "scalable", **growing, "tightening": TIGHTENING, "layout": "paired"},
        {"kind": "bloom", **fixed, "layout": "paired"},
        {"kind": "counting", **growing, "tightening": TIGHTENING, "counter_bits": 4},
        {"kind": "cuckoo", **growing},
        {"kind": "digest", "capacity": capacity, "growth": GROWTH, "digest_bits": 128},
        {"kind": "bitmap", **fixed},
    ]
    return {parameters["kind"]: _plan_or_why_not(urls, parameters) for parameters in made}


def _plan_or_why_not(urls: int, parameters: dict[str, Any]) -> Plan | str:
    try:
        return _plan_one(urls, parameters)
    except FilterError as problem:
        return str(problem)
    except (OverflowError, ZeroDivisionError):
        return "larger than any machine's memory"


def plan_compacted(urls: int, fpp: float = 0.001, capacity: int = 2**20, *, slices: int = 2) -> Plan:
    """Plan the ``scalable`` chain of a crawl, which is rebuilt as one slice whenever it has ``slices`` slices.

    ``size`` is the size between two compactions, ``peak`` the size during the last one (``chain_compaction``). Raises
    ``FilterError`` for invalid numbers.
    """
    _check_plan(urls, fpp)
    growing = {"capacity": capacity, "fpp": fpp, "growth": GROWTH, "tightening": TIGHTENING}
    parameters = {"kind": "scalable", "layout": "paired", **growing}
    chain: list[SlicePlan] = []
    following = schedule(parameters)
    peak, worst = 0, 0.0
    while sum(part.capacity for part in chain) < urls:
        chain.append(next(following))
        size = sum(part.size for part in chain)
        if len(chain) >= slices:
            chain = [successor_plan(sum(part.capacity for part in chain[:-1]), parameters)]
            size += chain[0].size
            following = islice(schedule(parameters, chain[0].capacity), 1, None)
        peak = max(peak, size)
        worst = max(worst, compound(part.fpp for part in chain))
    size = sum(part.size for part in chain)
    return Plan("scalable", len(chain), size, size * 8 / urls, worst, urls * worst / (1 - worst), False, peak)


def _check_plan(urls: int, fpp: float) -> None:
    if urls < 1:
        raise FilterError(f"the number of URLs must be at least 1, not {urls}")
    if not 0 < fpp < 1:
        raise FilterError(f"fpp must be between 0 and 1, not {fpp}")


def _plan_one(urls: int, parameters: dict[str, Any]) -> Plan:
    keys = size = slices = 0
    fpp = 0.0
    for part in schedule(parameters):
        keys += part.capacity
        size += part.size
        slices += 1
        fpp = compound((fpp, part.fpp))
        if keys >= urls:
            break
    forgets = parameters["kind"] in ("counting", "cuckoo")
    return Plan(parameters["kind"], slices, size, size * 8 / urls, fpp, urls * fpp / (1 - fpp), forgets, size)


def next_size(statistics: SeenStatistics, parameters: Mapping[str, Any], compact_slices: int = 0) -> int | None:
    """Return the bytes of the next slice of a seen-set with these ``statistics()`` and ``parameters()``, plus those of
    its successor if the slice triggers a compaction; None if there is no next slice.

    ``compact_slices`` is the number of slices at which a scalable chain is compacted; 0 for never. Raises
    ``FilterError`` for a kind that has no slices.
    """
    slices = statistics["slices"]
    compacted = slices[0]["capacity"] if statistics["compactions"] else None
    following = next(islice(schedule(parameters, compacted), len(slices), None), None)
    if following is None:
        return None
    if parameters["kind"] != "scalable" or not 0 < compact_slices <= len(slices) + 1:
        return following.size
    keys = statistics["count"] + max(0, slices[-1]["capacity"] - slices[-1]["count"])
    return following.size + successor_plan(keys, parameters).size


# -- whether a seen-set fits into the free memory, before anything is allocated ----------------------------------------


def check_memory(size: int, what: str) -> None:
    """Check that ``size`` bytes are free. Raises FilterError."""
    free = available_memory()
    if free is not None and size > free:
        raise FilterError(f"{what} takes {size:,} bytes of memory, but {memory_left(free)}")


class Room:
    """Checks the memory for each slice of a seen-set with the given ``parameters()`` before it is created."""

    def __init__(self, parameters: Mapping[str, Any], opened: int = 0, compacted: int | None = None) -> None:
        """Create this for a seen-set that already has ``opened`` slices; ``compacted`` is the capacity of the first
        slice if it has replaced a chain. Raises FilterError if the slices cannot be planned."""
        self._planned: Iterator[SlicePlan] = schedule(parameters, compacted)
        self._reach: float = 0
        for _ in range(opened):
            self._next()

    def need(self, keys: int) -> None:
        """Call this before the number of keys reaches ``keys``. Raises FilterError if there is too little memory for
        their slices."""
        while self._reach < keys:
            part = self._next()
            if part is not None:
                check_memory(part.size, f"a slice for {part.capacity:,} keys")

    def _next(self) -> SlicePlan | None:
        try:
            part = next(self._planned, None)
        except (OverflowError, ZeroDivisionError):
            raise FilterError("the slice is larger than any machine's memory") from None
        self._reach = float("inf") if part is None else self._reach + part.capacity
        return part


def planned_parameters(settings: SeenSettings, layout: str) -> dict[str, Any]:
    """Return the part of a seen-set's ``parameters()`` that determines its size, computed from the settings."""
    made: dict[str, Any] = {"kind": settings.kind, "capacity": settings.capacity, "fpp": settings.fpp}
    made |= {"layout": layout, "counter_bits": 4, "digest_bits": 128, **geometry(settings, layout)}
    if settings.kind not in _FIXED:
        made["growth"] = GROWTH
    if settings.kind in ("scalable", "counting"):
        made["tightening"] = TIGHTENING
    return made


def geometry(settings: SeenSettings, layout: str) -> dict[str, int]:
    """Return the bits and hashes for Guava's layouts, which have their own formula."""
    if layout not in GUAVA_LAYOUTS:
        return {}
    words, hashes = guava_size(settings.capacity, settings.fpp, narrow=layout == GuavaSlice32.layout)
    return {"bits": words * 64, "hashes": hashes}

"""Copies a local filter to a shared set, and back.

Pull: the parts of a slice are concatenated, which gives the slice of a local ``scalable`` filter with the layout
``blocked``. Keys added during the transfer may be missing in the result. Watched keys are not pulled.

Push: a ``scalable`` filter with the layout ``blocked`` is split into a new set with the same answers. Any other filter
can only be pushed by the digests of its keys, which are added to the set.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from crawler.seen.filters import DIGEST_BYTES, Filter, FilterError, KeyHash, ScalableBloomFilter, load_seen
from crawler.seen.filters.watched_keys import WatchedKeys
from crawler.seen.shared.shard_geometry import BLOCK, LAYOUT, Geometry, SetParameters, part_of, shards_for
from crawler.seen.shared.shard_requests import (
    Answer,
    Figures,
    Fill,
    Open,
    Read,
    Request,
    SharedSetError,
    SliceFigures,
    Status,
)
from crawler.seen.shared.shared_set import SharedSet
from crawler.seen.slices.bit_storage import zeroed_words
from crawler.seen.slices.blocked_slice import BlockedSlice
from crawler.seen.slices.fpp_model import BlockShape

UNWATCHED = -1  # the existing keys are unknown, and would look like false positives
_PIECE = 2**20  # bytes of a string in one request
_TOGETHER = 2**24  # bytes of requests sent at once
_DIGESTS = 2**14  # keys to push at a time


class Adding(Protocol):
    """A set to which keys can be added."""

    def add_digests(self, digests: bytes) -> list[int]:
        """Add keys. Returns the positions of the new ones."""


def pull(seen: SharedSet) -> Filter:
    """Return the set as a local filter. Raises SharedSetError, FilterError."""
    answers = seen.settled(lambda shard: Figures(shard, seen.set, seen.slices[shard], BLOCK, 0))
    parts = [answer.parts for answer in answers]
    made, segments = _empty(seen.parameters, seen.hash), dict[str, memoryview]()
    described = made["slices"][0]
    made["slices"] = []
    for number in range(max(map(len, parts))):
        held = {shard: part[number] for shard, part in enumerate(parts) if number < len(part)}
        first = next(iter(held.values())).geometry
        words = zeroed_words(first.whole * BLOCK // 8)
        for shard, part in held.items():
            _read(seen, shard, number, part, words)
        count = sum(part.held for part in held.values())
        name = f"slice-{number:04d}"
        capacity = int(seen.parameters.capacity * seen.parameters.growth**number)
        shape = {"hashes": first.hashes, "blocks_per_region": first.whole, "capacity": capacity, "fpp": first.fpp}
        made["slices"].append({**described, **shape, "segment": name, "count": count, "admitted": count})
        segments[name] = words.data.cast("B")
    # The keys of the set are unknown, so none can be watched: each would look like a false positive.
    return load_seen(made, {**segments, "watched": WatchedKeys(0).dump()})


def _empty(parameters: SetParameters, hash: KeyHash) -> dict[str, Any]:
    empty = ScalableBloomFilter(
        parameters.fpp,
        parameters.capacity,
        growth=parameters.growth,
        tightening=parameters.tightening,
        layout=LAYOUT,
        hash=hash,
    )
    return copy.deepcopy(empty.snapshot().state)


def _read(seen: SharedSet, shard: int, number: int, part: SliceFigures, words: np.ndarray) -> None:
    geometry = part.geometry
    requests = [
        Read(shard, number, start, min(start + _PIECE, geometry.size)) for start in range(0, geometry.size, _PIECE)
    ]
    data = b"".join(answer.data for answer in _in_turn(seen, requests))
    if len(data) != geometry.size:
        raise SharedSetError(f"shard {shard} of the set is incomplete: its server lost data")
    start = geometry.first * BLOCK // 8
    words[start : start + len(data) // 8] |= np.frombuffer(data, "<u8")


def _in_turn(seen: SharedSet, requests: list[Any]) -> Iterator[Answer]:
    step = _TOGETHER // _PIECE
    for start in range(0, len(requests), step):
        yield from seen.shards.ask(requests[start : start + step])


def parameters_of(local: Filter) -> SetParameters:
    """Return the parameters of a set for the keys of ``local``."""
    made: Any = local.parameters()
    capacity = made.get("capacity", len(local) or 1)
    return SetParameters(
        made["fpp"], capacity, made.get("growth", 2.0), made.get("tightening", 0.85), shards_for(capacity)
    )


def is_divisible(local: Filter) -> bool:
    """Return True if the bits of ``local`` can be divided into shards."""
    made: Any = local.parameters()
    now = local.statistics()
    return local.kind == "scalable" and made["layout"] == LAYOUT and not now["compactions"]


def push_bits(local: Filter, seen: SharedSet) -> None:
    """Split ``local`` into the shards of ``seen``, a set that is not in use yet. Raises SharedSetError."""
    shards = seen.parameters.shards
    shot = local.snapshot()
    state: Any = shot.state
    for number, (described, segment) in enumerate(zip(state["slices"], shot.segments, strict=False)):
        whole = described["blocks_per_region"]
        blocks = np.frombuffer(segment.buffer, "<u8").reshape(whole, -1)
        shape = BlockShape(described["hashes"], 1)
        counts = _shared_out(described["count"], blocks, shape, shards)
        for shard in range(shards):
            first, size = part_of(whole, shard, shards)
            capacity = max(1, -(-described["capacity"] // shards))
            geometry = Geometry(described["hashes"], first, size, whole, capacity, described["fpp"])
            _fill(seen, shard, number, geometry, blocks[first : first + size].tobytes(), counts[shard])


def _fill(seen: SharedSet, shard: int, number: int, geometry: Geometry, data: bytes, count: int) -> None:
    (answer,) = seen.shards.ask([Open(shard, seen.set, number, geometry, UNWATCHED)])
    if answer.status is not Status.DONE or answer.slices <= number:
        raise SharedSetError(f"shard {shard} of the set is already in use")
    seen.slices[shard] = answer.slices
    requests: list[Request] = [
        Fill(shard, number, start, data[start : start + _PIECE], count) for start in range(0, len(data), _PIECE)
    ]
    for _ in _in_turn(seen, requests):
        pass


def _shared_out(count: int, blocks: np.ndarray, shape: BlockShape, shards: int) -> list[int]:
    """Divide ``count`` keys among the shards by the bits set in each."""
    estimates = []
    for shard in range(shards):
        first, size = part_of(len(blocks), shard, shards)
        part = BlockedSlice(shape, size, blocks[first : first + size].reshape(-1).copy())
        estimates.append(part.count_estimated())
    total = sum(estimates) or 1.0
    edges = [0.0]
    for estimate in estimates:
        edges.append(edges[-1] + count * estimate / total)
    whole = [round(edge) for edge in edges]
    return [after - before for before, after in itertools.pairwise(whole)]


def push_digests(read: Callable[[int, int], bytes], count: int, seen: Adding) -> int:
    """Add ``count`` digests, which ``read`` returns, given the number of the first one and how many to read. Returns
    how many were new. Raises SharedSetError, OSError."""
    new = 0
    for start in range(0, count, _DIGESTS):
        some = read(start, _DIGESTS)
        if not some or len(some) % DIGEST_BYTES:
            raise FilterError("the digests of the filter are truncated")
        new += len(seen.add_digests(some))
    return new

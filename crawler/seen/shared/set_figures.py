"""The fill and the false-positive rate of a shared set: the statistics of a local filter, over all shards.

A key is looked up in one shard only, so the fpp of the set is the mean over its shards. The watched keys are those of
all shards together.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from crawler.seen.filters.protocol import MeasuredFpp
from crawler.seen.filters.watched_keys import wilson
from crawler.seen.shared.shard_geometry import BLOCK, Geometry, SetParameters
from crawler.seen.shared.shard_requests import Answer, Figures, SliceFigures
from crawler.seen.shared.shared_set import SharedSet
from crawler.seen.slices.fpp_model import BlockShape, SkipCurve, compound

_SAMPLE = 2**20  # maximum bytes to read from each slice of the set


def statistics(seen: SharedSet) -> dict[str, Any]:
    """Return the statistics of ``filter info --json``. Raises SharedSetError."""
    parameters = seen.parameters
    sample = max(BLOCK, _SAMPLE // parameters.shards)
    where = int.from_bytes(seen.hash.secret[:2], "little")  # outsiders cannot predict this number
    answers = seen.settled(lambda shard: Figures(shard, seen.set, seen.slices[shard], sample, where))
    parts = [answer.parts for answer in answers]
    count = sum(part.held for shard in parts for part in shard)
    size = sum(part.geometry.size for shard in parts for part in shard)
    fpps = [compound(map(_fpp, shard)) for shard in parts]
    return {
        "kind": "shared",
        "hash": seen.hash.describe(),
        "shards": parameters.shards,
        "slices": [_together(number, parts) for number in range(max(map(len, parts)))],
        "count": count,
        "count_estimated": sum(_count(part) for shard in parts for part in shard),
        "fpp_target": parameters.fpp,
        "fpp_bound": parameters.fpp,
        "fpp_estimated": sum(fpps) / len(fpps),
        "fpp_measured": _measured(answers),
        "expected_urls_skipped": sum(_skipped(shard, parameters) for shard in parts),
        "bytes": size,
        "bits_per_url": size * 8 / count if count else None,
        "largest_string": max(part.geometry.size for shard in parts for part in shard),
    }


def _together(number: int, shards: list[tuple[SliceFigures, ...]]) -> dict[str, Any]:
    """Return the statistics of slice ``number``, over all shards that have it."""
    parts = [shard[number] for shard in shards if number < len(shard)]
    bits = sum(part.geometry.size * 8 for part in parts)
    return {
        "capacity": sum(part.geometry.capacity for part in parts),
        "count": sum(part.held for part in parts),
        "bits": bits,
        "hashes": parts[0].geometry.hashes,
        "fill": sum(part.bits_set for part in parts) / bits,
        "fpp_design": parts[0].geometry.fpp,
        "fpp_estimated": sum(map(_fpp, parts)) / len(parts),
        "shards": len(parts),
    }


def _shape(geometry: Geometry) -> BlockShape:
    return BlockShape(geometry.hashes, 1)


def _fpp(part: SliceFigures) -> float:
    words = np.frombuffer(part.sample, "<u8").reshape(-1, BLOCK // 8)
    return _shape(part.geometry).fpp_from_words(words)


def _count(part: SliceFigures) -> float:
    fill = part.bits_set / (part.geometry.size * 8)
    return _shape(part.geometry).load_from_fill(fill) * part.geometry.blocks


def _measured(answers: list[Answer]) -> MeasuredFpp | None:
    sample, wrong = sum(answer.watched for answer in answers), sum(answer.wrong for answer in answers)
    if not sample:
        return None
    low, high = wilson(wrong, sample)
    return {"value": wrong / sample, "low": low, "high": high, "sample": sample}


@lru_cache(maxsize=64)
def _curve(hashes: int, blocks: float, capacity: int) -> SkipCurve:
    fpp = BlockShape(hashes, 1).fpp
    return SkipCurve(partial(_at, fpp, blocks), capacity)


def _at(fpp: Any, blocks: float, count: float) -> float:
    found: float = fpp(count / blocks)
    return found


def _skipped(parts: tuple[SliceFigures, ...], parameters: SetParameters) -> float:
    """Return the modelled number of new keys that one shard reported as seen."""
    total, before = 0.0, 0.0
    for part in parts:
        # The mean number of blocks per shard, because a block shared by two shards has fewer keys than others.
        blocks = part.geometry.whole / parameters.shards
        curve = _curve(part.geometry.hashes, blocks, part.geometry.capacity)
        total += curve.skipped(part.held, before)
        before = compound((before, curve.fpp(part.held)))
    return total

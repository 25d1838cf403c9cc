"""Projects the size and fpp of a seen-set in use to a larger number of URLs. Pure arithmetic, as in ``advisor``.

The fpp of a slice is known at two points: 0 when it is empty, and its design value when it is full. In between, a Bloom
slice with k bits per key, half of its bits set by the C keys it was made for, has the design fpp times
(2 (1 - 2**(-n/C)))**k after n keys. For tags and digests the fpp is proportional to n. The result is never below the
current estimate of a slice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from crawler.seen.filters.advisor import SlicePlan, schedule, successor_plan
from crawler.seen.filters.protocol import SeenStatistics
from crawler.seen.slices.fpp_model import compound

_STEPS = 12  # of the sum that approximates the URLs skipped while a slice fills


class Projection(Struct, frozen=True):
    """A seen-set in the future."""

    urls: int
    slices: int
    size: int  # bytes
    fpp: float  # compound
    urls_skipped: float  # expected in all, until then


class _Slice(Struct):
    capacity: int
    count: float
    size: int  # bytes
    fpp: float  # when full
    least: float  # what it is already
    bits: float | None  # set for a key; None where the fpp grows with the keys
    bitmap: bool

    def fpp_with(self, more: float) -> float:
        share = (self.count + more) / self.capacity
        if self.bitmap:
            return max(self.least, -math.expm1(share * math.log1p(-self.fpp)))
        if self.bits is None:
            return max(self.least, self.fpp * min(1.0, share))
        fpp: float = self.fpp * (2 - 2 * 2.0**-share) ** self.bits
        return max(self.least, min(1.0, fpp))


def project(
    statistics: SeenStatistics, parameters: Mapping[str, Any], urls: int, *, compact_slices: int = 0
) -> Projection:
    """The seen-set with these ``statistics()`` and ``parameters()`` when it holds ``urls`` URLs, more than now.

    ``compact_slices`` is as for ``advise``: ``size`` is that of the seen-set, without its successor
    while that is built. Raises ``FilterError`` for a kind that has no slices.
    """
    kind, growing = parameters["kind"], parameters.get("growth") is not None
    chain = [
        _Slice(
            part["capacity"],
            part["count"],
            part["bits"] // 8,
            part["fpp_design"],
            part["fpp_estimated"],
            part["hashes"] if kind in ("scalable", "bloom", "counting") else None,
            kind == "bitmap",
        )
        for part in statistics["slices"]
    ]
    following = islice(
        schedule(parameters, statistics["slices"][0]["capacity"] if statistics["compactions"] else None),
        len(chain),
        None,
    )
    held = sum(part.count for part in chain)
    skipped = statistics["expected_urls_skipped"] or 0.0
    while True:
        if kind == "scalable" and 0 < compact_slices <= len(chain):
            made = successor_plan(sum(part.capacity for part in chain[:-1]), parameters)
            chain = [_planned(made, kind, held)]
            following = islice(schedule(parameters, made.capacity), 1, None)
        last, left = chain[-1], urls - held
        step = min(left, max(0, last.capacity - last.count)) if growing else left
        skipped += _skipped(chain, step)
        last.count += step
        held += step
        if held >= urls:
            break
        chain.append(_planned(next(following), kind, 0))
    fpp = compound(part.fpp_with(0) for part in chain)
    return Projection(urls, len(chain), sum(part.size for part in chain), fpp, skipped)


def _planned(made: SlicePlan, kind: str, count: float) -> _Slice:
    bits = -math.log2(made.fpp) if kind in ("scalable", "counting") else None
    return _Slice(made.capacity, count, made.size, made.fpp, 0.0, bits, bitmap=False)


def _skipped(chain: list[_Slice], step: float) -> float:
    """New URLs that are mistaken for seen ones while ``step`` keys are put into the last slice."""
    others = compound(part.fpp_with(0) for part in chain[:-1])
    total = 0.0
    for number in range(_STEPS):
        fpp = compound((others, chain[-1].fpp_with(step * (number + 0.5) / _STEPS)))
        total += fpp / (1 - fpp) if fpp < 1 else 1.0
    return step * total / _STEPS

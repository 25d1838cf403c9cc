"""The kinds by name, and seen-sets in files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, BinaryIO

from crawler.filters.bloom import Bitmap, BloomFilter
from crawler.filters.chain import Chain
from crawler.filters.growing import CountingFilter, CuckooFilter, DigestTable
from crawler.filters.protocol import SeenSet
from crawler.filters.scalable import ScalableBloomFilter
from crawler.filters.segment_format import FormatError, read_segment, write_segment
from crawler.settings import SeenSettings
from crawler.slices.errors import FilterError

_CLASSES: dict[str, type[Chain]] = {
    made.kind: made for made in (ScalableBloomFilter, BloomFilter, CountingFilter, CuckooFilter, DigestTable, Bitmap)
}
KINDS = tuple(_CLASSES)


def make_seen(settings: SeenSettings) -> SeenSet:
    """An empty seen-set of the kind asked for.

    Raises ``FilterError`` when there is no such kind, or none with these parameters.
    """
    fpp, capacity, growth, tightening = settings.fpp, settings.capacity, settings.growth, settings.tightening
    match settings.kind:
        case "scalable":
            return ScalableBloomFilter(fpp, capacity, growth=growth, tightening=tightening, layout=settings.layout)
        case "bloom":
            return BloomFilter(capacity, fpp, layout=settings.layout)
        case "counting":
            return CountingFilter(fpp, capacity, growth=growth, tightening=tightening)
        case "cuckoo":
            return CuckooFilter(fpp, capacity, growth=growth)
        case "digest":
            return DigestTable(capacity, growth=growth)
        case "bitmap":
            return Bitmap(capacity, fpp)
        case unknown:
            raise _unknown(unknown)


def load_seen(state: Mapping[str, Any], segments: Mapping[str, memoryview]) -> SeenSet:
    """The seen-set of a snapshot: its state, and its segments' stored buffers by name.

    Restoring the keys that were new since (``restore``, in their order) then gives the seen-set as it was.
    Raises ``FilterError`` when the parts do not fit together.
    """
    try:
        kind = state["parameters"]["kind"]
        if kind not in _CLASSES:
            raise _unknown(kind)
        _check_figures(state)
        return _CLASSES[kind].from_snapshot(state, segments)
    except FilterError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        raise FilterError(f"the state of the stored seen-set is damaged: {problem!r}") from problem


def _check_figures(state: Mapping[str, Any]) -> None:
    """Raises ``FilterError`` for what no seen-set of this program says of itself: it would only be found out in use."""
    compactions, guests = state.get("compactions", 0), state.get("guests", 0)
    whole = all(isinstance(number, int) for number in (compactions, guests))
    if not whole or compactions < 0 or not 0 <= guests < max(1, len(state.get("slices", ()))):
        raise FilterError(
            f"a seen-set cannot have been compacted {compactions} times and have {guests} slices of others"
        )
    if compactions and state["parameters"]["kind"] != ScalableBloomFilter.kind:
        raise FilterError(f"a seen-set of kind {state['parameters']['kind']} is not compacted")
    skipped, bound = state.get("skipped_before", 0.0), state.get("guests_bound", 0.0)
    if not 0 <= skipped < math.inf or not 0 <= bound <= 1:
        raise FilterError(
            f"a seen-set cannot have skipped {skipped} URLs, or have a bound of {bound} for slices of others"
        )


def _unknown(kind: object) -> FilterError:
    return FilterError(f"there is no seen-set of kind {kind}; there are {', '.join(KINDS)}")


def write_seen(out: BinaryIO, seen: SeenSet) -> None:
    """Store ``seen`` as one file: a segment that holds its state and no payload, then its segments.

    Nothing may be added meanwhile.
    """
    shot = seen.snapshot()
    names: list[Any] = [part.name for part in shot.segments]
    write_segment(out, {"holds": "seen-set", "state": shot.state, "segments": names}, memoryview(b""))
    for part in shot.segments:
        write_segment(out, part.header, part.buffer)


def read_seen(inp: BinaryIO, *, limit: int) -> SeenSet:
    """The inverse; ``limit`` bounds the bytes of a segment (the size of the file does well).

    Raises ``FormatError`` for bytes that are no such file, ``FilterError`` for parts that do not fit
    together.
    """
    state, names = state_and_names(read_segment(inp, limit=0)[0])
    return load_seen(state, {name: read_segment(inp, limit=limit)[1] for name in names})


def state_and_names(head: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """What the header of a file's first segment says: the seen-set's state, and the names of the segments that follow.

    Raises ``FormatError`` for any other header.
    """
    state, names = head.get("state"), head.get("segments")
    if head.get("holds") != "seen-set" or not isinstance(state, Mapping) or not isinstance(names, list):
        raise FormatError("the file begins with a segment that is no seen-set's state")
    if not all(isinstance(name, str) for name in names):
        raise FormatError("the segments that the file says to follow have no names")
    return state, names

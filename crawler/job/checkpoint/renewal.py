"""Decides whether a generation stores the seen-set again, or refers to the one that an earlier generation stored.

A slice that still accepts keys is written as a whole, so storing it costs its full size however few keys are new. The
journal has these keys anyway, and a restart sets their bits again in half a microsecond each. So the earlier slice is
good enough while

- the chain has the same slices: none was sealed or replaced since. The journal records only keys that were added or
  removed;
- few keys were added or removed since. ``BYTES_PER_KEY`` bounds the bytes written per new key, in addition to the 16
  bytes in the journal. ``MOST_KEYS`` bounds the time of a restart. It is more than 1% of the keys of a gigabyte.

A seen-set of at most ``FEW_BYTES`` is stored each time: writing it is cheap, and a restart then replays almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from crawler.job.checkpoint.generations import Manifest
from crawler.seen.filters import Part

FEW_BYTES = 4 * 2**20
BYTES_PER_KEY = 32
MOST_KEYS = 6 * 2**20  # replayed in about three seconds


class Renewal(Struct, frozen=True):
    """The bounds for the decision; measurements and simulations use others."""

    few_bytes: int = FEW_BYTES
    bytes_per_key: int = BYTES_PER_KEY
    most_keys: int = MOST_KEYS


USUAL = Renewal()


def must_store(newest: Manifest | None, parts: Sequence[Part], keys: int, renewal: Renewal = USUAL) -> bool:
    """True if a generation must store the seen-set again. The seen-set consists of ``parts``; ``keys`` were added or
    removed since the ``newest`` generation's seen-set was stored."""
    if newest is None or {(s.name, s.sealed) for s in newest.segments} != {(part.name, part.sealed) for part in parts}:
        return True
    written = sum(part.size for part in parts if part.journaled and not part.sealed)
    return written <= renewal.few_bytes or keys >= renewal.most_keys or keys * renewal.bytes_per_key >= written

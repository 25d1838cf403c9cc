"""When a generation stores the seen-set again, and when it names what an earlier one has stored.

A slice that still takes keys is written whole, so storing it costs its bytes however few keys are new. The journal has
these keys anyway, and a restart sets their bits again: half a microsecond each. So the earlier slice will do, while

- it is a slice of the same chain: nothing was sealed, replaced or put in its place since. The journal tells of keys
  that came and went, and of nothing else;
- few keys came since. ``BYTES_PER_KEY`` bounds what is written for a new key, beside the 16 bytes that the journal
  takes for it, and ``MOST_KEYS`` what a restart takes. They are more than 1% of the keys that a gigabyte holds.

A slice of ``FEW_BYTES`` is stored each time: writing it is nothing, and there is then next to nothing to be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawler.checkpoint.generations import Manifest
from crawler.filters import Part

FEW_BYTES = 4 * 2**20
BYTES_PER_KEY = 32
MOST_KEYS = 6 * 2**20  # about three seconds


@dataclass(frozen=True, slots=True)
class Renewal:
    """The bounds that decide; a measurement or a simulation sets others."""

    few_bytes: int = FEW_BYTES
    bytes_per_key: int = BYTES_PER_KEY
    most_keys: int = MOST_KEYS


USUAL = Renewal()


def must_store(newest: Manifest | None, parts: Sequence[Part], keys: int, renewal: Renewal = USUAL) -> bool:
    """Whether a generation must store the seen-set, which consists of ``parts``, again: ``keys`` came or went since the
    one that the ``newest`` generation names was stored."""
    if newest is None or {(s.name, s.sealed) for s in newest.segments} != {(part.name, part.sealed) for part in parts}:
        return True
    written = sum(part.size for part in parts if part.journaled and not part.sealed)
    return written <= renewal.few_bytes or keys >= renewal.most_keys or keys * renewal.bytes_per_key >= written

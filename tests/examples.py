"""How many examples property tests make: as many as a run of some minutes has room for, or ``TIMES`` as many."""

from __future__ import annotations

import os

# python -m pytest --long tests/frontier, or LONG=100 for a longer look.
TIMES = int(os.environ.get("LONG", "1"))
USUAL = 30 * TIMES  # where a test says nothing


def long_or(usual: int, long: int) -> int:
    """How much of a flood is enough: ``usual`` where a limit is what is tested, ``long`` for a long look."""
    return usual if TIMES == 1 else long

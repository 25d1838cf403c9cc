"""Python's garbage collector beside an event loop that must not stand still."""

from __future__ import annotations

import gc

_NEW_OBJECTS = 10_000  # after which a young pass begins; Python's own number is 700


def spare_the_collector() -> None:
    """Take what lives as long as the process (modules, settings, the hosts of a job that is carried on) out of the
    garbage collector's sight. Each of its full passes walks all that it sees, while the event loop stands still.

    Young passes become rarer: a step makes dozens of objects, and nearly all of them are gone without it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])

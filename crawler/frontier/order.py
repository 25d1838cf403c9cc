"""The order of a crawl: the default class of a URL, and its rank within its class and host.

    breadth   fewest links from a seed first, then first come, first served
    depth     newest first: follow the links of the page fetched last
    score     like breadth, but important hosts and pages first, see ``crawler.frontier.importance``

Ranks are part of stored keys, so the order of a job is fixed when it begins.
"""

from __future__ import annotations

from enum import StrEnum

from crawler.frontier.entry import Entry, fresh_slot, revisit_slot
from crawler.settings import CLASSES

_RANK_MAX = 2**64 - 1
_MIDDLE_CLASS = 3


class Order(StrEnum):
    """The values of ``--order``."""

    BREADTH = "breadth"
    DEPTH = "depth"
    SCORE = "score"


def default_class(order: Order, depth: int, *, seed: bool) -> int:
    """The class of a URL that matches no rule. In breadth order it is the depth, up to the last class, so that URLs
    near the seeds have more turns. In the other orders seeds are in class 0 and all others in one class."""
    if seed:
        return 0
    return min(depth, CLASSES - 1) if order is Order.BREADTH else _MIDDLE_CLASS


def slot_of(order: Order, entry: Entry, number: int) -> bytes:
    """The slot of a new entry in its host's queue."""
    if entry.revisit:
        return revisit_slot(number)
    return fresh_slot(number, entry.priority, _RANK_MAX - number if order is Order.DEPTH else entry.depth)

"""The order of a crawl: which class a URL gets by default, and its rank among those of its class and host.

    breadth   fewest links from a seed first, then first come, first served
    depth     the newest first: down along the links of the page fetched last
    score     as by breadth, but important hosts and pages first, see ``crawler.frontier.importance``

Ranks are part of stored keys: the order of a job is fixed when it begins.
"""

from __future__ import annotations

from enum import StrEnum

from crawler.frontier.entry import Entry, fresh_slot
from crawler.settings import CLASSES

_RANK_MAX = 2**64 - 1
_MIDDLE_CLASS = 3


class Order(StrEnum):
    """What ``--order`` can be."""

    BREADTH = "breadth"
    DEPTH = "depth"
    SCORE = "score"


def default_class(order: Order, depth: int, *, seed: bool) -> int:
    """The class of a URL that no rule speaks of. By breadth it is the depth, up to the last class: what is nearer to
    the seeds has the larger share of turns. In the other orders all but seeds are alike."""
    if seed:
        return 0
    return min(depth, CLASSES - 1) if order is Order.BREADTH else _MIDDLE_CLASS


def slot_of(order: Order, entry: Entry, number: int) -> bytes:
    """The place in its host's queue of an entry that was not asked for yet."""
    return fresh_slot(number, entry.priority, _RANK_MAX - number if order is Order.DEPTH else entry.depth)

"""The order of a crawl: which class a URL gets by default, and its rank among those of its class and host.

    breadth   fewest links from a seed first, then first come, first served
    depth     the newest first: down along the links of the page fetched last
    score     the largest score handed down first, see ``crawler.frontier.importance``

Ranks are part of stored keys: the order of a job is fixed when it begins.
"""

from __future__ import annotations

import math
from enum import StrEnum

from crawler.frontier.entry import Entry, fresh_slot
from crawler.settings import CLASSES

_RANK_MAX = 2**64 - 1
_STEPS = 16  # ranks for each halving of a score
_LEAST_SCORE = 2.0**-126  # the smallest that is stored in four bytes without losing digits
_MIDDLE_CLASS = 3


class Order(StrEnum):
    """What ``--order`` can be."""

    BREADTH = "breadth"
    DEPTH = "depth"
    SCORE = "score"


def default_class(order: Order, depth: int, *, seed: bool) -> int:
    """The class of a URL that no rule speaks of. By breadth it is the depth, up to the last class: what is nearer to
    the seeds has the larger share of turns. The other orders have a measure of their own for all but seeds."""
    if seed:
        return 0
    return min(depth, CLASSES - 1) if order is Order.BREADTH else _MIDDLE_CLASS


def slot_of(order: Order, entry: Entry, number: int) -> bytes:
    """Where an entry that was not asked yet stands in its host's queue."""
    if order is Order.BREADTH:
        rank = entry.depth
    elif order is Order.DEPTH:
        rank = _RANK_MAX - number
    else:
        rank = score_rank(entry.score)
    return fresh_slot(number, entry.priority, rank)


def score_rank(score: float) -> int:
    """The rank of a score: smaller for a larger one, scores within a sixteenth of a halving alike."""
    return max(0, 2**16 - round(_STEPS * math.log2(max(score, _LEAST_SCORE))))
